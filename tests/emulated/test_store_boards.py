"""T16 on emulated boards: the firmware saves, is reset, and goes on as if it had not been.

The MPS2 boards keep states in memory that a reset leaves alone. Emulated STM32 flash ignores
writes: there, the drivers are held against models (tests/unit/test_flash_drivers.py).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.link_helpers import POOL, samples, tiny_image

from mcutrain.boards.build import build_firmware
from mcutrain.boards.emulate import EmulatedBoard, image_preload
from mcutrain.boards.table import BOARDS, REAL_BOARDS, Board
from mcutrain.engine.loopback import Loopback
from mcutrain.errors import LinkError
from mcutrain.link.session import Session
from mcutrain.link.wire import Place

pytestmark = pytest.mark.qemu

WITH_STORE = [board for board in BOARDS.values() if board.store is not None]
LR = 0.05


def _train(session: Session, start: int, end: int) -> None:
    assert session.info.image is not None
    for sample, label in list(samples(end, session.info.image.sample_bytes))[start:]:
        session.train_step(sample, label, LR, LR)


@pytest.mark.parametrize("board", WITH_STORE, ids=lambda board: board.id)
def test_t16_a_board_goes_on_after_a_reset(board: Board, tmp_path: Path) -> None:
    image = tiny_image()
    path = tmp_path / "image.bin"
    path.write_bytes(image)
    uninterrupted = Session(Loopback(pool_bytes=POOL), "host")
    uninterrupted.open(image)
    _train(uninterrupted, 0, 12)

    line = EmulatedBoard(board, build_firmware(board).elf, [image_preload(board, path)])
    with Session(line, board.id) as session:
        session.open_loaded(Place.FLASH, image)
        for end in (3, 6):
            _train(session, end - 3, end)
            saved = session.save()
        assert (saved.step, saved.erasures_0, saved.erasures_1) == (6, 1, 1)
        _train(session, 6, 8)  # lost with the reset
        info = session.reboot()
        assert info.fault is None
        assert (info.step, info.image_crc) == (6, int.from_bytes(image[12:16], "little"))
        session.attach()
        _train(session, 6, 12)
        assert session.read_state() == uninterrupted.read_state()
        assert session.stats().pool_used == session.stats().pool_planned


def test_a_board_without_flash_for_states_says_so() -> None:
    board = BOARDS["qemu:netduinoplus2"]
    with Session(EmulatedBoard(board, build_firmware(board).elf), board.id) as session:
        session.open(tiny_image())
        with pytest.raises(LinkError, match="no flash for trained states"):
            session.save()


def test_the_firmware_of_a_real_f405_runs_on_the_emulated_one() -> None:
    """The same ELF that is flashed.

    QEMU has no PLL: the clock falls back. Its flash ignores writes: reading back finds that.
    """
    board = REAL_BOARDS["genericSTM32F405RG"]
    emulated = replace(board, emulation=BOARDS["qemu:netduinoplus2"].emulation)
    host = Session(Loopback(pool_bytes=POOL), "host")
    with Session(EmulatedBoard(emulated, build_firmware(board).elf), board.id) as session:
        assert session.info.board == board.id
        assert session.info.build == build_firmware(board).build_id
        for one in (host, session):
            one.open(tiny_image())
            _train(one, 0, 3)
        assert session.read_state() == host.read_state()
        with pytest.raises(LinkError, match="cannot be written"):
            session.save()
        assert session.read_state() == host.read_state()
