"""Options of the commands that read sensors, and the blocks with their labels."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from mcutrain.cli.common import MAX_BAUD, real
from mcutrain.errors import UsageError
from mcutrain.sensors import Block, Counts, Source, SourceOptions, Windows, open_source
from mcutrain.sensors.windows import Window

Sources = Annotated[
    list[str],
    typer.Argument(
        help="Files (.npz, .wav, else one reading a line), or a serial port that prints lines."
    ),
]
SourceBaud = Annotated[int, typer.Option(min=1, max=MAX_BAUD, help="Rate of the sensor's port.")]
Columns = Annotated[
    str | None, typer.Option(help="Columns to take: names, or numbers from 1. Else all.")
]
LabelColumn = Annotated[str, typer.Option(help="Column with the label: its name or number.")]
Scale = Annotated[
    str, typer.Option(help="A reading becomes value * SCALE + OFFSET: a number, or one a channel.")
]
Offset = Annotated[str, typer.Option(help="See --scale.")]
Silence = Annotated[float, real("Seconds that a port may be silent.")]
Label = Annotated[str | None, typer.Option(help="One label for all readings.")]
LabelFrom = Annotated[
    str,
    typer.Option(
        help="What labels a file: column; name (walk of walk_07.csv); folder (of walk/7.csv)."
    ),
]
KeysOption = Annotated[
    str | None, typer.Option("--keys", help="Labels by key press: w=walk,r=run; others: none.")
]
Hop = Annotated[
    int | None,
    typer.Option(min=1, help="Readings from window to window; a whole window without."),
]


def options_of(
    baud: int, columns: str | None, label_column: str, scale: str, offset: str, silence: float
) -> SourceOptions:
    """The options as the sources take them.

    Raises:
        UsageError: a number is none.
    """
    chosen = tuple(c.strip() for c in columns.split(",")) if columns else ()
    factors, offsets = _numbers(scale, "--scale"), _numbers(offset, "--offset")
    return SourceOptions(baud, chosen, label_column, factors, offsets, silence)


def _numbers(text: str, option: str) -> tuple[float, ...]:
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        numbers = (math.nan,)
    if not all(map(math.isfinite, numbers)):
        raise UsageError(f"'{text}' are no numbers", where=option, hint=f"{option} 0.5,1")
    return numbers


def labeller(
    source: str, label: str | None, label_from: str, key: Callable[[], str | None] | None
) -> Callable[[Block], str | None]:
    """What gives a block of a source its label.

    Raises:
        UsageError: no such rule, or it gives a label that no line of a CSV file can hold.
    """
    if key is not None:
        pressed = key
        return lambda _: pressed()
    if label is not None:
        return _always(label, "--label")
    names = {
        "column": None,
        "name": re.sub(r"[_\-. ]*\d*$", "", Path(source).stem) or Path(source).stem,
        "folder": Path(source).resolve().parent.name,
    }
    if label_from not in names:
        raise UsageError(
            f"unknown rule '{label_from}'", where="--label-from", hint="column, name or folder"
        )
    fixed = names[label_from]
    return (lambda block: block.label) if fixed is None else _always(fixed, "--label-from")


def _always(label: str, option: str) -> Callable[[Block], str | None]:
    parts = re.split("[,;]", label)
    if len(parts) > 1 or not label.isprintable() or label != label.strip(' "') or not label:
        raise UsageError(
            "a label must be a word or some, without commas, semicolons, or blanks around it",
            where=option,
            why=f"it is {label!r}",
            hint="--label walk",
        )
    return lambda _: label


class LeftOut:
    """How much of the sources was not used, and why; of those that have ended, sums are kept."""

    def __init__(self) -> None:
        self._sums = dict.fromkeys(_current(None, None), 0)
        self._longest = (0, 0)
        self._source: Source | None = None
        self._windows: Windows | None = None

    def of_source(self, source: Source) -> None:
        """From now on readings come from this one."""
        self._sums, self._longest = self.to_dict(), self.longest
        self._source, self._windows = source, None

    def of_windows(self, windows: Windows) -> None:
        """This is what cuts the source."""
        self._windows = windows

    @property
    def longest(self) -> tuple[int, int]:
        """The most readings in a row, and how many a window of theirs takes."""
        windows = self._windows
        return max(self._longest, (0, 0) if windows is None else (windows.longest, windows.length))

    def to_dict(self) -> dict[str, int]:
        """The counts by their names."""
        current = _current(self._source, self._windows)
        return {name: count + current[name] for name, count in self._sums.items()}


def _current(source: Source | None, windows: Windows | None) -> dict[str, int]:
    counts = Counts() if source is None else source.counts
    return {
        "lines": counts.lines,
        "malformed_lines": counts.malformed,
        "other_columns": counts.columns,
        "mixed_windows": 0 if windows is None else windows.mixed,
        "short_recordings": 0 if windows is None else windows.short,
    }


def labelled(
    source: str, options: SourceOptions, label: Callable[[Block], str | None], left_out: LeftOut
) -> Iterator[Block]:
    """The blocks of a source with their labels; it is closed at the end."""
    opened = open_source(source, options)
    left_out.of_source(opened)
    with closing(opened):
        for block in opened.blocks():
            yield replace(block, label=label(block))


def windows_of(
    blocks: Iterator[Block],
    length: Callable[[int], int],
    hop: int | None,
    name: str,
    left_out: LeftOut,
) -> Iterator[Window | None]:
    """Windows of the blocks of a source; None where nothing came.

    length: readings of a window for a number of channels.
    """
    windows: Windows | None = None
    for block in blocks:
        if not len(block.values):
            yield None
            continue
        if windows is None:
            channels = block.values.shape[1]
            long = length(channels)
            windows = Windows(long, hop or long, channels, name)
            left_out.of_windows(windows)
        yield from windows.feed(block)
    if windows is not None:
        windows.end()
