"""`mcutrain train`: an image, samples and a device become a trained state and a run folder."""

from __future__ import annotations

import json
import shlex
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import mcutrain.data
from mcutrain.cli.common import (
    ERR,
    OUT,
    DeviceName,
    Json,
    open_with_image,
    progress,
    read_bytes,
    show,
    table,
)
from mcutrain.cli.evaluate import run_evaluation
from mcutrain.cli.interrupt import Stopper
from mcutrain.data import Dataset
from mcutrain.errors import InputError, InterruptedRunError, UsageError
from mcutrain.files import make_folder, write_atomic
from mcutrain.image.unpack import Image, unpack
from mcutrain.link.session import Session
from mcutrain.report.log import IMAGE, LOG, RUN, LogWriter, Run
from mcutrain.trainer import Checkpoint, Encode, Schedule, encoder, train

_SAVE_SECONDS = 10.0
_SMOOTH = 0.98


@dataclass(frozen=True)
class Settings:
    """What decides the result of a run; all of it is in run.json.

    Attributes:
        data, test: specs of the samples to train on and to evaluate with.
        seed: of the order of the samples and of the device's random bits.
    """

    data: str
    test: str | None
    rate: float
    steps: int
    warmup: float
    cosine: bool
    head_factor: float
    seed: int

    def schedule(self) -> Schedule:
        """The learning rates."""
        return Schedule(self.rate, self.steps, self.warmup, self.cosine, self.head_factor)


