"""Options of the commands that read sensors, and the blocks with their labels."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from mcutrain.cli.common import MAX_BAUD, real
from mcutrain.errors import UsageError
from mcutrain.sensors import Block, Source, SourceOptions, Windows, open_source
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


def labelled(
    source: str, options: SourceOptions, label: Callable[[Block], str | None], used: list[Source]
) -> Iterator[Block]:
    """The blocks of a source with their labels; it is closed at the end, and put into `used`."""
    opened = open_source(source, options)
    used.append(opened)
    with closing(opened):
        for block in opened.blocks():
            yield replace(block, label=label(block))


def windows_of(
    blocks: Iterator[Block],
    length: Callable[[int], int],
    hop: int | None,
    name: str,
    cutters: list[Windows],
) -> Iterator[Window | None]:
    """Windows of blocks; None where nothing came. Cutters that were used are put into `cutters`.

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
            cutters.append(windows)
        yield from windows.feed(block)
    if windows is not None:
        windows.end()


def left_out(used: Sequence[Source], cutters: Sequence[Windows]) -> dict[str, int]:
    """How much was not used, and why."""
    return {
        "lines": sum(s.counts.lines for s in used),
        "malformed_lines": sum(s.counts.malformed for s in used),
        "other_columns": sum(s.counts.columns for s in used),
        "mixed_windows": sum(c.mixed for c in cutters),
    }
