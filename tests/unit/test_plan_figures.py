"""SRAM of the published networks and schemes at several sizes: bytes of state and arena."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.memory_table import ROWS, Row, compiled, network, plan_of

from mcutrain.boards.budgets import fit
from mcutrain.boards.table import get_board
from mcutrain.compile import compile_program
from mcutrain.image.pack import pack
from mcutrain.ir.macs import macs
from mcutrain.memory import plan_memory
from mcutrain.memory.lend import SPARE_BYTES
from mcutrain.plan.scheme import resolve_scheme

FIRMWARE = 4608  # variables, buffers of the link, and the stack that is used

# The pool reached without scratch memory for the kernels beyond what has room in it.
REACHED = (83_884, 71_788, 175_892, 88_504, 71_866, 101_492, 34_462)


@pytest.mark.parametrize(("row", "reached"), list(zip(ROWS, REACHED, strict=True)), ids=str)
def test_pool_of_the_published_networks(refdata: Path, row: Row, reached: int) -> None:
    """With scratch memory for the kernels it may grow, the stack counted by at most 2 KB."""
    small = compiled(row, refdata, pool=reached)
    assert small.pool_bytes <= reached
    assert not any(i.op == "conv2d" for i in small.program.instrs[small.program.forward :])
    assert compiled(row, refdata).pool_bytes <= min(reached + SPARE_BYTES, row.must - FIRMWARE)


LAYOUTS = [("mbv2-w0.35", 128, s) for s in ("49kb", "73kb", "99kb", "123kb", "138kb")]
LAYOUTS += [("mcunet-5fps", n, s) for n in (96, 160) for s in ("74kb", "99kb", "124kb", "148kb")]
LAYOUTS += [(row.network, row.pixels, row.scheme) for row in ROWS]


@pytest.mark.parametrize(("name", "size", "scheme"), sorted(set(LAYOUTS)))
def test_layouts_are_near_the_bound(refdata: Path, name: str, size: int, scheme: str) -> None:
    """Without the scratch memory that is cut to the gaps of a layout."""
    graph = network(refdata / f"{name}.pkl", size)
    program = compile_program(graph, plan_of(graph, scheme, 8)).program
    instrs = tuple(
        replace(
            i, operands={s: n for s, n in i.operands.items() if s != "scratch" or i.op == "head_dx"}
        )
        for i in program.instrs
    )
    memory = plan_memory(replace(program, instrs=instrs))
    assert memory.arena_bytes <= 1.01 * memory.lower_bound


def test_running_layers_again_brings_the_mobilenet_below_92160_bytes(refdata: Path) -> None:
    graph = network(refdata / "mbv2-w0.35.pkl", 128)
    plan = resolve_scheme(graph, "49kb", 8)
    plain = compile_program(graph, plan, pool=88_504)
    less = compile_program(graph, plan, pool=92_160 - FIRMWARE)
    assert plain.pool_bytes + FIRMWARE > 92_160 >= less.pool_bytes + FIRMWARE
    work = [sum(macs(c.program, i) for i in c.program.instrs) for c in (plain, less)]
    assert work[0] < work[1] <= 1.03 * work[0]


def test_flash_of_the_mcunet_with_the_firmware(refdata: Path) -> None:
    """With the firmware's budget, which a build does not exceed."""
    graph = network(refdata / "mcunet-5fps.pkl", 128)
    compiled = compile_program(graph, resolve_scheme(graph, "49kb", 8))
    board = get_board("qemu:netduinoplus2")
    assert fit(board, compiled.pool_bytes, len(pack(compiled))).flash <= 640 * 1024
