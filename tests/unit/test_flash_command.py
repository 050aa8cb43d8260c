"""Flashing: which program is taken, with which arguments, and what is said where none will do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.link_helpers import PATIENCE, POOL, small_image, tiny_image
from tests.networks import residual_network

from mcutrain.boards.build import Firmware
from mcutrain.boards.flash import write
from mcutrain.boards.sizes import Sizes
from mcutrain.boards.table import ALL_BOARDS, REAL_BOARDS, get_board
from mcutrain.cli import save as save_command
from mcutrain.cli.build import build_for
from mcutrain.cli.flash import verify
from mcutrain.cli.main import main
from mcutrain.compile import compile_program
from mcutrain.engine.loopback import Loopback
from mcutrain.errors import FitError, LinkError, ToolchainError, UsageError
from mcutrain.image.pack import pack
from mcutrain.link.session import Session
from mcutrain.plan.scheme import resolve_scheme

Bin = Callable[..., Path]


def firmware(board: str, image: bool = True, build_id: str = "0123456789abcdef") -> Firmware:
    return Firmware(
        board=get_board(board),
        elf=Path("/f/firmware.elf"),
        map=Path("/f/firmware.map"),
        binary=Path("/f/firmware.bin"),
        image_binary=Path("/f/image.bin") if image else None,
        build_id=build_id,
        sizes=Sizes(1, 1, 1, 1, 1, 1),
        frames={},
    )


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bin:
    """Puts programs on an otherwise empty PATH; each notes its arguments, one call a line."""

    def put(*names: str, code: int = 0, says: str = "") -> Path:
        for name in names:
            script = tmp_path / name
            script.write_text(f'#!/bin/sh\necho "{name} $*" >>{tmp_path}/log\necho "{says}"\n')
            script.write_text(script.read_text() + f"exit {code}\n")
            script.chmod(0o755)
        return tmp_path / "log"

    monkeypatch.setenv("PATH", str(tmp_path))
    return put


def test_debuggers_come_first(programs: Bin) -> None:
    log = programs("openocd", "stm32flash", "dfu-util", "pyocd")
    assert write(firmware("nucleo_f446re")) == "pyocd"
    assert log.read_text() == "pyocd load --target stm32f446retx --format elf /f/firmware.elf\n"


@pytest.mark.parametrize("board", REAL_BOARDS)
def test_openocd_programs_verifies_and_starts(programs: Bin, board: str) -> None:
    log = programs("openocd")
    assert write(firmware(board)) == "openocd"
    family = re.match(r"stm32(..)", REAL_BOARDS[board].chip.lower())
    assert family is not None
    assert log.read_text() == (
        f"openocd -f interface/stlink.cfg -f target/stm32{family[1]}x.cfg "
        "-c program {/f/firmware.elf} verify reset exit\n"
    )


def test_the_serial_boot_loader_gets_image_and_code_apart(programs: Bin) -> None:
    log = programs("stm32flash")
    assert write(firmware("genericSTM32F103RE"), port="/dev/ttyUSB0") == "stm32flash"
    assert log.read_text().splitlines() == [
        "stm32flash -b 115200 -v -w /f/image.bin -S 0x8010000 /dev/ttyUSB0",
        "stm32flash -b 115200 -v -w /f/firmware.bin -S 0x8000000 -g 0x8000000 /dev/ttyUSB0",
    ]


def test_the_usb_boot_loader_leaves_after_the_code(programs: Bin) -> None:
    log = programs("dfu-util")
    assert write(firmware("genericSTM32F405RG")) == "dfu-util"
    assert log.read_text().splitlines() == [
        "dfu-util -a 0 -D /f/image.bin -s 0x8040000",
        "dfu-util -a 0 -D /f/firmware.bin -s 0x8000000:leave",
    ]
    log.unlink()
    write(firmware("genericSTM32F405RG", image=False))
    assert len(log.read_text().splitlines()) == 1


def test_t61_without_any_program_the_message_says_how_to_get_one(programs: Bin) -> None:
    programs()
    with pytest.raises(ToolchainError, match="no program that can write this board") as caught:
        write(firmware("nucleo_f446re"))
    assert "pip install pyocd" in (caught.value.hint or "")
    assert "pyocd, openocd" in (caught.value.why or "")


def test_a_named_program_is_taken_or_refused(programs: Bin) -> None:
    log = programs("pyocd", "openocd")
    assert write(firmware("nucleo_f446re"), tool="openocd") == "openocd"
    assert "pyocd" not in log.read_text()
    for tool in ("stm32flash", "dfu-util", "avrdude"):
        with pytest.raises(UsageError, match="cannot write this board"):
            write(firmware("nucleo_f446re"), tool=tool)
    with pytest.raises(UsageError, match="cannot write"):
        write(firmware("genericSTM32F103RE"), tool="stm32flash")  # without --port


def test_a_program_that_fails_is_quoted(programs: Bin) -> None:
    programs("openocd", code=1, says="Error: open failed")
    with pytest.raises(ToolchainError, match="openocd failed with exit code 1") as caught:
        write(firmware("nucleo_f446re"))
    assert (caught.value.where, caught.value.why) == ("nucleo_f446re", "Error: open failed")
    assert "ST-Link" in (caught.value.hint or "")
    programs("pyocd", code=1, says="Target type stm32f446retx not recognized")
    with pytest.raises(ToolchainError) as caught:
        write(firmware("nucleo_f446re"))
    assert caught.value.hint == "pyocd pack install stm32f446retx"


def test_an_emulated_board_is_not_flashed(programs: Bin) -> None:
    programs("pyocd")
    with pytest.raises(UsageError, match="emulated"):
        write(firmware("qemu:netduinoplus2"))


def test_t62_the_build_that_runs_is_read_back() -> None:
    session = Session(Loopback(pool_bytes=POOL), "host", PATIENCE)
    verify(session, firmware("nucleo_f446re", build_id=session.info.build), "/dev/ttyACM0")
    with pytest.raises(LinkError, match="does not run the firmware") as caught:
        verify(session, firmware("nucleo_f446re"), "/dev/ttyACM0")
    assert "0123456789abcdef" in (caught.value.why or "")
    assert session.info.build in (caught.value.why or "")


def test_an_image_that_does_not_fit_is_refused_before_anything_is_built(
    programs: Bin, tmp_path: Path
) -> None:
    programs()  # no compiler: a build would be another error
    graph = residual_network(64)
    image = tmp_path / "large.mcti"
    image.write_bytes(pack(compile_program(graph, resolve_scheme(graph, "full"), seed=0)))
    board = get_board("genericSTM32F103RE")
    with pytest.raises(FitError, match="does not fit into genericSTM32F103RE") as caught:
        build_for(board, image, generic=False)
    assert re.search(r"SRAM: [\d,]+ bytes needed, 65,536 there", caught.value.why or "")
    image.write_bytes(tiny_image())
    with pytest.raises(ToolchainError):
        build_for(board, image, generic=False)


def test_every_real_board_has_what_flashing_needs() -> None:
    for board in REAL_BOARDS.values():
        assert board.flasher is not None
        assert board.flasher.pyocd.startswith(board.chip.lower()[:9])
        assert board.flasher.openocd == f"{board.chip.lower()[:7]}x"


def test_boards_are_listed_with_how_far_they_were_tried(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["boards", "--json"])
    rows = {row["id"]: row for row in json.loads(capsys.readouterr().out)["boards"]}
    assert set(rows) == set(ALL_BOARDS)
    assert rows["disco_f746ng"]["emulated"] is False
    assert rows["disco_f746ng"]["state_at_most"] == 64 * 1024 - 32
    assert rows["nucleo_l476rg"]["state_at_most"] == 64 * 1024 - 32


def test_t16_save_keeps_the_state_of_a_board_on_a_port(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = Loopback(pool_bytes=1 << 20)
    session = Session(line, "port", PATIENCE)
    session.open(small_image())
    monkeypatch.setattr(
        save_command, "open_device", lambda *_, **__: Session(line, "port", PATIENCE)
    )
    monkeypatch.setattr(line, "close", lambda: None)
    with pytest.raises(SystemExit):
        main(["save", "--device", "/dev/ttyACM0", "--json"])
    saved = json.loads(capsys.readouterr().out)
    assert (saved["step"], saved["erasures_0"], saved["erasures_1"]) == (0, 1, 0)
    with pytest.raises(SystemExit):
        main(["save", "--device", "/dev/ttyACM0"])
    assert "saved after 0 steps" in capsys.readouterr().out
