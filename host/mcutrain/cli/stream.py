"""`mcutrain stream`: a sensor trains a network while it measures."""

from __future__ import annotations

import json
import math
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from mcutrain.cli.common import (
    ERR,
    MAX_SEED,
    OUT,
    Baud,
    DeviceName,
    Json,
    open_with_image,
    progress,
    read_bytes,
    real,
    show,
    table,
)
from mcutrain.cli.evaluate import read_state, run_or_file
from mcutrain.cli.interrupt import Stopper
from mcutrain.cli.saturation import warn
from mcutrain.cli.sources import (
    Columns,
    Hop,
    KeysOption,
    Label,
    LabelColumn,
    LabelFrom,
    LeftOut,
    Offset,
    Scale,
    Silence,
    SourceBaud,
    Sources,
    labelled,
    labeller,
    options_of,
    windows_of,
)
from mcutrain.cli.work import SAVE_SECONDS, Settings, fresh_folder
from mcutrain.errors import InputError, McutrainError
from mcutrain.files import locked, make_folder, write_atomic
from mcutrain.image.unpack import unpack
from mcutrain.link.channel import START_BAUD
from mcutrain.link.session import Session
from mcutrain.report.log import FORMAT, LOG, RUN, STREAM, LogWriter
from mcutrain.sensors import Keys, SourceOptions, Window
from mcutrain.trainer import Checkpoint, Schedule
from mcutrain.trainer.live import Format, Tally, live

_JUDGED = 20  # windows after which the user is told of wrong units

Evaluate = Annotated[
    bool, typer.Option("--evaluate", help="Only predict; nothing is learned or written.")
]
State = Annotated[
    Path | None, typer.Option(help="A trained state to start from: a file, or a run folder.")
]
HeadFactor = Annotated[float, real("The classifier's rate is this many times as high.")]
ClassNames = Annotated[
    str | None, typer.Option(help="Names of the classes, in order: walk,run,stand.")
]
Seed = Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Seed of the device's random bits.")]


