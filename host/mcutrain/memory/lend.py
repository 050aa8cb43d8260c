"""Scratch memory for the kernels out of what a layout leaves free, and little more.

What is free beside the buffers that live at the same time is planned with them. If no layout is
found that way, it is planned without what helps least, and then with less and less for each
instruction (a segment's members together). In that layout, or in the one without scratch memory
if that is the better one, each gets the smallest gap between the other buffers which is large
enough, else the largest. Kernels make do with any size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from mcutrain.ir.program import Buffer, Instr, MemoryPlan, Program, Value, aligned
from mcutrain.ir.scratch import scratch_bytes
from mcutrain.memory.check import check_layout
from mcutrain.memory.liveness import buffers_of
from mcutrain.memory.solve import lower_bound, solve_at_bound

SLOT = "scratch"
# Where state and arena have at least so many bytes, the arena may grow by this part of them, 1.9 %,
# and at most so much.
GROWING_BYTES, SPARE_PART, SPARE_BYTES = 32 * 1024, 52, 1600
_ALIGN = 4
_CAPS = (None, 1536, 1024, 768, 512, 256)


@dataclass(frozen=True)
class _Turn:
    """Instructions first to last, which share scratch memory: one, or the members of a segment.

    `wanted` are the bytes with which they are fastest, `planned` those that they have, and do not
    get less than.
    """

    first: int
    last: int
    wanted: int
    planned: int

    @property
    def most(self) -> int:
        return max(self.wanted, self.planned)


def lend_scratch(
    program: Program,
    memory: MemoryPlan,
    state_bytes: int = 0,
    pool: int | None = None,
    in_place: bool = True,
) -> tuple[Program, MemoryPlan]:
    """The program and its layout with scratch buffers, in place of those that were planned.

    Planned ones (which an instruction needs to work in place) are part of what is free here, so
    that nothing gets less than it had.

    Args:
        program: in its final order.
        memory: its layout.
        state_bytes: of the state, which lies before the arena.
        pool: bytes beyond which state and arena may not grow.
        in_place: as for `plan_memory`.
    """
    end = memory.arena_bytes
    if state_bytes + end >= GROWING_BYTES:
        end += min(SPARE_BYTES, (state_bytes + end) // SPARE_PART // _ALIGN * _ALIGN)
    if pool is not None:
        end = max(memory.arena_bytes, min(end, pool - state_bytes))
    found = _planned_anew(program, memory, end, in_place)
    if found is not None:
        return found
    gaps = _from_gaps(program, memory, end)
    less = (_planned_anew(program, memory, end, in_place, False, cap) for cap in _CAPS)
    found = next((layout for layout in less if layout is not None), None)
    if found is None:
        return gaps
    return max((gaps, _from_gaps(*found, end)), key=lambda lent: _useful(lent[0]))


def _useful(program: Program) -> int:
    """Bytes of scratch memory that are worth more than a little."""
    return sum(min(turn.wanted, turn.planned) for turn in _turns(program, unpacked=False))


def _planned_anew(
    program: Program,
    memory: MemoryPlan,
    end: int,
    in_place: bool,
    unpacked: bool = True,
    cap: int | None = None,
) -> tuple[Program, MemoryPlan] | None:
    """All that there is beside what lives at the same time, if a layout of `end` bytes is found.

    Args:
        program, memory, end, in_place: see `lend_scratch`; end: of the arena.
        unpacked: see `scratch_bytes`.
        cap: what an instruction gets at most, if not more was planned.
    """
    live = [0] * len(program.instrs)
    for buffer in _kept(program, memory):
        for index in range(max(0, buffer.first), buffer.last + 1):
            live[index] += aligned(buffer.nbytes)
    given = {}
    for turn in _turns(program, unpacked):
        there = end - max(live[turn.first : turn.last + 1])
        most = turn.most if cap is None else max(cap, turn.planned)
        given[turn] = min(turn.most, most, max(turn.planned, there // _ALIGN * _ALIGN))
    program, _ = _equipped(program, given)
    buffers = buffers_of(program, in_place)
    found = solve_at_bound(buffers)
    if found is None or found[1] > end:
        return None
    check_layout(buffers, *found)
    return program, MemoryPlan(buffers, *found, lower_bound(buffers))


def _from_gaps(program: Program, memory: MemoryPlan, end: int) -> tuple[Program, MemoryPlan]:
    """The gaps between the buffers as they lie."""
    kept = _kept(program, memory)
    gaps = {turn: _gap(kept, memory, turn, end) for turn in _turns(program)}
    given = {turn: min(gap[1] - gap[0], turn.most) for turn, gap in gaps.items()}
    program, names = _equipped(program, given)
    lent = tuple(Buffer(n, given[t], t.first, t.last, (n,)) for n, t in names.items())
    starts = {name: gaps[turn][0] for name, turn in names.items()}
    buffers = (*kept, *lent)
    memory = replace(
        memory,
        buffers=buffers,
        offsets={b.name: memory.offsets[b.name] for b in kept} | starts,
        arena_bytes=max([memory.arena_bytes, *(starts[b.name] + b.nbytes for b in lent)]),
        lower_bound=max(memory.lower_bound, lower_bound(buffers)),
    )
    return program, memory


def _kept(program: Program, memory: MemoryPlan) -> tuple[Buffer, ...]:
    """The buffers of a layout without scratch memory."""
    planned = {i.operands[SLOT] for i in program.instrs if _takes_scratch(i)}
    return tuple(b for b in memory.buffers if b.name not in planned)


def _equipped(program: Program, given: Mapping[_Turn, int]) -> tuple[Program, dict[str, _Turn]]:
    """The program with so many bytes of scratch for each turn, and the names of these values."""
    planned = {i.operands[SLOT] for i in program.instrs if _takes_scratch(i)}
    values = {name: v for name, v in program.values.items() if name not in planned}
    instrs, names = list(program.instrs), {}
    for turn, nbytes in given.items():
        if nbytes <= 0:
            continue
        name = f"{instrs[turn.first].layer}.{instrs[turn.first].op}.scratch"
        if name in values:  # a layer that the backward pass runs again
            name = f"{name}{turn.first}"
        values[name] = Value(name, (1, 1, nbytes), "u8")
        names[name] = turn
        for index in range(turn.first, turn.last + 1):
            instrs[index] = _with_scratch(instrs[index], name)
    return replace(program, values=values, instrs=tuple(instrs)), names


def _has_slot(instr: Instr) -> bool:
    return any(s.scratch for s in instr.spec.slots)


def _takes_scratch(instr: Instr) -> bool:
    return _has_slot(instr) and SLOT in instr.operands


def _with_scratch(instr: Instr, name: str) -> Instr:
    return replace(instr, operands={**instr.operands, SLOT: name}) if _has_slot(instr) else instr


def _turns(program: Program, unpacked: bool = True) -> Iterator[_Turn]:
    index = 0
    while index < len(program.instrs):
        instr = program.instrs[index]
        if instr.op == "segment":
            last = index + instr.params["members"]
            members = program.instrs[index + 1 : last + 1]
            rows = _batches(program, instr)
            wanted = max(
                scratch_bytes(program.values, m, rows.get(i, 1)) for i, m in enumerate(members)
            )
        else:
            last, members = index, (instr,)
            wanted = scratch_bytes(program.values, instr, unpacked=unpacked)
        planned = max(_planned(program, m) for m in members)
        if wanted or planned:
            yield _Turn(index, last, wanted, planned)
        index = last + 1


def _batches(program: Program, segment: Instr) -> dict[int, int]:
    """The most rows of a member, by its index, that the order lists one behind the other."""
    most: dict[int, int] = {}
    order = program.values[segment.operands["order"]].data
    for member, group in groupby(() if order is None else order.reshape(-1).tolist()):
        most[member] = max(most.get(member, 1), sum(1 for _ in group))
    return most


def _planned(program: Program, instr: Instr) -> int:
    return program.values[instr.operands[SLOT]].nbytes if _takes_scratch(instr) else 0


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
    enough = [g for g in gaps if g[1] - g[0] >= turn.most]
    if enough:
        return min(enough, key=lambda g: g[1] - g[0])
    last = gaps.pop()[0]
    gaps.append((last, end_of_arena))
    return max(gaps, key=lambda g: g[1] - g[0])
