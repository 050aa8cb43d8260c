"""What lies in the flash of a board: the build it says it is, images that are not damaged."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.image_cases import packed

from mcutrain.boards.build import build_firmware
from mcutrain.boards.table import BOARDS, get_board
from mcutrain.devices import open_device
from mcutrain.errors import ImageError
from mcutrain.link.wire import Place

pytestmark = pytest.mark.qemu


@pytest.mark.parametrize("board", ["qemu:netduinoplus2", "qemu:mps2-an385"])
def test_a_damaged_image_in_flash_is_refused(board: str, tmp_path: Path) -> None:
    image, path = packed("residual-full-8"), tmp_path / "image.bin"
    rng = random.Random(7)
    for at in (0, rng.randrange(len(image)), rng.randrange(len(image)), len(image) - 1):
        bad = bytearray(image)
        bad[at] ^= rng.randrange(1, 256)
        path.write_bytes(bad)
        with open_device(board, preloads=[(path, 0)]) as session:
            with pytest.raises(ImageError):
                session.open_loaded(Place.FLASH)
            assert session.hello().image_crc is None
    path.write_bytes(image)
    with open_device(board, preloads=[(path, 0)]) as session:
        session.open_loaded(Place.FLASH)


@pytest.mark.parametrize("board", BOARDS)
def test_t62_a_board_says_which_build_it_runs(board: str) -> None:
    with open_device(board) as session:
        assert session.info.build == build_firmware(get_board(board)).build_id
