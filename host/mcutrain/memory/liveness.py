"""The list of arena buffers of a scheduled program, with values merged that may share one in
place.
"""

from __future__ import annotations

from mcutrain.ir.program import ARENA, Buffer, Instr, Program


def buffers_of(program: Program, in_place: bool = True) -> tuple[Buffer, ...]:
    """One buffer a value, or one for several where an instruction may write over what it reads
    last.

    Lifetimes are inclusive: a value read last by instruction i and one written first by i overlap.
    All instructions of a segment run at the same time, row by row, and nothing in place.
    """
    together = _together(program)
    spans = _spans(program, together)
    home: dict[str, str] = {name: name for name in spans}
    if in_place:
        for index, instr in enumerate(program.instrs):
            if together[index][0] != together[index][1]:
                continue
            for source_slot, target_slot in instr.spec.inplace:
                names = instr.operands.get(source_slot), instr.operands.get(target_slot)
                if names[0] is None or names[1] is None:
                    continue
                source, target = (program.base(n).name for n in names if n is not None)
                if (
                    _may_merge(program, spans, (source, target), index)
                    and _read_in_place_only(program, instr, source, target_slot)
                    and home[target] == target
                ):
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


def _may_merge(
    program: Program, spans: dict[str, tuple[int, int]], pair: tuple[str, str], index: int
) -> bool:
    source, target = pair
    if source not in spans or target not in spans or source == target:
        return False
    same_size = program.values[source].nbytes == program.values[target].nbytes
    return same_size and spans[source][1] == index and spans[target][0] == index


def _read_in_place_only(program: Program, instr: Instr, source: str, target_slot: str) -> bool:
    """Whether no other operand needs the source's bytes while they are written over: the error of
    a residual's sum is both what a pool's error is made of and the skip that is added to it.
    """
    allowed = {a for a, b in instr.spec.inplace if b == target_slot}
    slots = {slot for slot, n in instr.operands.items() if program.base(n).name == source}
    return slots <= allowed


def _collect(
    program: Program, spans: dict[str, tuple[int, int]], home: dict[str, str]
) -> tuple[Buffer, ...]:
    groups: dict[str, list[str]] = {}
    for name, owner in home.items():
        groups.setdefault(owner, []).append(name)
    return tuple(
        Buffer(
            owner,
            program.values[owner].nbytes,
            min(spans[n][0] for n in names),
            max(spans[n][1] for n in names),
            tuple(names),
        )
        for owner, names in groups.items()
    )
