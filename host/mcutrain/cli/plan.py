"""`mcutrain plan`: what trains, what it costs, and whether it fits, before touching hardware."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated, Any

import typer
from rich.markup import escape

from mcutrain.boards.budgets import Fit, fit
from mcutrain.boards.table import Board, get_board
from mcutrain.cli.common import (
    OUT,
    BoardId,
    Classes,
    FractionBits,
    Json,
    Net,
    Scheme,
    kib,
    load_network,
    show,
    table,
)
from mcutrain.compile import compile_program
from mcutrain.errors import FitError
from mcutrain.image.pack import pack
from mcutrain.ir.program import CompiledProgram
from mcutrain.plan.scheme import resolve_scheme
from mcutrain.report.accounting import Cost, cost_of, cost_to_dict, trained_parameters

_PEAK_ROWS = 8


def run(
    net: Net,
    scheme: Scheme = "last:3",
    fraction_bits: FractionBits = None,
    classes: Classes = None,
    board: BoardId = "qemu:netduinoplus2",
    ram: Annotated[
        int | None, typer.Option(help="Bytes of SRAM there are, instead of the board's.")
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Lay memory out with OR-tools (extra solver).")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what a scheme trains and its SRAM, flash and arithmetic, and refuse what does not fit.

    Total SRAM is the number that the linker map shows for a firmware built for this image.
    Exit code 4 if it does not fit; the message has the numbers.

    Example: mcutrain plan demo --scheme last:4 --board qemu:netduinoplus2
    """
    target = get_board(board)
    graph = load_network(net, classes)
    plan = resolve_scheme(graph, scheme, fraction_bits)
    compiled = compile_program(graph, plan, exact=exact)
    cost = cost_of(compiled, len(pack(compiled)))
    fits = fit(target, cost.pool, cost.image)
    if ram is not None:
        fits = replace(fits, ram=ram)
    trained = trained_parameters(compiled)
    data: dict[str, Any] = {
        "network": graph.name,
        "scheme": scheme,
        "fraction_bits": plan.fraction_bits,
        "board": target.id,
        "trains": trained,
        **cost_to_dict(compiled, cost),
        "board_bytes": asdict(fits) | {"sram": fits.sram, "flash": fits.flash},
        "fits": not problems(fits),
    }
    check_fit(fits, target, compiled)
    show(as_json, data, lambda: _draw(compiled, cost, fits, target))


def problems(fits: Fit) -> list[str]:
    """Why it does not fit; empty if it does."""
    pairs = (
        ("SRAM", fits.sram, fits.ram),
        ("flash for code", fits.firmware, fits.code),
        ("flash for the image", fits.image, fits.partition),
    )
    return [
        f"{what}: {need:,} bytes needed, {have:,} there"
        for what, need, have in pairs
        if need > have
    ]


def check_fit(fits: Fit, board: Board, compiled: CompiledProgram) -> None:
    """Refuse a program that does not fit into a board.

    Raises:
        FitError: the message says by how much, and what takes the bytes.
    """
    lacking = problems(fits)
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
        hint="train fewer layers or channels (--scheme), with fewer bits (--fraction-bits 0)",
    )


def _draw(compiled: CompiledProgram, cost: Cost, fits: Fit, board: Board) -> None:
    trains = table(f"{compiled.program.name}: what trains", "layer", " weights", " biases")
    for row in trained_parameters(compiled):
        trains.add_row(escape(row["layer"]), f"{row['weights']:,}", f"{row['biases']:,}")
    OUT.print(trains)

    memory = table(f"\nSRAM on {board.id} ({board.chip})", "what", " bytes")
    for kind, nbytes in cost.state.items():
        memory.add_row(f"state: {kind}", f"{nbytes:,}")
    memory.add_row(f"arena (lower bound {cost.bound:,})", f"{cost.arena:,}")
    memory.add_row("firmware: variables", f"{fits.static:,}")
    memory.add_row("stack, at most", f"{fits.stack:,}")
    memory.add_row("[bold]total[/]", f"[bold]{kib(fits.sram)}[/]")
    memory.add_row("there is", kib(fits.ram))
    OUT.print(memory)

    at, buffers = cost.peak
    instr = compiled.program.instrs[at]
    peak = table(f"\nPeak of the arena: {escape(instr.layer)} ({instr.op})", "buffer", " bytes")
    for buffer in buffers[:_PEAK_ROWS]:
        peak.add_row(escape(buffer.name), f"{buffer.nbytes:,}")
    if rest := buffers[_PEAK_ROWS:]:
        peak.add_row(f"{len(rest)} more", f"{sum(b.nbytes for b in rest):,}")
    OUT.print(peak)

    other = table("\nFlash and arithmetic", "what", " number")
    other.add_row("firmware, at most (bytes)", f"{fits.firmware:,}")
    other.add_row("image (bytes)", f"{fits.image:,}")
    other.add_row("multiply-accumulates, forward", f"{cost.macs_forward:,}")
    other.add_row("multiply-accumulates, backward", f"{cost.macs_backward:,}")
    OUT.print(other)
