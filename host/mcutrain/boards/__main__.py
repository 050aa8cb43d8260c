"""`python -m mcutrain.boards`: build the firmware of every board and hold its size to its budget.

With `--platformio` PlatformIO builds them as well, and must come to the same sizes.
"""

from __future__ import annotations

import argparse
import sys

from mcutrain.boards import platformio
from mcutrain.boards.budgets import budget_of
from mcutrain.boards.build import build_firmware
from mcutrain.boards.recipe import ROOT
from mcutrain.boards.sizes import Sizes
from mcutrain.boards.table import ALL_BOARDS, Board
from mcutrain.errors import FitError, InternalError, McutrainError


def check(board: Board, sizes: Sizes) -> str:
    """One line on a board.

    Raises:
        FitError: flash or static SRAM is above the budget.
    """
    budget = budget_of(board)
    static = sizes.data + sizes.bss
    if sizes.flash_bytes > budget.flash_bytes or static > budget.static_bytes:
        raise FitError(
            "the firmware is larger than its budget",
            where=board.id,
            why=f"flash {sizes.flash_bytes} of {budget.flash_bytes}, "
            f"static SRAM {static} of {budget.static_bytes}",
            hint="python -m mcutrain.boards.budgets writes the budgets anew; say why in the commit",
        )
    return (
        f"{board.id:22} {board.chip:14} flash {sizes.flash_bytes:6} of {budget.flash_bytes:6}"
        f"   static {static:5} of {budget.static_bytes:5}   stack {sizes.stack}   "
        f"pool {sizes.pool}\n"
    )


def main(arguments: list[str] | None = None) -> int:
    """Build all boards; the exit code is that of the first error."""
    parser = argparse.ArgumentParser(prog="python -m mcutrain.boards", description=__doc__)
    parser.add_argument("--platformio", action="store_true", help="build with PlatformIO, too")
    wanted = parser.parse_args(arguments)
    boards = list(ALL_BOARDS.values())
    try:
        sizes = {board.id: build_firmware(board).sizes for board in boards}
        for board in boards:
            sys.stdout.write(check(board, sizes[board.id]))
        if wanted.platformio:
            compare(sizes, platformio.build(boards, ROOT / "build" / "pio", native=True))
            sys.stdout.write(f"PlatformIO: the same sizes for all {len(boards)} boards\n")
    except McutrainError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


def compare(ours: dict[str, Sizes], theirs: dict[str, Sizes]) -> None:
    """Both builds have the same sources and flags, so that they have the same sizes.

    Raises:
        InternalError: they differ for a board.
    """
    for name, sizes in theirs.items():
        if sizes != ours[name]:
            raise InternalError(
                "PlatformIO builds another firmware", where=name, why=f"{sizes}, not {ours[name]}"
            )


if __name__ == "__main__":
    sys.exit(main())
