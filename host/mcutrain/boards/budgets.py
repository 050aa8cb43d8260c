"""What the firmware itself takes on each board: firmware/budgets.json.

With the table, a plan needs no compiler.

    python -m mcutrain.boards.budgets     builds for every board and writes the table anew

A test holds it against the linker: `static_bytes` to the byte, `flash_bytes` as an upper bound.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from mcutrain.boards.build import build_firmware
from mcutrain.boards.recipe import ROOT
from mcutrain.boards.table import ALL_BOARDS, KIB, Board
from mcutrain.errors import InputError
from mcutrain.files import write_atomic

TABLE = ROOT / "firmware" / "budgets.json"
_FLASH_STEP = 8 * KIB  # the bound is rounded up, so that not each change of code changes it


@dataclass(frozen=True)
class Budget:
    """Bytes that the firmware takes beside the pool.

    Attributes:
        static_bytes: variables, receive ring and frame buffers in SRAM.
        flash_bytes: code and constants, at most.
    """

    static_bytes: int
    flash_bytes: int


@dataclass(frozen=True)
class Fit:
    """Where a program's bytes go on a board.

    Attributes:
        pool: state and arena, and the image if it lies in SRAM.
        static: the firmware's variables.
        stack: reserved; the device's high-water mark stays below.
        ram: all SRAM there is.
        firmware: flash of the firmware; code: flash there is for it.
        image: bytes of the image; partition: flash there is for it.
    """

    pool: int
    static: int
    stack: int
    ram: int
    firmware: int
    code: int
    image: int
    partition: int

    @property
    def sram(self) -> int:
        """All SRAM that is used: the number that the linker map shows."""
        return self.pool + self.static + self.stack

    @property
    def flash(self) -> int:
        """Flash for firmware and image."""
        return self.firmware + self.image

    def problems(self) -> list[str]:
        """Why it does not fit; empty if it does."""
        pairs = (
            ("SRAM", self.sram, self.ram),
            ("flash for code", self.firmware, self.code),
            ("flash for the image", self.image, self.partition),
        )
        return [
            f"{what}: {need:,} bytes needed, {have:,} there"
            for what, need, have in pairs
            if need > have
        ]


def budget_of(board: Board) -> Budget:
    """The row of a board.

    Raises:
        InputError: the table is missing, damaged or has no such row.
    """
    try:
        return Budget(**json.loads(TABLE.read_text(encoding="utf-8"))[board.id])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            "the table of firmware sizes cannot be read",
            where=str(TABLE),
            why=f"{type(error).__name__}: {error}",
            hint="python -m mcutrain.boards.budgets writes it anew",
        ) from error


def fit(board: Board, pool: int, image: int) -> Fit:
    """What a pool and an image in flash take on a board, whether they fit or not."""
    budget = budget_of(board)
    return Fit(
        pool,
        budget.static_bytes,
        board.stack_bytes,
        board.ram.size,
        budget.flash_bytes,
        board.code.size,
        image,
        board.image.size,
    )


def room_on(board: Board, ram: int | None = None) -> int:
    """SRAM that there is for the pool, of `ram` bytes or all that the board has."""
    there = board.ram.size if ram is None else ram
    return there - budget_of(board).static_bytes - board.stack_bytes


def measure(board: Board) -> Budget:
    """The row as a build gives it."""
    sizes = build_firmware(board).sizes
    return Budget(sizes.data + sizes.bss, -(-sizes.flash_bytes // _FLASH_STEP) * _FLASH_STEP)


def main(table: Path = TABLE) -> None:
    """Build for every board and write the table."""
    rows = {board.id: asdict(measure(board)) for board in ALL_BOARDS.values()}
    write_atomic(table, json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
