"""`mcutrain plan --ram N --auto DATA -o SCHEME`: what to train, chosen from gradients."""

from __future__ import annotations

import json
from pathlib import Path

import mcutrain.data
from mcutrain.cli.common import progress
from mcutrain.cli.pack import samples_of
from mcutrain.errors import InputError
from mcutrain.files import write_atomic
from mcutrain.ir.graph import Graph
from mcutrain.plan.scheme import plan_to_dict
from mcutrain.search.choose import choose
from mcutrain.search.gradients import score

SAMPLES = 200
DEFAULT_BITS = 8


def write_scheme(
    graph: Graph, data: str, pool: int, bits: int | None, output: Path, quiet: bool
) -> str:
    """Choose a plan for `pool` bytes of state and arena, write it, and give the file's name.

    Raises:
        InputError: the data do not fit the network, or there are none.
    """
    samples = list(samples_of(graph, mcutrain.data.open(data), SAMPLES))
    classes = len(graph.classes)
    if any(label >= classes for _, label in samples):
        raise InputError(
            "the data have more classes than the network",
            where=data,
            why=f"the network has {classes}",
            hint="--classes N gives it a fresh classifier",
        )
    with progress(quiet) as bar:
        task = bar.add_task("gradients", total=None, note=f"{len(samples)} samples")
        scores = score(graph, samples)
        bar.update(task, description="choosing", total=1, completed=0, note="")

        def tell(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        chosen = choose(graph, scores, pool, DEFAULT_BITS if bits is None else bits, tell)
    write_atomic(output, json.dumps(plan_to_dict(chosen.plan)) + "\n")
    return str(output)
