"""Offsets: lifetimes, solvers, checker (complaint T18: equal lifetimes once shared an offset)."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.networks import residual_network

from mcutrain.compile import compile_program
from mcutrain.errors import FitError, InternalError
from mcutrain.ir.program import Buffer, CompiledProgram
from mcutrain.memory.banks import STATE_BUFFER, Bank, plan_banks
from mcutrain.memory.check import check_layout
from mcutrain.memory.exact import solve_exact
from mcutrain.memory.fit import fit
from mcutrain.memory.solve import lower_bound, solve
from mcutrain.plan.scheme import resolve_scheme

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


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(_lifetimes, min_size=1, max_size=10), st.integers(0, 40))
def test_the_tree_search_keeps_to_its_capacity(
    triples: list[tuple[int, int, int]], slack: int
) -> None:
    buffers = _buffers(triples)
    capacity = lower_bound(buffers) + slack
    offsets = fit(buffers, capacity, lambda b: (-b.nbytes,), 500)
    if offsets is not None:
        check_layout(buffers, offsets, capacity)


def test_the_tree_search_finds_what_first_fit_does_not() -> None:
    """Two pairs that must nest: by size, first fit puts a hole where nothing fits."""
    rng = random.Random(5)
    met = 0
    for _ in range(30):
        triples = [
            (rng.randrange(12), rng.randrange(6), 4 * rng.randrange(1, 60)) for _ in range(24)
        ]
        buffers = _buffers(triples)
        if solve(buffers)[1] == lower_bound(buffers):
            met += 1
    assert met >= 27


def _compiled() -> CompiledProgram:
    graph = residual_network(16)
    return compile_program(graph, resolve_scheme(graph, "last:3"))


def test_t25_two_banks_hold_everything_once() -> None:
    compiled = _compiled()
    half = (compiled.pool_bytes // 2 + 400) // 4 * 4
    plan = plan_banks(compiled, Bank("dtcm", half), Bank("sram", half))
    names = [b.name for part in plan.buffers for b in part]
    assert sorted(names) == sorted([STATE_BUFFER, *(b.name for b in compiled.memory.buffers)])
    assert all(plan.buffers)
    for bank, used, part in zip(plan.banks, plan.used, plan.buffers, strict=True):
        check_layout(part, plan.offsets, used)
        assert used <= bank.size


def test_t25_a_large_fast_bank_takes_all_and_none_takes_nothing() -> None:
    compiled = _compiled()
    size = compiled.pool_bytes + 64
    plan = plan_banks(compiled, Bank("dtcm", size), Bank("sram", 0))
    assert plan.used[1] == 0
    plan = plan_banks(compiled, Bank("dtcm", 0), Bank("sram", size))
    assert plan.used[0] == 0


def test_t25_over_subscription_is_reported_with_its_numbers() -> None:
    compiled = _compiled()
    with pytest.raises(FitError) as caught:
        plan_banks(compiled, Bank("dtcm", 1024), Bank("sram", 512))
    why = caught.value.why or ""
    assert "512 there" in why
    assert "of 1,024 used" in why
    assert f"state {compiled.state_bytes:,}, arena {compiled.memory.arena_bytes:,}" in why
    needed = int(why.split("sram: ")[1].split(" bytes needed")[0].replace(",", ""))
    plan = plan_banks(compiled, Bank("dtcm", 1024), Bank("sram", needed))
    assert plan.used[1] == needed
