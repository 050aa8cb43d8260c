"""`mcutrain plan`: what trains, what it costs, and whether it fits, before touching hardware."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from mcutrain.boards.budgets import Fit, fit, room_on
from mcutrain.boards.table import Board, get_board
from mcutrain.cli.common import (
    OUT,
    SCHEME_HELP,
    BoardId,
    Classes,
    FractionBits,
    Json,
    Net,
    Size,
    kib,
    load_network,
    output_file,
    show,
    size_of,
    table,
)
from mcutrain.cli.fits import check_fit
from mcutrain.cli.plan_auto import Written, auto_to_dict, draw_auto, write_scheme
from mcutrain.cli.plan_choices import check_any_fits, list_choices
from mcutrain.cli.plan_ladder import show_ladder
from mcutrain.cli.plan_published import draw_published, published
from mcutrain.compile import compile_program
from mcutrain.errors import UsageError
from mcutrain.image.pack import pack
from mcutrain.ir.graph import Graph
from mcutrain.ir.program import CompiledProgram
from mcutrain.memory.banks import Bank, BankPlan, plan_banks
from mcutrain.plan import Plan
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

FastRam = Annotated[
    Size,
    typer.Option(
        help="A second, tightly coupled bank of SRAM: show what lies where. A plan only: "
        "the executor takes one bank."
    ),
]
Auto = Annotated[
    str | None,
    typer.Option(help="Samples from which to choose what trains within --ram: a few minutes."),
]


def run(
    net: Net,
    scheme: Annotated[
        str | None,
        typer.Option(help=f"{SCHEME_HELP} {DEFAULT_SCHEME} without --ram."),
    ] = None,
    fraction_bits: FractionBits = None,
    classes: Classes = None,
    board: BoardId = "qemu:netduinoplus2",
    ram: Annotated[
        Size, typer.Option(help="SRAM there is, instead of the board's: 96K, 98304.")
    ] = None,
    fast_ram: FastRam = None,
    auto: Auto = None,
    output: Annotated[Path | None, output_file("The scheme file that --auto writes.")] = None,
    waterfall: Annotated[
        bool, typer.Option("--waterfall", help="What each step of saving memory saves.")
    ] = False,
    exact: Annotated[
        bool, typer.Option("--exact", help="Lay memory out with OR-tools (extra solver).")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what a scheme trains and its SRAM, flash and arithmetic, and refuse what does not fit.

    With --ram and without --scheme: list the schemes that fit into so many bytes; with --auto DATA
    as well: choose layers and input channels by their gradients and by short trainings, and write a
    scheme file. What does not fit otherwise runs parts of the forward pass again instead of keeping
    what they made, and says at what price. Total SRAM is the number that the linker map shows for a
    firmware built for this image. Exit code 4 if it does not fit; the message has the numbers.

    Example: mcutrain plan demo --ram 32K --board qemu:netduinoplus2
    """
    target = get_board(board)
    graph = load_network(net, classes)
    there = size_of(ram, "--ram")
    computed: Written | None = None
    _check_options(scheme, ram, waterfall, auto, output)
    if auto is not None and output is not None:
        check_any_fits(graph, target, target.ram.size if there is None else there)
        room = room_on(target, there)
        computed = write_scheme(graph, auto, room, fraction_bits, output, quiet=as_json)
        scheme = str(output)
    wanted = DEFAULT_SCHEME if scheme is None else scheme
    if waterfall:
        plan = resolve_scheme(graph, wanted, fraction_bits)
        show_ladder(graph, plan, wanted, as_json)
    elif there is not None and scheme is None:
        list_choices(graph, target, there, fraction_bits, as_json)
    else:
        plan = computed.found.plan if computed else resolve_scheme(graph, wanted, fraction_bits)
        sram = Sram(
            target, target.ram.size if there is None else there, size_of(fast_ram, "--fast-ram")
        )
        _show_scheme(graph, wanted, plan, sram, exact, as_json, computed)


def _check_options(
    scheme: str | None, ram: str | None, waterfall: bool, auto: str | None, output: Path | None
) -> None:
    if waterfall and (ram is not None or auto is not None):
        raise UsageError("--waterfall stands without --ram and --auto", where="--waterfall")
    if (auto is None) != (output is None):
        raise UsageError("--auto DATA and --output FILE belong together", where="--auto")
    if auto is not None and scheme is not None:
        raise UsageError("--auto and --scheme exclude each other", where="--auto")


@dataclass(frozen=True)
class Sram:
    """A board, its SRAM in bytes, and those of a second bank, None if there is none."""

    board: Board
    main: int
    fast: int | None

    @property
    def room(self) -> int:
        """Bytes for state and arena."""
        return room_on(self.board, self.main) + (self.fast or 0)

    def fit(self, cost: Cost) -> Fit:
        """What a program takes; both banks count as one."""
        there = self.main + (self.fast or 0)
        return replace(fit(self.board, cost.pool, cost.image), ram=there)

    def banks(self, compiled: CompiledProgram) -> BankPlan | None:
        """What lies where if there are two banks.

        Raises:
            FitError: it does not fit.
        """
        if self.fast is None:
            return None
        main = Bank("the main bank", room_on(self.board, self.main))
        return plan_banks(compiled, Bank("the fast bank", self.fast), main)


def _show_scheme(
    graph: Graph,
    scheme: str,
    plan: Plan,
    sram: Sram,
    exact: bool,
    as_json: bool,
    computed: Written | None,
) -> None:
    compiled = compile_program(graph, plan, exact=exact, pool=sram.room)
    cost = cost_of(compiled, len(pack(compiled)))
    fits = sram.fit(cost)
    check_fit(fits, sram.board, compiled)
    banks = sram.banks(compiled)
    data: dict[str, Any] = {
        "network": graph.name,
        "scheme": scheme,
        "fraction_bits": plan.fraction_bits,
        "board": sram.board.id,
        "trains": trained_parameters(compiled),
        **cost_to_dict(compiled, cost),
        "board_bytes": asdict(fits) | {"sram": fits.sram, "flash": fits.flash},
        "fits": True,
        "memory": memory_to_dict(compiled),
        "banks": [] if banks is None else _banks_to_dict(banks),
    }
    found = published(graph, plan)
    if found is not None:
        data["published"] = found
    if computed is not None:
        data["auto"] = auto_to_dict(computed)

    def draw() -> None:
        if computed is not None:
            draw_auto(computed)
        _draw(compiled, cost, fits, sram.board, banks)
        if found is not None:
            draw_published(found, cost.pool)

    show(as_json, data, draw)


def _banks_to_dict(plan: BankPlan) -> list[dict[str, Any]]:
    return [
        {
            "bank": bank.name,
            "bytes": bank.size,
            "used": used,
            "buffers": {b.name: plan.offsets[b.name] for b in buffers},
        }
        for bank, used, buffers in zip(plan.banks, plan.used, plan.buffers, strict=True)
    ]


def _draw(
    compiled: CompiledProgram, cost: Cost, fits: Fit, board: Board, banks: BankPlan | None
) -> None:
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
    if banks is not None:
        split = table("\nTwo banks", "bank", " used", " of", " buffers")
        for row in _banks_to_dict(banks):
            numbers = (row["used"], row["bytes"], len(row["buffers"]))
            split.add_row(row["bank"], *(f"{n:,}" for n in numbers))
        OUT.print(split)
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
