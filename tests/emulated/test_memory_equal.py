"""SRAM as planned, as linked and as the device uses it, to the byte; the stack below its bound."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from models import demo
from tests.image_cases import samples
from tests.stack_bound import stack_bound
from tests.traces import PROGRAMS, program

from mcutrain.boards.budgets import fit
from mcutrain.boards.build import Firmware, build_firmware
from mcutrain.boards.emulate import EmulatedBoard, image_preload
from mcutrain.boards.table import BOARDS, Board, get_board
from mcutrain.cli.main import main
from mcutrain.compile import compile_program
from mcutrain.errors import FitError
from mcutrain.image.pack import pack
from mcutrain.ir import serialize
from mcutrain.ir.program import CompiledProgram
from mcutrain.link.session import Session
from mcutrain.link.wire import Place
from mcutrain.plan.scheme import resolve_scheme
from mcutrain.report.accounting import cost_of

pytestmark = pytest.mark.qemu

NETDUINO = get_board("qemu:netduinoplus2")
SECTION_IN_SRAM = re.compile(
    r"^\.(?:stack|data|bss|noinit|mct_pool)\s+0x\w+\s+(0x\w+)", re.MULTILINE
)


def planned(board: Board, compiled: CompiledProgram) -> int:
    """All SRAM, by the plan alone."""
    return fit(board, cost_of(compiled, 0).pool, 0).sram


def cut_to(board: Board, nbytes: int) -> Board:
    """A chip with that much SRAM and no more, up to its granularity."""
    return board.with_ram(-(-nbytes // 16) * 16)


def linked(firmware: Firmware) -> int:
    """All SRAM, by the linker's map."""
    return sum(int(size, 16) for size in SECTION_IN_SRAM.findall(firmware.map.read_text()))


def check_on_the_device(firmware: Firmware, compiled: CompiledProgram, folder: Path) -> None:
    path = folder / "image.bin"
    path.write_bytes(pack(compiled))
    board, pool = firmware.board, compiled.pool_bytes
    with Session(
        EmulatedBoard(board, firmware.elf, [image_preload(board, path)]), board.id
    ) as session:
        session.open_loaded(Place.FLASH, path.read_bytes())
        for sample, label in samples(compiled, 3):
            session.train_step(sample, label, 0.01, 0.01)
        session.predict(sample)
        info, stats = session.info, session.stats()
    assert (info.pool_bytes, stats.pool_planned, stats.pool_used) == (pool, pool, pool)
    sizes = firmware.sizes
    assert sizes.stack + sizes.data + sizes.bss + stats.pool_used == planned(board, compiled)
    assert 0 < stats.stack_used <= stack_bound(get_board(board.id)) <= info.stack_bytes
    assert info.stack_bytes == sizes.stack
    assert info.build == firmware.build_id
    # An overrun of the pool would run into the guard; newer emulators have no memory there.
    assert stats.guard_bytes in (0, 65536)
    assert stats.guard_changed == 0


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("board", BOARDS.values(), ids=lambda board: board.id)
def test_t19_t22_planned_linked_and_used_memory_are_equal(
    board: Board, name: str, tmp_path: Path
) -> None:
    compiled = program(name)
    wanted = planned(board, compiled)
    cut = cut_to(board, wanted)
    firmware = build_firmware(cut, pool_bytes=compiled.pool_bytes)
    assert linked(firmware) == firmware.sizes.ram_bytes == wanted
    check_on_the_device(firmware, compiled, tmp_path)


def test_t19_a_chip_with_less_memory_than_planned_is_too_small() -> None:
    compiled = program("branches")
    cut = cut_to(NETDUINO, planned(NETDUINO, compiled) - 16)
    with pytest.raises(FitError, match="overflowed by"):
        build_firmware(cut, pool_bytes=compiled.pool_bytes)


def test_t20_the_number_of_the_command_line_is_that_of_the_device(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net, scheme = demo.HERE / "demo.net.npz", str(demo.SCHEME)
    with pytest.raises(SystemExit):
        main(["plan", str(net), "--scheme", scheme, "--board", NETDUINO.id, "--json"])
    plan = json.loads(capsys.readouterr().out)
    graph = serialize.load(net)
    compiled = compile_program(graph, resolve_scheme(graph, scheme))
    cut = cut_to(NETDUINO, plan["board_bytes"]["sram"])
    firmware = build_firmware(cut, pool_bytes=plan["pool_bytes"])
    assert linked(firmware) == plan["board_bytes"]["sram"] == planned(NETDUINO, compiled)
    assert firmware.sizes.flash_bytes <= plan["board_bytes"]["firmware"]
    assert len(pack(compiled)) == plan["board_bytes"]["image"]
    check_on_the_device(firmware, compiled, tmp_path)
