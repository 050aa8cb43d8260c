"""Row by row and whole maps on emulated boards: the same bytes, and hardly more instructions."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from tests.memory_table import network, plan_of

from mcutrain.boards.table import Board, get_board
from mcutrain.cli.bench import measure
from mcutrain.cli.emulated import bench
from mcutrain.cli.pack import synthetic_samples
from mcutrain.compile import Savings, compile_program
from mcutrain.engine import Engine
from mcutrain.image.pack import pack
from mcutrain.ir.program import CompiledProgram
from mcutrain.trainer import calibrated

pytestmark = [pytest.mark.qemu, pytest.mark.slow]

NETWORKS = [("mcunet-5fps", "49kb"), ("mcunet-5fps", "99kb"), ("mbv2-w0.35", "49kb")]
BOARDS = ["qemu:mps2-an385", "qemu:mps2-an386", "qemu:mps2-an500"]  # Cortex-M3, M4, M7
STEPS, RATE = 20, 0.01
Samples = list[tuple[bytes, int]]


@cache
def _both(path: Path, scheme: str) -> tuple[CompiledProgram, CompiledProgram, Samples]:
    """By rows, with whole maps, and samples."""
    graph = network(path, 128)
    plan, samples = plan_of(graph, scheme, 8), synthetic_samples(graph, 4, seed=3)
    by_rows, whole = (
        calibrated(compile_program(graph, plan, savings=Savings(rows=rows)), samples[:2])
        for rows in (True, False)
    )
    return by_rows, whole, samples


def _on_the_host(compiled: CompiledProgram, samples: Samples) -> bytes:
    engine = Engine(pack(compiled))
    for step in range(STEPS):
        sample, label = samples[step % len(samples)]
        engine.train(sample, label, RATE)
    return engine.state


def _on_a_board(board: Board, compiled: CompiledProgram, samples: Samples) -> bytes:
    inputs = [sample for sample, _ in samples]
    with bench(board, pack(compiled), compiled.pool_bytes, inputs) as booted:
        assert len(booted.samples) == len(samples)
        for step in range(STEPS):
            booted.session.sample_from_memory(booted.samples[step % len(samples)])
            booted.session.step(samples[step % len(samples)][1], RATE, RATE)
        assert booted.session.stats().guard_changed == 0
        return booted.session.read_state()


@pytest.mark.parametrize(("name", "scheme"), NETWORKS)
@pytest.mark.parametrize("board", BOARDS)
def test_twenty_steps_by_rows_and_with_whole_maps_give_the_same_bytes(
    refdata: Path, name: str, scheme: str, board: str
) -> None:
    by_rows, whole, samples = _both(refdata / f"{name}.pkl", scheme)
    assert any(i.op == "segment" for i in by_rows.program.instrs)
    assert not any(i.op == "segment" for i in whole.program.instrs)
    wanted = _on_the_host(whole, samples)
    assert wanted != Engine(pack(whole)).state
    assert _on_the_host(by_rows, samples) == wanted
    assert _on_a_board(get_board(board), by_rows, samples) == wanted
    assert _on_a_board(get_board(board), whole, samples) == wanted


@pytest.mark.parametrize(("name", "scheme"), NETWORKS)
@pytest.mark.parametrize("board", BOARDS[1:])
def test_rows_cost_at_most_three_percent(refdata: Path, name: str, scheme: str, board: str) -> None:
    by_rows, whole, samples = _both(refdata / f"{name}.pkl", scheme)
    steps = [
        measure(get_board(board), program, pack(program), samples).step
        for program in (by_rows, whole)
    ]
    print(f"{name} {scheme} {board}: {steps[0]:,} / {steps[1]:,} = {steps[0] / steps[1]:.4f}")
    assert steps[0] <= 1.03 * steps[1]
