"""An emulated board whose firmware has a pool of just the right size, with its samples in flash."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mcutrain.boards.build import Firmware, build_firmware
from mcutrain.boards.emulate import EmulatedBoard, image_preload
from mcutrain.boards.table import Board
from mcutrain.link.session import Session
from mcutrain.link.wire import Place

_ALIGN = 16


@dataclass(frozen=True)
class Bench:
    """A booted board: the image is open in its flash partition, samples lie behind it.

    Attributes:
        samples: offsets of the samples in the partition, of as many as there was room for.
    """

    firmware: Firmware
    session: Session
    samples: tuple[int, ...]


@contextmanager
def bench(board: Board, image: bytes, pool_bytes: int, samples: Sequence[bytes]) -> Iterator[Bench]:
    """Build, boot and open; the emulator ends with the context.

    Args:
        board: an emulated board.
        image: bytes of the image.
        pool_bytes: what the firmware gets for state, arena and records.
        samples: input bytes, put into flash by the emulator; all or only the first ones.

    Raises:
        McutrainError: it does not fit, a tool is missing, or the board does not answer.
    """
    flash = bytearray(image)
    offsets: list[int] = []
    for sample in samples:
        start = -(-len(flash) // _ALIGN) * _ALIGN
        if offsets and start + len(sample) > board.image.size:
            break  # the first ones will do
        flash.extend(bytes(start - len(flash)) + sample)
        offsets.append(start)
    firmware = build_firmware(board, pool_bytes=pool_bytes)
    with tempfile.TemporaryDirectory(prefix="mcutrain-") as folder:
        path = Path(folder) / "flash.bin"
        path.write_bytes(flash)
        emulator = EmulatedBoard(board, firmware.elf, [image_preload(board, path)])
        with Session(emulator, board.id) as session:
            session.open_loaded(Place.FLASH, image)
            yield Bench(firmware, session, tuple(offsets))
