"""`mcutrain boards`: what firmware can be built for."""

from __future__ import annotations

from typing import Any

from mcutrain.boards.budgets import budget_of
from mcutrain.boards.table import ALL_BOARDS, Board
from mcutrain.cli.common import OUT, Json, show, table


def run(as_json: Json = False) -> None:
    """List the boards: SRAM and flash that an image has, and how far each of them was tried.

    docs/boards.md says how to add one.

    Example: mcutrain boards
    """
    rows = [describe(board) for board in ALL_BOARDS.values()]
    show(as_json, {"boards": rows}, lambda: _draw(rows))


def describe(board: Board) -> dict[str, Any]:
    """A board for `--json`; sizes in bytes."""
    budget = budget_of(board)
    return {
        "id": board.id,
        "chip": board.chip,
        "cpu": board.cpu,
        "clock_hz": board.clock_hz,
        "ram": board.ram.size,
        "pool": board.ram.size - board.stack_bytes - budget.static_bytes,
        "flash_for_image": board.image.size,
        "state_at_most": board.state_bytes,
        "serial": board.serial,
        "baud": board.baud,
        "emulated": board.emulation is not None,
    }


def _draw(rows: list[dict[str, Any]]) -> None:
    grid = table(
        "boards", "board", "chip", " MHz", " SRAM", " for an image", " its flash", " saved state",
        "serial", "runs in",
    )  # fmt: skip
    for row in rows:
        grid.add_row(
            row["id"],
            f"{row['chip']} ({row['cpu']})",
            f"{row['clock_hz'] / 1e6:.0f}" if row["clock_hz"] else "",
            f"{row['ram']:,}",
            f"{row['pool']:,}",
            f"{row['flash_for_image']:,}",
            f"{row['state_at_most']:,}" if row["state_at_most"] else "no",
            row["serial"],
            "QEMU" if row["emulated"] else "built and checked, not run on a chip yet",
        )
    OUT.print(grid)
