"""The published network and scheme at their real shapes: instructions, and the host's bytes.

The limits are those that the kernels were written for; figures that were seen are in
docs/performance.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mcutrain.boards.build import build_firmware
from mcutrain.boards.table import KIB, get_board
from mcutrain.cli.bench import measure, profile
from mcutrain.cli.emulated import bench
from mcutrain.cli.pack import synthetic_samples
from mcutrain.compile import compile_program
from mcutrain.engine import Engine
from mcutrain.frontends import import_network
from mcutrain.image.pack import pack
from mcutrain.ir.graph import Graph
from mcutrain.ir.program import CompiledProgram
from mcutrain.plan.head import fresh_head
from mcutrain.plan.scheme import resolve_scheme
from mcutrain.trainer import calibrated

pytestmark = pytest.mark.qemu

M4, M7 = "qemu:netduinoplus2", "qemu:mps2-an500"
BOARDS = (M4, M7)
STEP, FORWARD = 62e6, 42e6
INFERENCE, DEPTHWISE_3X3, DEPTHWISE_DX = 0.53, 0.28, 0.25  # MACs per instruction
CODE = 56 * KIB


@cache
def network(folder: Path) -> Graph:
    """MCUNet-5FPS, 128x128, ten classes."""
    return fresh_head(import_network(folder / "mcunet-5fps.pkl"), 10)


@cache
def mcunet(folder: Path) -> CompiledProgram:
    """It with the published 49 KB scheme."""
    graph = network(folder)
    program = compile_program(graph, resolve_scheme(graph, "49kb"))
    return calibrated(program, synthetic_samples(graph, 8, seed=0))


@cache
def rows_of(board: str, folder: Path) -> list[dict[str, Any]]:
    program = mcunet(folder)
    samples = synthetic_samples(network(folder), 2, seed=0)
    return profile(get_board(board), program, pack(program), samples)


def ratio(rows: Iterable[dict[str, Any]]) -> float:
    """MACs per instruction."""
    chosen = list(rows)
    return float(sum(r["macs"] for r in chosen) / sum(r["instructions"] for r in chosen))


@pytest.mark.parametrize("board", BOARDS)
def test_a_step_takes_half_of_the_instructions_of_the_published_engine(
    board: str, refdata: Path
) -> None:
    program = mcunet(refdata)
    samples = synthetic_samples(network(refdata), 3, seed=0)
    measured = measure(get_board(board), program, pack(program), samples)
    assert measured.step <= STEP
    assert max(measured.forward) <= FORWARD


@pytest.mark.parametrize("board", BOARDS)
def test_macs_per_instruction(board: str, refdata: Path) -> None:
    rows = rows_of(board, refdata)
    forward = [r for r in rows if r["phase"] == "forward"]
    assert ratio(forward) >= INFERENCE
    stride_1 = re.compile(r"b(0|2|4|8|9|13)\.depthwise")  # kernel 3
    assert ratio(r for r in forward if stride_1.fullmatch(r["layer"])) >= DEPTHWISE_3X3
    errors = (r for r in rows if r["phase"] == "dX" and r["layer"].endswith(".depthwise"))
    assert ratio(errors) >= DEPTHWISE_DX


@pytest.mark.parametrize("board", BOARDS)
def test_the_code_of_a_baked_firmware(board: str, refdata: Path) -> None:
    firmware = build_firmware(get_board(board), image=pack(mcunet(refdata)))
    assert firmware.sizes.text <= CODE


@pytest.mark.parametrize("board", BOARDS)
def test_the_state_after_steps_is_that_of_the_host(board: str, refdata: Path) -> None:
    program = mcunet(refdata)
    image, samples = pack(program), synthetic_samples(network(refdata), 2, seed=1)
    host = Engine(image)
    want = [host.train(sample, label % 10, 0.01, 0.01).loss for sample, label in samples]
    flash = [sample for sample, _ in samples]
    with bench(get_board(board), image, program.pool_bytes, flash) as booted:
        found = []
        for offset, (_, label) in zip(booted.samples, samples, strict=True):
            booted.session.sample_from_memory(offset)
            found.append(booted.session.step(label % 10, 0.01, 0.01).loss)
        assert found == want
        assert booted.session.read_state() == host.state
        assert booted.session.stats().guard_changed == 0
