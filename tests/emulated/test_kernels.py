"""Every fast kernel on emulated cores: the bytes are those of the plain kernels on the host."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
from tests.emulated.kernel_board import BoardKernels
from tests.kernels import fast, other_cases
from tests.kernels.bridge import KERNEL, Call
from tests.kernels.cases import Case, Run, assert_same, outcome
from tests.kernels.conftest import ROOT, compile_kernels

from mcutrain.boards.table import get_board
from mcutrain.boards.toolchain import GCC, QEMU
from mcutrain.ir.program import Instr
from mcutrain.ir.reference.runtime import Memory, Runtime

pytestmark = [
    pytest.mark.qemu,
    pytest.mark.skipif(
        shutil.which(GCC) is None or shutil.which(QEMU) is None,
        reason=f"needs {GCC} and {QEMU}",
    ),
]

# The core without the extension runs the plain kernels, which have a grid of their own.
BOARDS = {"qemu:netduinoplus2": 1, "qemu:mps2-an500": 2, "qemu:mps2-an385": 8}
BOARDS["qemu:mps3-an547"] = 2  # pointwise convolutions with its vector extension


@pytest.fixture(scope="module")
def host() -> ModuleType:
    return compile_kernels(ROOT / "build" / "tests" / "kernels")


@pytest.fixture(scope="module", params=BOARDS)
def board(request: pytest.FixtureRequest, host: ModuleType) -> Iterator[BoardKernels]:
    kernels = BoardKernels(get_board(request.param), host)
    yield kernels
    kernels.close()


def on_board(board: BoardKernels, nbytes: int) -> Run:
    """An instruction on the board with so much scratch memory."""

    def run(instr: Instr, memory: Memory, runtime: Runtime) -> None:
        scratch = np.full(nbytes, 0xA5, np.uint8)
        owners = [n for n, v in memory.program.values.items() if v.view_of is None]
        board.share([*(memory.array(n) for n in owners), scratch])
        KERNEL[instr.op](Call(board, instr, memory, runtime, scratch))
        board.fetch()

    return run


def plane_bytes(case: Case) -> int:
    """What an error written in place needs in any case."""
    h, w, _ = case.values["e_x"].shape if case.op == "conv2d_dx" else (0, 0, 0)
    return h * w


def test_the_bytes_are_those_of_the_host(board: BoardKernels, host: ModuleType) -> None:
    for case in fast.CASES[:: BOARDS[board.board_id]]:
        full = max(fast.wanted(case), plane_bytes(case))
        for alias in case.aliases():
            want = outcome(case, fast.plain(host), alias)
            got = outcome(case, on_board(board, full), alias)
            assert_same(want, got, (board.board_id, case.op, case.key, alias))


def test_additions(board: BoardKernels, host: ModuleType) -> None:
    for case in other_cases.CASES["add"][:: BOARDS[board.board_id]]:
        want = outcome(case, fast.plain(host))
        assert_same(want, outcome(case, on_board(board, 0)), (board.board_id, case.key))


def test_less_scratch_gives_the_same_bytes(board: BoardKernels, host: ModuleType) -> None:
    for case in fast.CASES[:: 5 * BOARDS[board.board_id]]:
        nbytes = fast.wanted(case) * 5 // 8 // 4 * 4
        got = outcome(case, on_board(board, nbytes))
        assert_same(outcome(case, fast.plain(host)), got, (board.board_id, case.op, case.key))
