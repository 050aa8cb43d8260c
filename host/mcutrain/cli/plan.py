"""`mcutrain plan`: what trains, what it costs, and whether it fits, before touching hardware."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated, Any

import typer
from rich.markup import escape

from mcutrain.boards.budgets import Fit, fit, room_on
from mcutrain.boards.table import Board, get_board
from mcutrain.cli.common import (
    OUT,
    BoardId,
    Classes,
    FractionBits,
    Json,
    Net,
    Size,
    kib,
    load_network,
    show,
    size_of,
    table,
)
from mcutrain.cli.plan_choices import list_choices
from mcutrain.cli.plan_ladder import show_ladder
from mcutrain.compile import compile_program
from mcutrain.errors import FitError, UsageError
from mcutrain.image.pack import pack
from mcutrain.ir.graph import Graph
from mcutrain.ir.program import CompiledProgram
from mcutrain.plan.scheme import resolve_scheme
from mcutrain.report.accounting import (
    Cost,
    cost_of,
    cost_to_dict,
    memory_to_dict,
    trained_parameters,
)
from mcutrain.report.picture import picture

_PEAK_ROWS = 8
DEFAULT_SCHEME = "last:3"


def run(
    net: Net,
    scheme: Annotated[
        str | None,
        typer.Option(
            help="What trains: head, bias:K, last:K, full, a published scheme, or a file; "
            f"{DEFAULT_SCHEME} without --ram."
        ),
    ] = None,
    fraction_bits: FractionBits = None,
    classes: Classes = None,
    board: BoardId = "qemu:netduinoplus2",
    ram: Annotated[
        Size, typer.Option(help="SRAM there is, instead of the board's: 96K, 98304.")
    ] = None,
    waterfall: Annotated[
        bool, typer.Option("--waterfall", help="What each step of saving memory saves.")
    ] = False,
    exact: Annotated[
        bool, typer.Option("--exact", help="Lay memory out with OR-tools (extra solver).")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what a scheme trains and its SRAM, flash and arithmetic, and refuse what does not fit.

    With --ram and without --scheme: list the schemes that fit into so many bytes. Total SRAM is the
    number that the linker map shows for a firmware built for this image. Exit code 4 if it does not
    fit; the message has the numbers. What does not fit otherwise runs parts of the forward pass
    again instead of keeping what they made, and says at what price.

    Example: mcutrain plan demo --ram 32K --board qemu:netduinoplus2
    """
    target = get_board(board)
    graph = load_network(net, classes)
    there = size_of(ram, "--ram")
    if waterfall:
        if there is not None:
            raise UsageError("--waterfall and --ram exclude each other", where="--waterfall")
        plan = resolve_scheme(graph, scheme or DEFAULT_SCHEME, fraction_bits)
        show_ladder(graph, plan, scheme or DEFAULT_SCHEME, as_json)
    elif there is not None and scheme is None:
        list_choices(graph, target, there, fraction_bits, as_json)
    else:
        _show_scheme(graph, scheme or DEFAULT_SCHEME, fraction_bits, target, there, exact, as_json)


def _show_scheme(
    graph: Graph,
    scheme: str,
    fraction_bits: int | None,
    target: Board,
    ram: int | None,
    exact: bool,
    as_json: bool,
) -> None:
    plan = resolve_scheme(graph, scheme, fraction_bits)
    there = target.ram.size if ram is None else ram
    compiled = compile_program(graph, plan, exact=exact, pool=room_on(target, there))
    cost = cost_of(compiled, len(pack(compiled)))
    fits = replace(fit(target, cost.pool, cost.image), ram=there)
    data: dict[str, Any] = {
        "network": graph.name,
        "scheme": scheme,
        "fraction_bits": plan.fraction_bits,
        "board": target.id,
        "trains": trained_parameters(compiled),
        **cost_to_dict(compiled, cost),
        "board_bytes": asdict(fits) | {"sram": fits.sram, "flash": fits.flash},
        "fits": not fits.problems(),
        "memory": memory_to_dict(compiled),
    }
    check_fit(fits, target, compiled)
    show(as_json, data, lambda: _draw(compiled, cost, fits, target))


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
    _draw_peak(compiled, cost)

    other = table("\nFlash and arithmetic", "what", " number")
    other.add_row("firmware, at most (bytes)", f"{fits.firmware:,}")
    other.add_row("image (bytes)", f"{fits.image:,}")
    other.add_row("multiply-accumulates, forward", f"{cost.macs_forward:,}")
    other.add_row("multiply-accumulates, backward", f"{cost.macs_backward:,}")
    if cost.layers_again:
        other.add_row("of them to run layers again, so that it fits", f"{cost.macs_again:,}")
    OUT.print(other)
    if cost.layers_again:
        OUT.print("run again: " + escape(", ".join(cost.layers_again)), highlight=False)


def _draw_peak(compiled: CompiledProgram, cost: Cost) -> None:
    at, buffers = cost.peak
    instr = compiled.program.instrs[at]
    drawn = picture(compiled)
    OUT.print("\nArena: bytes alive over the schedule", style="bold")
    for line in drawn.lines:
        OUT.print(line, markup=False, highlight=False, no_wrap=True)
    legend = ", ".join(f"{letter} {kind}" for letter, kind in drawn.legend)
    OUT.print(f"{legend}; ^ peak, at {instr.op} of {instr.layer}", markup=False, highlight=False)
    peak = table(f"\nPeak of the arena: {escape(instr.layer)} ({instr.op})", "buffer", " bytes")
    for buffer in buffers[:_PEAK_ROWS]:
        peak.add_row(escape(buffer.name), f"{buffer.nbytes:,}")
    if rest := buffers[_PEAK_ROWS:]:
        peak.add_row(f"{len(rest)} more", f"{sum(b.nbytes for b in rest):,}")
    OUT.print(peak)
