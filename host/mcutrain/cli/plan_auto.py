"""`mcutrain plan --ram N --auto DATA -o SCHEME`: what to train, chosen from the user's samples."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import mcutrain.data
from mcutrain.cli.common import OUT, progress, table
from mcutrain.cli.saturation import outside_input
from mcutrain.files import write_atomic
from mcutrain.ir.graph import Graph
from mcutrain.plan.scheme import plan_to_dict
from mcutrain.search.auto import Automatic, automatic_plan
from mcutrain.search.shortlist import ALL_BITS


@dataclass(frozen=True)
class Written:
    """A plan that was computed, and the share of its samples' numbers that saturate as input."""

    found: Automatic
    outside: float


def write_scheme(
    graph: Graph, data: str, pool: int, bits: int | None, output: Path, quiet: bool
) -> Written:
    """Choose a plan for `pool` bytes of state and arena, and write it.

    Results of trials stand in a file beside it meanwhile: after an interruption the same command
    goes on with them.

    Raises:
        InputError: the data do not fit the network, or there are none.
    """
    samples = mcutrain.data.open(data).labelled_as(graph.classes)
    outside = outside_input(samples, graph.tensors[graph.inputs[0]].q, quiet)
    with progress(quiet) as bar:
        task = bar.add_task("gradients", total=None, note=f"{len(samples)} samples")

        def tell(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total or None)

        all_bits: Sequence[int] = ALL_BITS if bits is None else (bits,)
        kept = output.with_name(f"{output.name}.trials")
        found = automatic_plan(graph, samples, pool, all_bits, tell, kept)
    write_atomic(output, json.dumps(plan_to_dict(found.plan)) + "\n")
    kept.unlink(missing_ok=True)
    return Written(found, outside)


def auto_to_dict(written: Written) -> dict[str, Any]:
    """Which plan was chosen, all that were tried, and the share of saturated input, for JSON."""
    found = written.found
    tried = [asdict(one) for one in found.tried]
    return {"chosen": found.name, "tried": tried, "outside_input": written.outside}


def draw_auto(found: Automatic) -> None:
    """The same as a table, if there was something to decide."""
    if not found.tried:
        return
    title = "What was tried: right on samples that were held out"
    grid = table(title, "plan", " accuracy", " rate", " trials")
    for one in found.tried:
        grid.add_row(one.name, f"{one.accuracy:.1%}", f"{one.rate:.4f}", str(one.trials))
    OUT.print(grid)
    first = found.tried[0]
    if any(one.trials == first.trials and one.accuracy > first.accuracy for one in found.tried):
        OUT.print("What is ahead of the first one is so by less than chance can do (2 errors).")
    OUT.print(f"The first one is written; --rate {first.rate:.4f} suits it.\n")
