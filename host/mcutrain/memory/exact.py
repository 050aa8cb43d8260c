"""Offsets by constraint solving (extra `solver`): OR-tools CP-SAT packs lifetimes as rectangles."""

from __future__ import annotations

from collections.abc import Sequence

from mcutrain.errors import ToolchainError
from mcutrain.ir.program import Buffer
from mcutrain.memory.solve import Solution, lower_bound, solve


def solve_exact(buffers: Sequence[Buffer], seconds: float = 10.0) -> Solution:
    """The smallest layout, or the best one found in time; never worse than the local search.

    Raises:
        ToolchainError: OR-tools is not installed.
    """
    try:
        from ortools.sat.python import cp_model
    except ImportError as error:
        raise ToolchainError(
            "the exact memory solver needs OR-tools", hint="pip install 'mcutrain[solver]'"
        ) from error
    greedy = solve(buffers)
    if not buffers or greedy[1] <= lower_bound(buffers):
        return greedy
    model = cp_model.CpModel()
    arena = model.new_int_var(lower_bound(buffers), greedy[1], "arena")
    words, xs, ys = [], [], []
    for b in buffers:
        word = model.new_int_var(0, greedy[1] // 4, f"{b.name}.word")
        size = (b.nbytes + 3) // 4
        words.append(word)
        xs.append(model.new_fixed_size_interval_var(b.first, b.last - b.first + 1, f"{b.name}.t"))
        ys.append(model.new_fixed_size_interval_var(word, size, f"{b.name}.m"))
        model.add(4 * word + b.nbytes <= arena)
        model.add_hint(word, greedy[0][b.name] // 4)
    model.add_no_overlap_2d(xs, ys)
    model.minimize(arena)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 2
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return greedy
    offsets = {b.name: 4 * solver.value(w) for b, w in zip(buffers, words, strict=True)}
    return offsets, max(offsets[b.name] + b.nbytes for b in buffers)
