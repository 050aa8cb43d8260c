"""A firmware for debugging watches the bytes beside every buffer, over a whole real network."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tests.image_cases import samples
from tests.memory_table import network, plan_of

from mcutrain.boards import recipe
from mcutrain.boards.build import Firmware, build_firmware
from mcutrain.boards.emulate import EmulatedBoard, image_preload
from mcutrain.boards.table import get_board
from mcutrain.compile import compile_program
from mcutrain.engine import Engine
from mcutrain.errors import InternalError
from mcutrain.image.format import CANARY_BYTES
from mcutrain.image.pack import pack
from mcutrain.ir.program import CompiledProgram
from mcutrain.link.session import Session
from mcutrain.link.wire import Place

pytestmark = [pytest.mark.qemu, pytest.mark.slow]

BOARD = get_board("qemu:mps2-an386")
RATE = 0.01


def _watched(refdata: Path, name: str, scheme: str) -> CompiledProgram:
    graph = network(refdata / f"{name}.pkl", 128)
    return compile_program(graph, plan_of(graph, scheme, 8), canary=CANARY_BYTES)


def _firmware(program: CompiledProgram, kernels: Path | None = None) -> Firmware:
    return build_firmware(
        BOARD, kernels=kernels, defines={"MCT_CANARIES": "1"}, pool_bytes=program.pool_bytes
    )


def _state_after_a_step(firmware: Firmware, program: CompiledProgram, folder: Path) -> bytes:
    path = folder / "image.bin"
    path.write_bytes(pack(program))
    emulator = EmulatedBoard(BOARD, firmware.elf, [image_preload(BOARD, path)])
    with Session(emulator, BOARD.id) as session:
        session.open_loaded(Place.FLASH, path.read_bytes())
        sample, label = samples(program, 1)[0]
        session.train_step(sample, label, RATE, RATE)
        return session.read_state()


@pytest.mark.parametrize(("name", "scheme"), [("mcunet-5fps", "49kb"), ("mbv2-w0.35", "49kb")])
def test_canaries_stay_intact_on_a_board(
    refdata: Path, tmp_path: Path, name: str, scheme: str
) -> None:
    program = _watched(refdata, name, scheme)
    host = Engine(pack(program))
    host.train(*samples(program, 1)[0], RATE)
    assert _state_after_a_step(_firmware(program), program, tmp_path) == host.state


def test_a_kernel_that_writes_too_much_is_found_on_a_board(refdata: Path, tmp_path: Path) -> None:
    kernels = tmp_path / "kernels_c"
    shutil.copytree(recipe.KERNELS, kernels)
    source = kernels / "src" / "forward" / "mct_gather_s8.c"
    right = "        x += p->c_x;\n    }\n"
    assert right in source.read_text()
    source.write_text(source.read_text().replace(right, right + "    *y = 0;\n"))
    program = _watched(refdata, "mcunet-5fps", "49kb")
    with pytest.raises(InternalError, match="beside a buffer") as caught:
        _state_after_a_step(_firmware(program, kernels), program, tmp_path)
    found = re.search(r"instruction (\d+), buffer of (\d+)$", str(caught.value.where))
    assert found is not None
    instr = program.program.instrs[int(found[1])]
    assert instr.op == "gather"
    assert list(program.program.values)[int(found[2])] == instr.operands["y"]
