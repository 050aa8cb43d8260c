"""The memory plan of a program: buffers, a solver's offsets, checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mcutrain.ir.program import Buffer, MemoryPlan, Program
from mcutrain.memory.check import check_layout
from mcutrain.memory.exact import solve_exact
from mcutrain.memory.liveness import buffers_of
from mcutrain.memory.solve import Solution, lower_bound, solve, solve_at_bound

_NODES = 300  # of each try with one pair of values apart
_TRIES = 40


def plan_memory(program: Program, exact: bool = False, in_place: bool = True) -> MemoryPlan:
    """Lay out the arena of a scheduled program.

    Args:
        program: instructions in their final order.
        exact: use the constraint solver (extra `solver`) instead of search.
        in_place: let instructions write over what they read last, where their row allows it.
    """
    buffers = buffers_of(program, in_place)
    bound = lower_bound(buffers) if buffers else 0
    if exact:
        offsets, arena_bytes = solve_exact(buffers)
    else:
        buffers, (offsets, arena_bytes) = _solve(program, buffers)
    check_layout(buffers, offsets, arena_bytes)
    return MemoryPlan(buffers, offsets, arena_bytes, bound)


def _solve(program: Program, buffers: tuple[Buffer, ...]) -> tuple[tuple[Buffer, ...], Solution]:
    """In place wherever possible, or with one pair of values apart: joined buffers live longer,
    and can be harder to place.
    """
    found = solve_at_bound(buffers) if buffers else ({}, 0)
    if found is not None:
        return buffers, found
    bound = lower_bound(buffers)
    for _, value in zip(range(_TRIES), _joined(program, buffers), strict=False):
        apart = buffers_of(program, apart=frozenset([value]))
        if len(apart) > len(buffers) and lower_bound(apart) <= bound:
            found = solve_at_bound(apart, _NODES)
            if found is not None:
                return apart, found
    return buffers, solve(buffers)


def _joined(program: Program, buffers: Sequence[Buffer]) -> Iterator[str]:
    """Values that lie in another one's buffer because they are written in place."""
    for buffer in buffers:
        for name in buffer.values:
            if name != buffer.name and program.values[name].turns is None:
                yield name


def bound_of(program: Program) -> int:
    """Bytes below which no arena of a program can be: its largest set of live buffers."""
    return lower_bound(buffers_of(program))


def peak_values(program: Program) -> frozenset[str]:
    """Names of the values that are alive at the first instruction with the most live bytes."""
    buffers = buffers_of(program)

    def alive(at: int) -> list[Buffer]:
        return [b for b in buffers if b.first <= at <= b.last]

    fullest = max(range(len(program.instrs)), key=lambda at: sum(b.nbytes for b in alive(at)))
    return frozenset(name for b in alive(fullest) for name in b.values)
