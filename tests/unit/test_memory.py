"""Offsets: lifetimes, solvers, checker (complaint T18: equal lifetimes once shared an offset)."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcutrain.errors import InternalError
from mcutrain.ir.program import Buffer
from mcutrain.memory.check import check_layout
from mcutrain.memory.exact import solve_exact
from mcutrain.memory.solve import lower_bound, solve

_lifetimes = st.tuples(st.integers(0, 12), st.integers(0, 6), st.integers(1, 300))


def _buffers(triples: list[tuple[int, int, int]]) -> list[Buffer]:
    return [
        Buffer(f"b{i}", nbytes, first, first + length)
        for i, (first, length, nbytes) in enumerate(triples)
    ]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(_lifetimes, min_size=1, max_size=14))
def test_t18_no_two_live_buffers_overlap(triples: list[tuple[int, int, int]]) -> None:
    buffers = _buffers(triples)
    offsets, top = solve(buffers)
    check_layout(buffers, offsets, top)
    assert top >= lower_bound(buffers)


@pytest.mark.parametrize(
    ("lifetimes", "together"),
    [
        ([(0, 5), (0, 5)], True),  # equal
        ([(0, 9), (3, 4)], True),  # nested
        ([(0, 3), (3, 5)], True),  # touching: read last and written first by the same instruction
        ([(0, 3), (4, 5)], False),
    ],
)
def test_t18_equal_nested_touching_lifetimes(
    lifetimes: list[tuple[int, int]], together: bool
) -> None:
    buffers = [Buffer(f"b{i}", 40, first, last) for i, (first, last) in enumerate(lifetimes)]
    offsets, top = solve(buffers)
    assert (offsets["b0"] != offsets["b1"]) == together
    assert top == (80 if together else 40)


def test_checker_sees_each_fault() -> None:
    a, b = Buffer("a", 10, 0, 2), Buffer("b", 8, 2, 3)
    check_layout([a, b], {"a": 0, "b": 12}, 20)
    for offsets, arena in (
        ({"a": 0, "b": 8}, 20),
        ({"a": 0, "b": 13}, 21),
        ({"a": 0, "b": 12}, 19),
        ({"a": -4, "b": 12}, 20),
    ):
        with pytest.raises(InternalError):
            check_layout([a, b], offsets, arena)


def test_local_search_reaches_the_bound_where_greedy_does_not() -> None:
    rng = random.Random(7)
    triples = [(rng.randrange(30), rng.randrange(8), 4 * rng.randrange(1, 500)) for _ in range(50)]
    buffers = _buffers(triples)
    offsets, top = solve(buffers)
    check_layout(buffers, offsets, top)
    assert top <= 1.01 * lower_bound(buffers)


def test_exact_solver_is_never_worse() -> None:
    pytest.importorskip("ortools")
    rng = random.Random(3)
    triples = [(rng.randrange(10), rng.randrange(6), rng.randrange(1, 200)) for _ in range(16)]
    buffers = _buffers(triples)
    offsets, top = solve_exact(buffers, seconds=3)
    check_layout(buffers, offsets, top)
    assert lower_bound(buffers) <= top <= solve(buffers)[1]


def test_same_input_gives_same_layout() -> None:
    buffers = _buffers([(i % 7, i % 5, 17 * i + 3) for i in range(40)])
    assert solve(buffers) == solve(buffers)
