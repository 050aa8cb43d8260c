"""`mcutrain plan --ram N`: the schemes that fit, and what keeps the others out."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from mcutrain.boards.budgets import Fit, fit, room_on
from mcutrain.boards.table import Board
from mcutrain.cli.common import OUT, kib, show, table
from mcutrain.errors import FitError
from mcutrain.ir.graph import Graph
from mcutrain.report.choices import Choice, choice_of, choices

Row = tuple[Choice, Fit]


def list_choices(
    graph: Graph, board: Board, ram: int, fraction_bits: int | None, as_json: bool
) -> None:
    """Print what fits into `ram` bytes of SRAM on a board.

    Raises:
        FitError: nothing does; the message says what binds, and the smallest N that would.
    """

    def fit_of(choice: Choice) -> Fit:
        return replace(fit(board, choice.cost.pool, choice.cost.image), ram=ram)

    rows = [
        (choice, fit_of(choice))
        for choice in choices(
            graph, fraction_bits, room_on(board, ram), lambda c: not fit_of(c).problems()
        )
    ]
    if all(found.problems() for _, found in rows):
        smallest = choice_of(graph, "head", 0)
        raise _nothing_fits(graph, smallest, fit_of(smallest))
    data: dict[str, Any] = {
        "network": graph.name,
        "board": board.id,
        "ram": ram,
        "schemes": [_row_to_dict(choice, found) for choice, found in rows],
    }
    show(as_json, data, lambda: _draw(graph, board, ram, rows))


def check_any_fits(graph: Graph, board: Board, ram: int) -> None:
    """Refuse `ram` bytes of SRAM in which not even the classifier can train.

    Raises:
        FitError: the message says what binds, and the smallest number that would do.
    """
    smallest = choice_of(graph, "head", 0, room_on(board, ram))
    found = replace(fit(board, smallest.cost.pool, smallest.cost.image), ram=ram)
    if found.problems():
        raise _nothing_fits(graph, smallest, found)


def _nothing_fits(graph: Graph, smallest: Choice, found: Fit) -> FitError:
    return FitError(
        f"no scheme of '{graph.name}' fits into {found.ram:,} bytes of SRAM",
        where=f"the smallest one: --scheme {smallest.scheme}",
        why="; ".join(found.problems())
        + f" (state {sum(smallest.cost.state.values()):,}, arena {smallest.cost.arena:,}, "
        f"firmware {found.static:,}, stack {found.stack:,})",
        hint=_what_would_fit(graph, smallest, found),
    )


def _what_would_fit(graph: Graph, smallest: Choice, found: Fit) -> str:
    head = smallest.cost.state["classifier"]
    if 2 * head > found.pool:
        classes = graph.tensors[graph.output].size
        return f"--classes N, for your own classes: of {classes:,} the classifier takes {head:,}"
    if replace(found, ram=found.sram).problems():
        return "a board with more flash"
    return f"--ram {found.sram} is the smallest that fits"


def _row_to_dict(choice: Choice, found: Fit) -> dict[str, Any]:
    cost = choice.cost
    return {
        "scheme": choice.scheme,
        "fraction_bits": choice.fraction_bits,
        "sram": found.sram,
        "flash": found.flash,
        "macs_forward": cost.macs_forward,
        "macs_backward": cost.macs_backward,
        "macs_again": cost.macs_again,
        "fits": not found.problems(),
        "binds": found.problems(),
        "board_bytes": asdict(found),
    }


def _draw(graph: Graph, board: Board, ram: int, rows: list[Row]) -> None:
    title = f"{graph.name} on {board.id} with {kib(ram)} of SRAM"
    found = table(title, "scheme", " bits", " SRAM", " flash", " MACs a step", "fits")
    for choice, there in rows:
        lacking = there.problems()
        macs = choice.cost.macs_forward + choice.cost.macs_backward
        numbers = (choice.fraction_bits, there.sram, there.flash, macs)
        style = "dim" if lacking else None
        found.add_row(
            choice.scheme,
            *(f"{n:,}" for n in numbers),
            "; ".join(lacking) or _yes(choice),
            style=style,
        )
    OUT.print(found)


def _yes(choice: Choice) -> str:
    again = choice.cost.macs_again
    return f"yes, with {again:,} MACs of layers that run again" if again else "yes"
