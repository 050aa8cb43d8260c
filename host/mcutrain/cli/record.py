"""`mcutrain record`: what a sensor measures becomes a file with labels."""

from __future__ import annotations

import io
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from mcutrain.cli.common import OUT, Json, output_file, progress, real, show
from mcutrain.cli.interrupt import Stopper
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
    labelled,
    labeller,
    options_of,
)
from mcutrain.errors import InputError, McutrainError, UsageError
from mcutrain.files import write_atomic
from mcutrain.link.channel import START_BAUD
from mcutrain.sensors import Block, Keys, Windows

_SUFFIXES = (".csv", ".npz")


Length = Annotated[
    int | None,
    typer.Option(min=1, help="npz: cut into windows of so many readings, as networks take."),
]


def run(
    source: Annotated[str, typer.Argument(help="A serial port that prints lines, or a file.")],
    output: Annotated[Path, output_file("The file to write: .csv or .npz.")],
    seconds: Annotated[float | None, real("Stop after so long.")] = None,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after so many readings.")] = None,
    length: Length = None,
    hop: Hop = None,
    label: Label = None,
    label_from: LabelFrom = "column",
    keys: KeysOption = None,
    columns: Columns = None,
    label_column: LabelColumn = "label",
    scale: Scale = "1",
    offset: Offset = "0",
    source_baud: SourceBaud = START_BAUD,
    silence: Silence = 5.0,
    as_json: Json = False,
) -> None:
    """Record a sensor with labels, for quantize, train and stream.

    A CSV file has a column a channel and the label. An npz file has the arrays x and y; with
    --length its samples are windows (length, 1, channels) with one label each, as npz:FILE takes
    them. Ctrl-C ends a recording; what was recorded is written whatever ends it.

    Example: mcutrain record /dev/ttyACM1 -o walk.csv --label walk --seconds 60
    """
    if output.suffix not in _SUFFIXES or (length is not None and output.suffix != ".npz"):
        raise UsageError(
            "recordings are CSV or npz files, windows npz files",
            where=str(output),
            hint="-o FILE.csv, or -o FILE.npz --length 100",
        )
    options = options_of(source_baud, columns, label_column, scale, offset, silence)
    pressed = Keys.parse(keys) if keys is not None else None
    labeller(source, label, label_from, None)  # refuses a wrong rule before anything is opened
    recording = _Recording()
    left_out = LeftOut()
    failure: McutrainError | None = None
    with ExitStack() as stack:
        stopper = stack.enter_context(Stopper())
        key = stack.enter_context(pressed).label if pressed else None
        blocks = labelled(source, options, labeller(source, label, label_from, key), left_out)
        try:
            recording.take(_until(blocks, seconds, stopper), count, as_json)
        except McutrainError as error:
            failure = error
    if not recording.readings:
        raise failure or InputError(
            "nothing was recorded", where=source, why="it ended before a reading came"
        )
    result = _store(recording, output, length, hop, source, left_out)
    if failure is not None:
        failure.why = f"{failure.why or failure.message}; {result['readings']} readings are in "
        failure.why += str(output)
        raise failure
    show(as_json, result, lambda: _draw(result, length is not None))


def _store(
    recording: _Recording,
    output: Path,
    length: int | None,
    hop: int | None,
    source: str,
    left_out: LeftOut,
) -> dict[str, Any]:
    stored, unlabelled = recording.labels(), 0
    if output.suffix == ".csv":
        write_atomic(output, recording.csv())
    else:
        cutter = None
        if length is not None:
            cutter = Windows(length, hop or length, recording.channels, source)
            left_out.of_windows(cutter)
        data, stored, unlabelled = recording.npz(cutter, source)
        write_atomic(output, data)
    return {
        "readings": recording.readings,
        "stored": sum(stored.values()),
        "stored_labels": stored,
        "channels": recording.channels,
        "labels": recording.labels(),
        "input": left_out.to_dict() | {"unlabelled_windows": unlabelled},
        "output": str(output),
    }


def _until(blocks: Iterator[Block], seconds: float | None, stopper: Stopper) -> Iterator[Block]:
    end = None if seconds is None else time.monotonic() + seconds
    for block in blocks:
        if stopper.wanted or (end is not None and time.monotonic() >= end):
            return
        yield block


