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
        samples: offset of each sample in the partition.
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
        samples: input bytes, put into flash by the emulator.

    Raises:
        McutrainError: it does not fit, a tool is missing, or the board does not answer.
    """
    flash = bytearray(image)
    offsets = []
    for sample in samples:
        flash.extend(bytes(-len(flash) % _ALIGN))
        offsets.append(len(flash))
        flash.extend(sample)
    firmware = build_firmware(board, pool_bytes=pool_bytes)
    with tempfile.TemporaryDirectory(prefix="mcutrain-") as folder:
        path = Path(folder) / "flash.bin"
        path.write_bytes(flash)
        emulator = EmulatedBoard(board, firmware.elf, [image_preload(board, path)])
        with Session(emulator, board.id) as session:
            session.open_loaded(Place.FLASH, image)
            yield Bench(firmware, session, tuple(offsets))
