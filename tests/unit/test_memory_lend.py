"""Scratch memory comes out of what a layout leaves free."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest
from tests.networks import residual_network

from mcutrain.compile import compile_program
from mcutrain.ir.program import ARENA, Buffer, CompiledProgram
from mcutrain.ir.scratch import scratch_bytes
from mcutrain.memory import check_layout, lend
from mcutrain.memory.lend import GROWING_BYTES, SPARE_BYTES, lend_scratch
from mcutrain.memory.solve import Solution, solve_at_bound
from mcutrain.plan.scheme import resolve_scheme

SIZES = (12, 64)


def compiled(size: int, pool: int | None = None) -> CompiledProgram:
    graph = residual_network(size)
    return compile_program(graph, resolve_scheme(graph, "last:3"), pool=pool)


def scratch(program: CompiledProgram) -> dict[str, int]:
    """Bytes of each scratch buffer."""
    values = program.program.values
    return {n: v.nbytes for n, v in values.items() if n.endswith("scratch") and v.space == ARENA}


@pytest.mark.parametrize("size", SIZES)
def test_no_byte_is_lent_twice(size: int) -> None:
    memory = compiled(size).memory
    assert any("scratch" in b.name for b in memory.buffers)
    check_layout(memory.buffers, memory.offsets, memory.arena_bytes)


@pytest.mark.parametrize("size", SIZES)
def test_the_arena_hardly_grows(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    grown = compiled(size).pool_bytes
    monkeypatch.setattr(lend, "SPARE_BYTES", 0)
    need = compiled(size).pool_bytes
    assert 0 <= grown - need <= (0 if need < GROWING_BYTES else SPARE_BYTES)
    assert (grown > need) == (size == 64)


def test_within_a_pool_it_does_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    free = compiled(64).pool_bytes
    monkeypatch.setattr(lend, "SPARE_BYTES", 0)
    need = compiled(64).pool_bytes
    monkeypatch.undo()
    assert GROWING_BYTES <= need < free
    for pool in (need, need + 400):
        assert need <= compiled(64, pool=pool).pool_bytes <= pool


def test_where_planning_scratch_fails_the_gaps_are_lent(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = compiled(64).memory.arena_bytes
    monkeypatch.setattr(lend, "solve_at_bound", lambda _: None)
    program = compiled(64)
    check_layout(program.memory.buffers, program.memory.offsets, program.memory.arena_bytes)
    assert sum(scratch(program).values()) > 0
    assert program.memory.arena_bytes <= planned


@pytest.mark.parametrize("size", [12, 20, 32])
def test_where_planning_all_of_it_fails_less_is_planned(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What helps least is left out first, and no one gets less than from gaps alone, in all."""
    tried = []

    def fails(after: int, buffers: Sequence[Buffer]) -> Solution | None:
        tried.append(sum(b.nbytes for b in buffers))
        return solve_at_bound(buffers) if len(tried) > after else None

    monkeypatch.setattr(lend, "solve_at_bound", partial(fails, 1000))
    gaps = compiled(size)
    assert len(tried) == 7  # all, without unpacked errors, five caps
    assert sorted(tried, reverse=True) == tried
    tried.clear()
    monkeypatch.setattr(lend, "solve_at_bound", partial(fails, 2))
    less = compiled(size)
    assert len(tried) == 3
    check_layout(less.memory.buffers, less.memory.offsets, less.memory.arena_bytes)
    assert useful(less) >= useful(gaps)
    if size == 12:
        assert useful(less) > useful(gaps)


def useful(program: CompiledProgram) -> int:
    """Bytes of scratch memory, without those for unpacked errors."""
    values = program.program.values
    wanted = [
        (scratch_bytes(values, i, unpacked=False), values[i.operands["scratch"]].nbytes)
        for i in program.program.instrs
        if "scratch" in i.operands
    ]
    return sum(map(min, wanted))


@pytest.mark.parametrize("size", SIZES)
def test_an_instruction_gets_what_it_asks_for_where_there_is_room(size: int) -> None:
    program = compiled(size).program
    got = [i for i in program.instrs if "scratch" in i.operands and i.op == "conv2d_dx"]
    assert got
    for instr in got:
        wanted = scratch_bytes(program.values, instr)
        assert 0 < program.values[instr.operands["scratch"]].nbytes <= wanted


def test_lending_again_changes_nothing() -> None:
    program = compiled(12)
    again, memory = lend_scratch(program.program, program.memory)
    assert {n: v.nbytes for n, v in again.values.items()} == {
        n: v.nbytes for n, v in program.program.values.items()
    }
    assert memory.offsets == program.memory.offsets