class _Recording:
    """Readings so far."""

    def __init__(self) -> None:
        self.readings = 0
        self.channels = 0
        self._blocks: list[Block] = []

    def take(self, blocks: Iterator[Block], count: int | None, quiet: bool) -> None:
        """Adds blocks, until there are so many readings."""
        with progress(quiet) as display:
            task = display.add_task("recording", total=count or 0, note="")
            for block in blocks:
                if len(block.values):
                    self._add(block, count)
                total = count or self.readings
                note = f"label {block.label or 'none'}"
                display.update(task, completed=self.readings, total=total, note=note)
                if count and self.readings >= count:
                    return

    def _add(self, block: Block, count: int | None) -> None:
        self.channels = self.channels or block.values.shape[1]
        if block.values.shape[1] != self.channels:
            raise InputError(
                "the number of channels has changed",
                why=f"from {self.channels} to {block.values.shape[1]}",
            )
        room = len(block.values) if count is None else count - self.readings
        self._blocks.append(Block(block.values[:room], block.label, block.first))
        self.readings += len(block.values[:room])

    def labels(self) -> dict[str, int]:
        """Readings of each label."""
        found: dict[str, int] = {}
        for block in self._blocks:
            name = block.label or ""
            found[name] = found.get(name, 0) + len(block.values)
        return found

    def csv(self) -> str:
        """A line of names, then one reading a line."""
        named = any(block.label for block in self._blocks)
        lines = [",".join([f"c{i + 1}" for i in range(self.channels)] + ["label"] * named)]
        for block in self._blocks:
            tail = f",{block.label or ''}" * named
            lines += [",".join(f"{v:.9g}" for v in row) + tail for row in block.values]
        return "\n".join(lines) + "\n"

    def npz(self, cutter: Windows | None, source: str) -> tuple[bytes, dict[str, int], int]:
        """The bytes of the file, its samples of each label, and windows left out without one."""
        x: Any
        unlabelled = 0
        if cutter is None:
            x = np.concatenate([b.values for b in self._blocks])
            labels = [b.label for b in self._blocks for _ in b.values]
        else:
            windows = [w for block in self._blocks for w in cutter.feed(block)]
            cutter.end()
            cut = [w for w in windows if w.label is not None]
            unlabelled = len(windows) - len(cut)
            if not cut:
                raise _no_window(cutter, unlabelled, source)
            x = np.stack([w.values[:, None, :] for w in cut])
            labels = [w.label for w in cut]
        classes = sorted({name for name in labels if name is not None})
        arrays = {"x": x.astype(np.float32)}
        if classes and None not in labels:
            arrays["y"] = np.array([classes.index(str(name)) for name in labels], np.int64)
            arrays["classes"] = np.array(classes)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)
        counts = dict.fromkeys(self.labels(), 0) | Counter(name or "" for name in labels)
        return buffer.getvalue(), counts, unlabelled


def _no_window(cutter: Windows, unlabelled: int, source: str) -> InputError:
    if unlabelled:
        hint = "--label NAME, --keys or --label-from label them"
    elif cutter.mixed:
        hint = "a shorter --length, or --hop 1, finds more of one label"
    else:
        hint = "record for longer, or take a shorter --length"
    return InputError(
        "there is no window with a label",
        where=source,
        why=f"at most {cutter.longest} readings in a row, windows of {cutter.length}: "
        f"{unlabelled} without label, {cutter.mixed} in which it changes",
        hint=hint,
    )


def _draw(result: dict[str, Any], as_windows: bool) -> None:
    windows = ""
    if as_windows:
        each = ", ".join(f"{n:,} {name}" for name, n in result["stored_labels"].items() if name)
        windows = f", {result['stored']:,} windows ({each})"
    labels = ", ".join(f"{n:,} {name or 'without label'}" for name, n in result["labels"].items())
    OUT.print(
        f"{result['output']}: {result['readings']:,} readings of {result['channels']} channels "
        f"({labels}){windows}",
        highlight=False,
        markup=False,
    )
    for key, number in result["input"].items():
        if number and key != "lines":
            OUT.print(f"left out: {number:,} {key.replace('_', ' ')}", highlight=False)
