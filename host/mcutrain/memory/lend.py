"""Scratch memory for the kernels out of what a layout leaves free, and little more.

Each instruction (a segment's members together) gets the smallest gap between the buffers that live
then which is large enough, else the largest. Kernels make do with any size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mcutrain.ir.program import Buffer, Instr, MemoryPlan, Program, Value
from mcutrain.ir.scratch import scratch_bytes
from mcutrain.memory.solve import lower_bound

SLOT = "scratch"
# Where state and arena have at least so many bytes, the arena may grow by this.
GROWING_BYTES, SPARE_BYTES = 32 * 1024, 2048
_ALIGN = 4


@dataclass(frozen=True)
class _Turn:
    """Instructions first to last, which share scratch memory: one, or the members of a segment."""

    first: int
    last: int
    wanted: int


def lend_scratch(
    program: Program, memory: MemoryPlan, state_bytes: int = 0, pool: int | None = None
) -> tuple[Program, MemoryPlan]:
    """The program and its layout with scratch buffers, in place of those that were planned.

    Planned ones (which an instruction needs to work in place) are part of what is free here, so
    that nothing gets less than it had.

    Args:
        program: in its final order.
        memory: its layout.
        state_bytes: of the state, which lies before the arena.
        pool: bytes beyond which state and arena may not grow.
    """
    end = memory.arena_bytes
    if state_bytes + end >= GROWING_BYTES:
        end += SPARE_BYTES
    if pool is not None:
        end = max(memory.arena_bytes, min(end, pool - state_bytes))
    planned = {i.operands[SLOT] for i in program.instrs if _takes_scratch(i)}
    kept = tuple(b for b in memory.buffers if b.name not in planned)
    offsets = {b.name: memory.offsets[b.name] for b in kept}
    values = {name: v for name, v in program.values.items() if name not in planned}
    instrs = list(program.instrs)
    lent = []
    arena_bytes = memory.arena_bytes
    for turn in _turns(program):
        gap = _gap(kept, memory, turn, end)
        name = f"{instrs[turn.first].layer}.{instrs[turn.first].op}.scratch"
        if name in values:  # a layer that the backward pass runs again
            name = f"{name}{turn.first}"
        nbytes = min(gap[1] - gap[0], turn.wanted)
        if nbytes <= 0:
            continue
        arena_bytes = max(arena_bytes, gap[0] + nbytes)
        values[name] = Value(name, (1, 1, nbytes), "u8")
        lent.append(Buffer(name, nbytes, turn.first, turn.last, (name,)))
        offsets[name] = gap[0]
        for index in range(turn.first, turn.last + 1):
            instrs[index] = _with_scratch(instrs[index], name)
    memory = replace(
        memory,
        buffers=(*kept, *lent),
        offsets=offsets,
        arena_bytes=arena_bytes,
        lower_bound=max(memory.lower_bound, lower_bound((*kept, *lent))),
    )
    return replace(program, values=values, instrs=tuple(instrs)), memory


def _has_slot(instr: Instr) -> bool:
    return any(s.scratch for s in instr.spec.slots)


def _takes_scratch(instr: Instr) -> bool:
    return _has_slot(instr) and SLOT in instr.operands


def _with_scratch(instr: Instr, name: str) -> Instr:
    return replace(instr, operands={**instr.operands, SLOT: name}) if _has_slot(instr) else instr


def _turns(program: Program) -> Iterator[_Turn]:
    index = 0
    while index < len(program.instrs):
        instr = program.instrs[index]
        if instr.op == "segment":
            last = index + instr.params["members"]
            members = program.instrs[index + 1 : last + 1]
            wanted = max(_wanted(program, m, rows=1) for m in members)
        else:
            last, wanted = index, _wanted(program, instr)
        if wanted:
            yield _Turn(index, last, wanted)
        index = last + 1


def _wanted(program: Program, instr: Instr, rows: int | None = None) -> int:
    nbytes = scratch_bytes(program.values, instr, rows)
    if _takes_scratch(instr):
        nbytes = max(nbytes, program.values[instr.operands[SLOT]].nbytes)
    return nbytes


def _gap(
    buffers: Sequence[Buffer], memory: MemoryPlan, turn: _Turn, end_of_arena: int
) -> tuple[int, int]:
    """Start and end of the free bytes to lend; behind the arena only if need be."""
    busy = sorted(
        (memory.offsets[b.name], memory.offsets[b.name] + b.nbytes)
        for b in buffers
        if b.first <= turn.last and b.last >= turn.first
    )
    gaps, at = [], 0
    for start, end in (*busy, (memory.arena_bytes, memory.arena_bytes)):
        at = -(-at // _ALIGN) * _ALIGN
        gaps.append((at, start))
        at = max(at, end)
    enough = [g for g in gaps if g[1] - g[0] >= turn.wanted]
    if enough:
        return min(enough, key=lambda g: g[1] - g[0])
    last = gaps.pop()[0]
    gaps.append((last, end_of_arena))
    return max(gaps, key=lambda g: g[1] - g[0])
