"""For a published network: a plan's bytes as the publication counts them, beside what it takes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from mcutrain.cli.common import OUT, kib, table
from mcutrain.ir.graph import Graph
from mcutrain.plan import Plan
from mcutrain.plan.published import published_accounting, published_network
from mcutrain.plan.scheme import trainable_layers


def published(graph: Graph, plan: Plan) -> dict[str, Any] | None:
    """Name of the network, its schemes and the publication's count; None if it is another one."""
    layers = trainable_layers(graph)
    network = published_network(graph, layers)
    if network is None:
        return None
    counted = published_accounting(graph, layers, plan)
    return {
        "network": network.name,
        "schemes": list(network.schemes),
        "bytes": asdict(counted) | {"total": counted.total},
    }


def draw_published(found: dict[str, Any], pool: int) -> None:
    """A table of the count; `pool` is what state and arena take here, bytes."""
    grid = table(f"\nAs published for {found['network']}", "what", " bytes")
    for name, label in (
        ("weights", "trained weights, 1 byte each"),
        ("biases", "trained biases, 4 bytes each"),
        ("inputs", "saved inputs"),
        ("masks", "masks"),
    ):
        grid.add_row(label, f"{found['bytes'][name]:,.0f}")
    grid.add_row("[bold]total[/]", f"[bold]{kib(round(found['bytes']['total']))}[/]")
    grid.add_row("state and arena, as above", kib(pool))
    OUT.print(grid)
    OUT.print(
        "That count leaves out the classifier, fraction bits, errors, and the maps that the "
        f"forward pass needs. Published schemes: {', '.join(found['schemes'])}",
        highlight=False,
    )
