"""A layout for debugging, with bytes beside every buffer that nobody may write."""

from __future__ import annotations

from dataclasses import replace

from mcutrain.ir.program import MemoryPlan, Program
from mcutrain.memory.check import check_layout
from mcutrain.memory.liveness import buffers_of
from mcutrain.memory.solve import lower_bound, solve


def plan_with_canaries(program: Program, canary: int, in_place: bool = True) -> MemoryPlan:
    """Lay out the arena with `canary` bytes before and behind each buffer.

    Args:
        program: in its final order, with the scratch memory that it uses.
        canary: a multiple of 4.
        in_place: as for `plan_memory`.
    """
    buffers = tuple(replace(b, nbytes=b.nbytes + 2 * canary) for b in buffers_of(program, in_place))
    offsets, arena_bytes = solve(buffers)
    check_layout(buffers, offsets, arena_bytes)
    inside = tuple(replace(b, nbytes=b.nbytes - 2 * canary) for b in buffers)
    starts = {name: at + canary for name, at in offsets.items()}
    return MemoryPlan(inside, starts, arena_bytes, lower_bound(buffers))
