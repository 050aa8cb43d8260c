"""A picture of the arena as text: bytes that are alive over the schedule, by kind of buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mcutrain.ir.program import Buffer, CompiledProgram
from mcutrain.report.plots import kind_of

# One letter a kind of `plots.KINDS`; they are stacked in this order.
LETTERS = {
    "activation": "a",
    "mask, pool index": "m",
    "saved for a weight gradient": "s",
    "error": "e",
    "classifier": "c",
}
PEAK = "^"


@dataclass(frozen=True)
class Picture:
    """Lines of text, the topmost first, and what the letters in them mean.

    Attributes:
        lines: bytes and a row of letters each; the last three are zero, the passes and the peak.
        legend: letter and kind, of the kinds that occur.
    """

    lines: tuple[str, ...]
    legend: tuple[tuple[str, str], ...]


def picture(compiled: CompiledProgram, width: int = 96, height: int = 16) -> Picture:
    """Draw the arena of a program.

    Args:
        compiled: a program with at least one instruction.
        width: columns; one stands for the fullest of several instructions if there are more.
        height: rows of equal bytes.
    """
    program, buffers = compiled.program, compiled.memory.buffers
    total = len(program.instrs)
    width = min(width, total)
    columns = [
        _fullest(buffers, i * total // width, (i + 1) * total // width) for i in range(width)
    ]
    peak = max(1, *(sum(c.values()) for c in columns))
    drawn = [_column(c, peak / height, height) for c in columns]
    lines = [
        f"{round(peak * (row + 1) / height):>9,} |" + "".join(c[row] for c in drawn).rstrip()
        for row in reversed(range(height))
    ]
    at = max(range(width), key=lambda i: sum(columns[i].values()))
    forward = max(1, program.forward * width // total)
    lines.append(f"{'0':>9} +" + "-" * width)
    lines.append(" " * 11 + _axis(forward, width))
    lines.append(" " * (11 + at) + PEAK)
    seen = {kind for c in columns for kind in c}
    return Picture(tuple(lines), tuple((LETTERS[k], k) for k in LETTERS if k in seen))


def profile(buffers: Sequence[Buffer], instruction: int) -> dict[str, int]:
    """Bytes that are alive at an instruction, by kind of buffer."""
    alive = dict.fromkeys(LETTERS, 0)
    for b in buffers:
        if b.first <= instruction <= b.last:
            alive[kind_of(b.name)[0]] += b.nbytes
    return {kind: n for kind, n in alive.items() if n}


def _fullest(buffers: Sequence[Buffer], first: int, end: int) -> dict[str, int]:
    found = (profile(buffers, i) for i in range(first, max(end, first + 1)))
    return max(found, key=lambda p: sum(p.values()))


def _column(alive: dict[str, int], unit: float, height: int) -> str:
    """From the bottom to the top: a letter where its kind covers the middle of a row."""
    column, below = "", 0
    for kind, letter in LETTERS.items():
        below += alive.get(kind, 0)
        column += letter * (round(below / unit) - len(column))
    return column.ljust(height)


def _axis(forward: int, width: int) -> str:
    """Which columns are the forward and the backward pass."""
    backward = width - forward
    return "forward".center(forward, "-")[:forward] + "backward".center(backward, "=")[:backward]
