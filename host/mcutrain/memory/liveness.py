"""The list of arena buffers of a scheduled program, with values merged that may share one in
place.
"""

from __future__ import annotations

from mcutrain.ir.inplace import inplace_pairs
from mcutrain.ir.program import ARENA, Buffer, Program


def buffers_of(
    program: Program, in_place: bool = True, apart: frozenset[str] = frozenset()
) -> tuple[Buffer, ...]:
    """One buffer a value, or one for several where an instruction may write over what it reads
    last; never for a value in `apart`.

    Lifetimes are inclusive: a value read last by instruction i and one written first by i overlap.
    All instructions of a segment run at the same time, row by row, and nothing in place.
    """
    together = _together(program)
    spans = _spans(program, together)
    home = {name: program.values[name].turns or name for name in spans}
    if in_place:
        for index, instr in enumerate(program.instrs):
            if together[index][0] != together[index][1]:
                continue
            for source, target in inplace_pairs(program.values, instr):
                ends = spans[source][1] == index == spans[target][0]
                if ends and home[target] == target and target not in apart:
                    home[target] = home[source]
                    break
    return _collect(program, spans, home)


def _together(program: Program) -> list[tuple[int, int]]:
    """For each instruction the first and last one that may run while it is not finished."""
    spans = [(i, i) for i in range(len(program.instrs))]
    for index, instr in enumerate(program.instrs):
        if instr.op == "segment":
            last = index + instr.params["members"]
            spans[index : last + 1] = [(index, last)] * (last + 1 - index)
    return spans


def _spans(program: Program, together: list[tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """First and last instruction of each arena value that owns its bytes; inputs start at -1."""
    spans: dict[str, tuple[int, int]] = {program.base(n).name: (-1, -1) for n in program.inputs}
    for (first, last), instr in zip(together, program.instrs, strict=True):
        for name in instr.operands.values():
            value = program.base(name)
            if value.space == ARENA:
                spans[value.name] = (spans.get(value.name, (first, last))[0], last)
    return spans


def _collect(
    program: Program, spans: dict[str, tuple[int, int]], home: dict[str, str]
) -> tuple[Buffer, ...]:
    groups: dict[str, list[str]] = {}
    for name, owner in home.items():
        groups.setdefault(owner, []).append(name)
    return tuple(
        Buffer(
            owner,
            max(program.values[n].nbytes for n in names),
            min(spans[n][0] for n in names),
            max(spans[n][1] for n in names),
            tuple(names),
        )
        for owner, names in groups.items()
    )
