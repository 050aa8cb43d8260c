"""The plan for so many bytes of SRAM, computed from a data set."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mcutrain.data import Dataset
from mcutrain.errors import InputError
from mcutrain.ir.graph import Graph
from mcutrain.plan.plan import Plan
from mcutrain.quantize import quantize_input
from mcutrain.search.choose import choose
from mcutrain.search.gradients import Sample, score

SAMPLES = 200
DEFAULT_BITS = 8

# What is being done, how much of it, and of how much (0: not known).
Progress = Callable[[str, int, int], None]


def automatic_plan(
    graph: Graph,
    data: Dataset,
    pool: int,
    fraction_bits: int = DEFAULT_BITS,
    progress: Progress = lambda _what, _done, _all: None,
) -> Plan:
    """What trains best within `pool` bytes of state and arena; the same for the same data.

    Args:
        graph: a quantised network; its classifier may be fresh.
        data: samples to train on, of which `SAMPLES` are used.
        pool: bytes there are.
        fraction_bits: 0, 4 or 8.
        progress: told what is being done.

    Raises:
        InputError: the data do not fit the network, or there are none.
    """
    if len(data.y) and int(data.y.max()) >= len(graph.classes):
        raise InputError(
            "the data have more classes than the network",
            where=data.name,
            why=f"the network has {len(graph.classes)}",
            hint="--classes N gives it a fresh classifier",
        )
    samples = samples_over(graph, data)
    progress("gradients", 0, 0)
    scores = score(graph, samples)
    chosen = choose(graph, scores, pool, fraction_bits, lambda d, n: progress("choosing", d, n))
    return chosen.plan


def samples_over(graph: Graph, data: Dataset) -> list[Sample]:
    """Input bytes and labels of samples from all over the data, which may be sorted by class."""
    wanted = np.linspace(0, len(data) - 1, min(SAMPLES, len(data))).round().astype(np.int64)
    some = data.take(wanted)
    inputs = quantize_input(graph, some.array())
    return [
        (b"".join(inputs[name][index].tobytes() for name in graph.inputs), int(label))
        for index, label in enumerate(some.y)
    ]
