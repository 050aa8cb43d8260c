"""`mcutrain plan --ram N --auto DATA -o SCHEME`: what to train, chosen from the user's samples."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import mcutrain.data
from mcutrain.cli.common import OUT, progress, table
from mcutrain.cli.saturation import outside_input
from mcutrain.files import check_writable, write_atomic
from mcutrain.ir.graph import Graph
from mcutrain.plan.scheme import plan_to_dict
from mcutrain.search.auto import LEAST_SAMPLES, Automatic, automatic_plan
from mcutrain.search.shortlist import ALL_BITS


@dataclass(frozen=True)
class Written:
    """A plan that was computed, and of what.

    Attributes:
        found: the plan.
        samples: their number.
        most_frequent: the share of the class with the most samples.
        outside: the share of the samples' numbers that saturate as input.
    """

    found: Automatic
    samples: int
    most_frequent: float
    outside: float

    @property
    def learned(self) -> bool:
        """Whether any plan was right more often than always naming one class would be."""
        return any(one.accuracy > self.most_frequent for one in self.found.tried)


def write_scheme(
    graph: Graph, data: str, pool: int, bits: int | None, output: Path, quiet: bool
) -> Written:
    """Choose a plan for `pool` bytes of state and arena, and write it.

    Results of trials stand in a file beside it meanwhile: after an interruption the same command
    goes on with them.

    Raises:
        InputError: the data do not fit the network, or there are none; or a file cannot be written.
    """
    kept = _trials_of(output)
    samples = mcutrain.data.open(data).labelled_as(graph.classes)
    outside = outside_input(samples, graph.tensors[graph.inputs[0]].q, quiet)
    with progress(quiet) as bar:
        task = bar.add_task("gradients", total=1, note=f"{len(samples)} samples")

        def tell(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        all_bits: Sequence[int] = ALL_BITS if bits is None else (bits,)
        found = automatic_plan(graph, samples, pool, all_bits, tell, kept)
    write_atomic(output, json.dumps(plan_to_dict(found.plan)) + "\n")
    if kept is not None:
        kept.unlink(missing_ok=True)
    most = float(np.bincount(samples.y).max() / len(samples))
    return Written(found, len(samples), most, outside)


def _trials_of(output: Path) -> Path | None:
    """The file for results of trials; there is none beside what is no file (a pipe, /dev/null)."""
    if output.exists() and not output.is_file():
        return None
    return check_writable(output.with_name(f"{output.name}.trials"))


def auto_to_dict(written: Written) -> dict[str, Any]:
    """Which plan was chosen, all that were tried, and what there is to know of the samples, for
    JSON.
    """
    found = written.found
    return {
        "chosen": found.name,
        "tried": [asdict(one) for one in found.tried],
        "samples": written.samples,
        "most_frequent_class": written.most_frequent,
        "outside_input": written.outside,
    }


def draw_auto(written: Written) -> None:
    """The same as a table, if there was something to decide."""
    found = written.found
    if not found.tried:
        if written.samples < LEAST_SAMPLES:
            OUT.print(
                f"{written.samples} samples are too few to try plans ({LEAST_SAMPLES} are needed). "
                f"Written without trials: {found.name}.\n",
                soft_wrap=True,
            )
        return
    title = "What was tried: right on samples that were held out"
    grid = table(title, "plan", " accuracy", " rate", " trials")
    for one in found.tried:
        grid.add_row(one.name, f"{one.accuracy:.1%}", f"{one.rate:.4f}", str(one.trials))
    OUT.print(grid)
    if not written.learned:
        OUT.print(
            "None of them learned: to name the most frequent class is right "
            f"{written.most_frequent:.1%} of the time. Is the network trained, and are the samples "
            "in its units? The first one is written.\n",
            soft_wrap=True,
        )
        return
    first = found.tried[0]
    if any(one.trials == first.trials and one.accuracy > first.accuracy for one in found.tried):
        OUT.print(
            "What is ahead of the first one is so by less than chance can do (two standard errors)."
        )
    OUT.print(f"The first one is written; --rate {first.rate:.4f} suits it.\n")
