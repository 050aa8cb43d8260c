"""Scratch memory comes out of what a layout leaves free."""

from __future__ import annotations

import pytest
from tests.networks import residual_network

from mcutrain.compile import compile_program
from mcutrain.ir.program import ARENA, CompiledProgram
from mcutrain.ir.scratch import scratch_bytes
from mcutrain.memory import check_layout
from mcutrain.memory.lend import GROWING_BYTES, SPARE_BYTES, lend_scratch
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
def test_the_arena_hardly_grows(size: int) -> None:
    program = compiled(size)
    others = [b for b in program.memory.buffers if b.name not in scratch(program)]
    ends = max(program.memory.offsets[b.name] + b.nbytes for b in others)
    growth = program.memory.arena_bytes - ends
    state = program.pool_bytes - program.memory.arena_bytes
    assert growth <= (0 if state + ends < GROWING_BYTES else SPARE_BYTES)


def test_within_a_pool_it_does_not_grow() -> None:
    free = compiled(64)
    others = [b for b in free.memory.buffers if b.name not in scratch(free)]
    need = max(free.memory.offsets[b.name] + b.nbytes for b in others)
    state = free.pool_bytes - free.memory.arena_bytes
    assert free.memory.arena_bytes > need
    assert state + need >= GROWING_BYTES
    assert compiled(64, pool=state + need).memory.arena_bytes == need


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
