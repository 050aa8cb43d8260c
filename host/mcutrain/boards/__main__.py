"""`python -m mcutrain.boards`: build the firmware of every board and list its sizes."""

from __future__ import annotations

import sys

from mcutrain.boards.build import build_firmware
from mcutrain.boards.table import ALL_BOARDS
from mcutrain.errors import McutrainError


def main() -> int:
    """Build all boards; the exit code is that of the first error."""
    for board in ALL_BOARDS.values():
        try:
            sizes = build_firmware(board).sizes
        except McutrainError as error:
            sys.stderr.write(f"{error}\n")
            return error.exit_code
        sys.stdout.write(
            f"{board.id}: text {sizes.text}, rodata {sizes.rodata}, data {sizes.data}, "
            f"bss {sizes.bss}, stack {sizes.stack}, pool {sizes.pool}\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
