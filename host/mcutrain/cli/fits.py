"""The refusal of what does not fit into a board."""

from __future__ import annotations

from mcutrain.boards.budgets import Fit
from mcutrain.boards.table import Board
from mcutrain.errors import FitError
from mcutrain.ir.program import CompiledProgram
from mcutrain.report.accounting import cost_of


def check_fit(fits: Fit, board: Board, compiled: CompiledProgram) -> None:
    """Refuse a program that does not fit into a board.

    Raises:
        FitError: the message says by how much, and what takes the bytes.
    """
    lacking = fits.problems()
    if not lacking:
        return
    cost = cost_of(compiled, fits.image)
    at, buffers = cost.peak
    instr = compiled.program.instrs[at]
    largest = ", ".join(f"{b.name} {b.nbytes:,}" for b in buffers[:3])
    raise FitError(
        f"'{compiled.program.name}' with this scheme does not fit into {board.id}",
        where=f"{instr.layer} ({instr.op}) sets the peak of the arena",
        why="; ".join(lacking)
        + f" (state {compiled.state_bytes:,}, arena {cost.arena:,}, firmware {fits.static:,}, "
        f"stack {fits.stack:,}; largest buffers at the peak: {largest})",
        hint="train fewer layers or channels (--scheme), with fewer bits (--fraction-bits 0); "
        "plan NET --ram N lists the schemes that fit",
    )