def run(
    image: Annotated[Path, typer.Argument(help="The image to train.")],
    sources: Sources,
    out: Annotated[Path, typer.Option(help="The run folder to write.")] = Path("run"),
    device: DeviceName = "host",
    baud: Baud = None,
    evaluate: Evaluate = False,
    state: State = None,
    rate: Annotated[float, real("Learning rate.")] = 0.01,
    head_factor: HeadFactor = 1.0,
    windows: Annotated[int | None, typer.Option(min=1, help="Stop after so many windows.")] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Read files so many times.")] = 1,
    hop: Hop = None,
    label: Label = None,
    label_from: LabelFrom = "column",
    keys: KeysOption = None,
    classes: ClassNames = None,
    columns: Columns = None,
    label_column: LabelColumn = "label",
    scale: Scale = "1",
    offset: Offset = "0",
    source_baud: SourceBaud = START_BAUD,
    silence: Silence = 5.0,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Train on what a sensor measures, window by window, as it comes.

    A window is as long as the network's input; its values are in the units that the network was
    calibrated with (--scale, --offset). A window with a label is predicted, then learned; one
    without is predicted. Ctrl-C ends a live stream. The run folder is like that of train.

    Example: mcutrain stream imu.mcti /dev/ttyACM1 --keys w=walk,r=run --device /dev/ttyACM0
    """
    content = read_bytes(image, "image")
    form = Format(unpack(content, str(image)), classes.split(",") if classes else ())
    Schedule(rate, 0, head_factor=head_factor)  # refuses rates that no device takes
    unpacked = unpack(content, str(image))
    initial = None if state is None else read_state(run_or_file(state), unpacked)
    options = options_of(source_baud, columns, label_column, scale, offset, silence)
    stream = Stream(form, sources, repeat, options, hop, (label, label_from), keys)
    settings = Settings(STREAM + ",".join(sources), None, rate, 0, 0.0, False, head_factor, seed)
    with ExitStack() as stack:
        stopper = stack.enter_context(Stopper())
        folder = None if evaluate else out
        if folder is not None:
            stack.enter_context(locked(make_folder(folder)))
            fresh_folder(folder, content, f"--state {shlex.quote(str(out))} trains on from it")
        session = stack.enter_context(open_with_image(device, image, baud))
        opened = session.open(content)
        session.reset(seed)
        if initial is not None:
            session.write_state(initial)
        where = {"name": device} | asdict(opened)
        work = _Work(stream, session, settings, folder, stopper, as_json, where)
        result = work.run(None if evaluate else (rate, rate * head_factor), windows)
    show(as_json, result, lambda: _draw(result, None if evaluate else out))


class Stream:
    """Windows of sources, one after the other, with their labels."""

    def __init__(
        self,
        form: Format,
        sources: list[str],
        repeat: int,
        options: SourceOptions,
        hop: int | None,
        label: tuple[str | None, str],
        keys: str | None,
    ) -> None:
        self.form = form
        self.name = ", ".join(sources)
        self._sources = sources
        self._repeat = repeat
        self._options = options
        self._hop = hop
        self._label = label
        self._keys = Keys.parse(keys) if keys is not None else None
        self.left_out = LeftOut()
        for name in sources:
            labeller(name, *label, None)  # refuses a wrong rule before anything is opened

    def windows(self) -> Iterator[Window | None]:
        """All of them; None where nothing came for a moment."""
        with ExitStack() as stack:
            key = stack.enter_context(self._keys).label if self._keys else None
            for _ in range(self._repeat):
                found = False
                for window in self._once(key):
                    found = found or window is not None
                    yield window
                if not found:
                    return  # nor will there be any the next time

    def _once(self, key: Callable[[], str | None] | None) -> Iterator[Window | None]:
        for name in self._sources:
            rule = labeller(name, *self._label, key)
            blocks = labelled(name, self._options, rule, self.left_out)
            yield from windows_of(blocks, self.form.length, self._hop, name, self.left_out)

    def too_short(self) -> InputError:
        """The error of a stream that has ended without a window."""
        longest, length = self.left_out.longest
        if self.left_out.to_dict()["mixed_windows"]:
            return InputError(
                "the label changes in every window",
                where=self.name,
                why=f"a window takes {length} readings with one label",
                hint="--label NAME gives all readings one; --hop 1 starts a window at each",
            )
        return InputError(
            "the stream is shorter than one window",
            where=self.name,
            why=f"at most {longest} readings in a row, and a window of this network takes {length}",
            hint=f"mcutrain record SENSOR -o FILE.csv --count {length} records enough",
        )


class _Work:
    def __init__(
        self,
        stream: Stream,
        session: Session,
        settings: Settings,
        folder: Path | None,
        stopper: Stopper,
        quiet: bool,
        device: Mapping[str, Any],
    ) -> None:
        self._device = device
        self._stream = stream
        self._session = session
        self._settings = settings
        self._folder = folder
        self._stopper = stopper
        self._quiet = quiet
        self._tally = Tally(len(stream.form.classes))
        self._judged = False

    def run(self, rates: tuple[float, float] | None, limit: int | None) -> dict[str, Any]:
        """Until the stream, the limit or the user ends it; keeps what was learned in any case."""
        log = None if self._folder is None else LogWriter(self._folder / LOG, 0)
        try:
            self._go(rates, limit, log)
        except McutrainError as error:
            error.why = "; ".join(w for w in (error.why, self._so_far()) if w)
            raise
        finally:
            if log is not None:
                log.close()
        if not self._tally.predicted and not self._stopper.wanted:
            raise self._stream.too_short()
        self._judge(1)
        return self._result()

    def _judge(self, windows: int) -> None:
        """Tells of readings in wrong units, once, as soon as there are so many windows."""
        if self._judged or self._quiet or self._tally.predicted < windows:
            return
        self._judged = True
        form = self._stream.form
        advice = "Are the readings in the units of the calibration? --scale and --offset help"
        warn(self._stream.name, form.outside, form.q, advice)

    def _save(self) -> None:
        """Brings the run folder up to date: whatever ends the stream, it is that of a run.

        Before the first window there is none, so that the same command can be given again.
        """
        if self._folder is None or not self._tally.predicted:
            return
        Checkpoint(self._tally.trained, self._session.read_state()).save(self._folder)
        settings = asdict(self._settings) | {"steps": self._tally.trained}
        stats = asdict(self._session.stats())
        info = {"format": FORMAT, "settings": settings, "stats": stats, **self._result()}
        write_atomic(self._folder / RUN, json.dumps(info, indent=2) + "\n")

    def _go(
        self, rates: tuple[float, float] | None, limit: int | None, log: LogWriter | None
    ) -> None:
        tally, windows = self._tally, self._stream.windows()
        saved_at = -math.inf
        with progress(self._quiet) as display:
            task = display.add_task("streaming", total=limit or 0, note="")
            try:
                for record in live(self._session, windows, self._stream.form, rates, tally):
                    if log is not None and record.get("kind") == "step":
                        log.write(record)
                    total = limit or tally.predicted
                    display.update(
                        task, completed=tally.predicted, total=total, note=self._note(record)
                    )
                    self._judge(_JUDGED)
                    if time.monotonic() - saved_at > SAVE_SECONDS:
                        self._save()
                        saved_at = time.monotonic()
                    if self._stopper.wanted or (limit and tally.predicted >= limit):
                        break
            finally:
                self._save()

    def _note(self, record: Mapping[str, Any]) -> str:
        names, recent = self._stream.form.classes, self._tally.recent_accuracy
        said = f"it says {names[record['predicted']]}" if record else "waiting"
        if record and record["label"] is not None:
            said += f", it is {names[record['label']]}"
        return said if recent is None else f"{said}  right {recent:.0%} of the last"

    def _so_far(self) -> str:
        counts = self._stream.left_out.to_dict()
        skipped = ", ".join(f"{n} {k.replace('_', ' ')}" for k, n in counts.items() if n)
        return f"{self._tally.predicted} windows before" + (f" ({skipped})" if skipped else "")

    def _result(self) -> dict[str, Any]:
        data = self._tally.to_dict() | {"classes": self._stream.form.classes}
        data |= {"input": self._stream.left_out.to_dict(), "step": self._session.info.step}
        data |= {"outside_input": self._stream.form.outside.share}
        return data | {"device": self._device}


def _draw(result: Mapping[str, Any], out: Path | None) -> None:
    grid = table("stream", "what", " value")
    grid.add_row("windows", f"{result['windows']:,}")
    grid.add_row("of these learned", f"{result['trained']:,}")
    for key, text in (
        ("accuracy", "right before learning" if result["trained"] else "right"),
        ("recent_accuracy", "right, of the last 50"),
    ):
        if result[key] is not None:
            grid.add_row(text, f"{result[key]:.1%}")
    for key, number in result["input"].items():
        if number:
            grid.add_row(escape(key.replace("_", " ")), f"{number:,}")
    OUT.print(grid)
    if out is not None and result["trained"]:
        following = shlex.join(["mcutrain", "report", str(out), "-o", "report.html"])
        ERR.print(f"next: {following}", highlight=False, markup=False, soft_wrap=True)
