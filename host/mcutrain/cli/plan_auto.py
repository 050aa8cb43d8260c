"""`mcutrain plan --ram N --auto DATA -o SCHEME`: what to train, chosen from gradients."""

from __future__ import annotations

import json
from pathlib import Path

import mcutrain.data
from mcutrain.cli.common import progress
from mcutrain.files import write_atomic
from mcutrain.ir.graph import Graph
from mcutrain.plan.scheme import plan_to_dict
from mcutrain.search.auto import DEFAULT_BITS, SAMPLES, automatic_plan


def write_scheme(
    graph: Graph, data: str, pool: int, bits: int | None, output: Path, quiet: bool
) -> str:
    """Choose a plan for `pool` bytes of state and arena, write it, and give the file's name.

    Raises:
        InputError: the data do not fit the network, or there are none.
    """
    samples = mcutrain.data.open(data).labelled_as(graph.classes)
    with progress(quiet) as bar:
        note = f"{min(SAMPLES, len(samples))} samples"
        task = bar.add_task("gradients", total=None, note=note)

        def tell(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total or None)

        bits = DEFAULT_BITS if bits is None else bits
        plan = automatic_plan(graph, samples, pool, bits, tell)
    write_atomic(output, json.dumps(plan_to_dict(plan)) + "\n")
    return str(output)
