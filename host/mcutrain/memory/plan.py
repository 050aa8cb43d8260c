"""The memory plan of a program: buffers, a solver's offsets, checked."""

from __future__ import annotations

from mcutrain.ir.program import MemoryPlan, Program
from mcutrain.memory.check import check_layout
from mcutrain.memory.exact import solve_exact
from mcutrain.memory.liveness import buffers_of
from mcutrain.memory.solve import lower_bound, solve


def plan_memory(program: Program, exact: bool = False, in_place: bool = True) -> MemoryPlan:
    """Lay out the arena of a scheduled program.

    Args:
        program: instructions in their final order.
        exact: use the constraint solver (extra `solver`) instead of local search.
        in_place: let instructions write over what they read last, where their row allows it.
    """
    buffers = buffers_of(program, in_place)
    offsets, arena_bytes = solve_exact(buffers) if exact else solve(buffers)
    check_layout(buffers, offsets, arena_bytes)
    return MemoryPlan(buffers, offsets, arena_bytes, lower_bound(buffers))