def run(
    image: Annotated[
        Path | None, typer.Argument(help="The image to train; not with --resume.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="The run folder to write.")] = Path("run"),
    data: Annotated[
        str | None, typer.Option(help="Samples, for example fashion-mnist:train?count=100.")
    ] = None,
    test: Annotated[
        str | None, typer.Option(help="Samples to evaluate before and after training.")
    ] = None,
    device: DeviceName = "host",
    rate: Annotated[float, typer.Option(help="Highest learning rate.")] = 0.01,
    steps: Annotated[int | None, typer.Option(help="Training steps, one sample each.")] = None,
    epochs: Annotated[int, typer.Option(help="Passes over the data, if no --steps.")] = 1,
    warmup: Annotated[float, typer.Option(help="Share of steps in which the rate rises.")] = 0.1,
    constant: Annotated[
        bool, typer.Option("--constant", help="Keep the rate after it has risen (no cosine).")
    ] = False,
    head_factor: Annotated[
        float, typer.Option(help="The classifier's rate is this many times as high.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of the order and of the random bits.")] = 0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in --out, with its settings.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Train on a device, sample by sample, and evaluate before and after.

    The run folder holds run.json (settings, results), log.jsonl (one line a step), the image and
    the last trained state. Ctrl-C stops between two steps (exit code 8); a run that is resumed
    ends with the same bytes as one that was not interrupted, on whatever device.

    Example: mcutrain train demo.mcti --data fashion-mnist:train?count=1000
    --test fashion-mnist:test?count=300 --device qemu:netduinoplus2 --out run
    """
    if resume:
        if image is not None or data is not None:
            raise UsageError(
                "--resume takes image, data and settings from the run folder",
                hint=f"mcutrain train --resume --out {out} --device {device}",
            )
        before = Run.load(out)
        work = _Work(before.image, Settings(**before.info["settings"]), out, dict(before.info))
    else:
        if image is None or data is None:
            raise UsageError("training needs an image and --data", hint="mcutrain train --help")
        count = steps if steps is not None else epochs * len(mcutrain.data.open(data))
        settings = Settings(data, test, rate, count, warmup, not constant, head_factor, seed)
        work = _Work(read_bytes(image, "image"), settings, _fresh(out), {})
    info = work.run(device, quiet=as_json)
    show(as_json, info, lambda: _draw(info, out))


def _fresh(out: Path) -> Path:
    if (out / RUN).exists():
        raise InputError(
            "there is a run in this folder already",
            where=str(out),
            hint=f"choose another --out, or go on with it: mcutrain train --resume --out {out}",
        )
    return make_folder(out)


class _Work:
    """One run, from evaluation to evaluation; whatever ends it, the folder can be resumed."""

    def __init__(self, image: bytes, settings: Settings, out: Path, info: dict[str, Any]) -> None:
        self.bytes = image
        self.image: Image = unpack(image, str(out))
        self.settings = settings
        self.schedule = settings.schedule()
        self.out = out
        self.info = info
        self.data = mcutrain.data.open(settings.data)
        self.encode: Encode = encoder(self.image, self.data)
        self.test: tuple[Dataset, Encode] | None = None
        if settings.test is not None:
            test = mcutrain.data.open(settings.test)
            self.test = (test, encoder(self.image, test))

    def run(self, device: str, quiet: bool) -> dict[str, Any]:
        resumed = bool(self.info)
        checkpoint = Checkpoint.load(self.out) if resumed else None
        if checkpoint is None:
            write_atomic(self.out / IMAGE, self.bytes)
        with Stopper() as stopper, open_with_image(device, self.out / IMAGE) as session:
            opened = session.open(self.bytes)
            if checkpoint is None:
                session.reset(self.settings.seed)
                checkpoint = Checkpoint(0, session.read_state())
                checkpoint.save(self.out)
                self.info = {"format": 1, "settings": asdict(self.settings)}
                self._save_info()
            else:
                session.write_state(checkpoint.state)
            self.info["device"] = {"name": device} | asdict(opened)
            self._evaluate(session, "before", stopper, device, quiet)
            self._train(session, checkpoint.step, stopper, device, quiet)
            self._evaluate(session, "after", stopper, device, quiet)
            self.info["stats"] = asdict(session.stats())
            self._save_info()
        return self.info

    def _evaluate(
        self, session: Session, name: str, stopper: Stopper, device: str, quiet: bool
    ) -> None:
        if self.test is None or name in self.info:
            return
        data, encode = self.test
        result = run_evaluation(
            session, data, encode, f"accuracy {name}", quiet, lambda: stopper.wanted
        )
        if result is None:
            raise self._stopped(device)
        self.info[name] = result.to_dict()
        self._save_info()

    def _train(
        self, session: Session, start: int, stopper: Stopper, device: str, quiet: bool
    ) -> None:
        log = LogWriter(self.out / LOG, start)
        total, done, saved_at = self.schedule.steps, start, time.monotonic()
        bar = _Bar()
        try:
            with progress(quiet) as display:
                task = display.add_task("training", total=total, completed=start, note="")
                steps = train(
                    session,
                    self.data,
                    self.encode,
                    self.schedule,
                    seed=self.settings.seed,
                    start=start,
                )
                for record in steps:
                    log.write(record)
                    done = int(record["number"]) + 1
                    display.update(task, completed=done, note=bar.note(record))
                    if time.monotonic() - saved_at > _SAVE_SECONDS or stopper.wanted:
                        Checkpoint(done, session.read_state()).save(self.out)
                        saved_at = time.monotonic()
                    if stopper.wanted:
                        raise self._stopped(device)
        finally:
            log.close()
        Checkpoint(done, session.read_state()).save(self.out)

    def _stopped(self, device: str) -> InterruptedRunError:
        words = ["mcutrain", "train", "--resume", "--out", str(self.out), "--device", device]
        return InterruptedRunError(
            "stopped", where=str(self.out), why="by the user", hint=shlex.join(words)
        )

    def _save_info(self) -> None:
        write_atomic(self.out / RUN, json.dumps(self.info, indent=2) + "\n")


class _Bar:
    """Figures beside the progress bar: smoothed loss and accuracy, rate, samples a second."""

    def __init__(self) -> None:
        self._weight = self._loss = self._right = self._seconds = 0.0

    def note(self, record: dict[str, Any]) -> str:
        self._weight = _SMOOTH * self._weight + 1
        self._loss = _SMOOTH * self._loss + record["loss"]
        self._right = _SMOOTH * self._right + (record["predicted"] == record["label"])
        self._seconds = _SMOOTH * self._seconds + record["seconds"]
        speed = self._weight / self._seconds if self._seconds else 0.0
        return (
            f"loss {self._loss / self._weight:.3f}  right {self._right / self._weight:.0%}  "
            f"rate {record['rate']:.2g}  {speed:.1f}/s"
        )


def _draw(info: dict[str, Any], out: Path) -> None:
    stats, settings = info["stats"], info["settings"]
    grid = table(f"run {out}", "what", " value")
    for name in ("before", "after"):
        if name in info:
            grid.add_row(f"accuracy {name}", f"{info[name]['accuracy']:.1%}")
    grid.add_row("steps", f"{settings['steps']:,}")
    for name in ("pool_planned", "pool_used", "stack_used", "saturated", "damaged"):
        grid.add_row(name.replace("_", " "), f"{stats[name]:,}")
    OUT.print(grid)
    ERR.print(f"next: mcutrain report {shlex.quote(str(out))} -o report.html", highlight=False)
