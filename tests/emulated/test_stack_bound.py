"""The reserved stack against what the firmware can need at most (T26)."""

from __future__ import annotations

import pytest
from tests.stack_bound import stack_bound

from mcutrain.boards.build import build_firmware
from mcutrain.boards.table import BOARDS, Board

pytestmark = pytest.mark.qemu

KERNELS = tuple(f"kernels_c/src/{part}/" for part in ("forward", "backward", "update", "head"))
KERNEL_FRAME = 400


@pytest.mark.parametrize("board", BOARDS.values(), ids=lambda board: board.id)
def test_t26_the_reserved_stack_is_enough_for_every_chain_of_calls(board: Board) -> None:
    assert 500 < stack_bound(board) <= board.stack_bytes


@pytest.mark.parametrize("board", BOARDS.values(), ids=lambda board: board.id)
def test_t26_each_kernel_has_a_small_frame(board: Board) -> None:
    frames = build_firmware(board).frames
    kernels = {k: size for k, size in frames.items() if k.startswith(KERNELS)}
    assert len(kernels) >= 20
    assert {k: size for k, size in kernels.items() if size > KERNEL_FRAME} == {}
