"""The plan for so many bytes of SRAM, computed from a data set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mcutrain.data import Dataset
from mcutrain.errors import InputError
from mcutrain.ir.graph import Graph
from mcutrain.plan.plan import Plan
from mcutrain.search.gradients import Sample, score
from mcutrain.search.kept import Kept
from mcutrain.search.race import TURNS, race
from mcutrain.search.shortlist import ALL_BITS, Entry, shortlist
from mcutrain.search.trials import FOLDS, Arm, Trials
from mcutrain.trainer import samples_of

SAMPLES = 200  # for gradients
LEAST_SAMPLES = 100  # for trials: fewer do not tell plans apart

# What is being done, how much of it, and of how much.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Tried:
    """A plan in trials: the better rate, how often it was right, in how many trials."""

    name: str
    rate: float
    accuracy: float
    trials: int


@dataclass(frozen=True)
class Automatic:
    """A computed plan.

    Attributes:
        plan: what trains.
        name: how it was made.
        tried: all plans of the trials, the chosen one first; none if there was nothing to decide.
    """

    plan: Plan
    name: str
    tried: tuple[Tried, ...] = ()


def automatic_plan(
    graph: Graph,
    data: Dataset,
    pool: int,
    all_bits: Sequence[int] = ALL_BITS,
    progress: Progress = lambda _what, _done, _all: None,
    kept: Path | None = None,
) -> Automatic:
    """What trains best within `pool` bytes of state and arena; the same for the same data.

    Gradients of some samples make a short list, short trainings decide. Where there are too few
    samples for those, it is the first one of the list.

    Args:
        graph: a quantised network; its classifier may be fresh.
        data: samples to train on, with their views.
        pool: bytes there are.
        all_bits: the numbers of fraction bits that come into question.
        progress: told what is being done.
        kept: a file for the results of trials; those in it are not run again.

    Raises:
        InputError: the data do not fit the network, or there are none.
    """
    classes = graph.tensors[graph.output].size  # they need not have names
    if len(data.classes) > classes:
        raise InputError(
            "the data have more classes than the network",
            where=data.name,
            why=f"{len(data.classes)} classes, the network has {classes}",
            hint="--classes N gives it a fresh classifier",
        )
    samples = samples_over(graph, data)
    progress("gradients", 0, 1)
    scores = score(graph, samples)
    entries = shortlist(graph, scores, pool, all_bits, lambda d, n: progress("choosing", d, n))
    untried = Automatic(entries[0].plan, entries[0].name)
    if len(entries) == 1 or len(data) < LEAST_SAMPLES:
        return untried
    progress("trials", 0, 1)
    trials = Trials(graph, data, [e.plan for e in entries], Kept(kept))
    if len(trials) < LEAST_SAMPLES:
        return untried
    return _decide(entries, trials, progress)


def _decide(entries: Sequence[Entry], trials: Trials, progress: Progress) -> Automatic:
    def run(arms: Sequence[Arm], number: int) -> list[float]:
        what = f"trials, {number + 1} of {TURNS * FOLDS}"
        return trials.run(arms, number, lambda done, count: progress(what, done, count))

    found = race(len(entries), run)
    tried = tuple(
        Tried(entries[one.plan].name, one.rate, one.accuracy, len(one.shares)) for one in found
    )
    best = entries[found[0].plan]
    return Automatic(best.plan, best.name, tried)


def samples_over(graph: Graph, data: Dataset) -> list[Sample]:
    """Input bytes and labels of samples from all over the data."""
    return samples_of(graph, data.spread(SAMPLES))
