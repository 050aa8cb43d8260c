"""Which range of real numbers each tensor needs, from samples.

Two passes over the samples: the extremes first, then a histogram between them. A range always holds
0, since padding must be exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mcutrain.errors import UsageError
from mcutrain.ir.graph import Array, Graph
from mcutrain.ir.ops import evaluate
from mcutrain.quantize.inputs import Samples, batches, named

BINS = 2048
CANDIDATES = 64  # tried limits on each side, from a quarter of the extreme to all of it
TAIL = 1e-5  # share of values that the percentile method leaves out on each side
STEPS = 255

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Range:
    """Real numbers that one int8 tensor must represent; lo <= 0 <= hi."""

    lo: float
    hi: float


def calibrate(
    graph: Graph, samples: Samples, *, method: str = "mse", pixel_scale: float = 1 / 255
) -> dict[str, Range]:
    """Ranges of all tensors of a float graph.

    Args:
        graph: a float graph.
        samples: (N, H, W, C), or one such array by input name; uint8 is pixel * pixel_scale.
        method: "minmax": the extremes; "percentile": without the outer 1e-5 on each side; "mse":
            the limits with the least mean square of rounding and clipping errors.
        pixel_scale: real size of one step of uint8 data.

    Raises:
        UsageError: unknown method.
        InputError: the samples do not fit the network.
    """
    if method not in METHODS:
        raise UsageError(
            f"unknown calibration method '{method}'",
            where="--method",
            hint="use one of " + ", ".join(METHODS),
        )
    data = named(graph, samples)
    extremes = dict.fromkeys(graph.tensors, (0.0, 0.0))
    for batch in batches(graph, data, pixel_scale):
        for name, value in evaluate(graph, batch).items():
            lo, hi = extremes[name]
            extremes[name] = (min(lo, float(value.min())), max(hi, float(value.max())))
    if method == "minmax":
        return {name: Range(lo, hi) for name, (lo, hi) in extremes.items()}
    counts = {name: np.zeros(BINS, np.int64) for name in graph.tensors}
    for batch in batches(graph, data, pixel_scale):
        for name, value in evaluate(graph, batch).items():
            counts[name] += _histogram(value, extremes[name])
    return {name: METHODS[method](counts[name], *extremes[name]) for name in graph.tensors}


def _histogram(value: Array, extremes: tuple[float, float]) -> Counts:
    lo, hi = extremes
    if hi <= lo:
        return np.zeros(BINS, np.int64)
    value = value[value != 0]  # 0 is exact in every range, so it must not weigh in
    places = ((value - lo) * (BINS / (hi - lo))).astype(np.int64)
    return np.bincount(np.clip(places, 0, BINS - 1), minlength=BINS)


def _minmax(_: Counts, lo: float, hi: float) -> Range:
    return Range(lo, hi)


def _percentile(counts: Counts, lo: float, hi: float) -> Range:
    if hi <= lo:
        return Range(lo, hi)
    edges = np.linspace(lo, hi, BINS + 1)
    share = np.cumsum(counts) / counts.sum()
    first = int(np.searchsorted(share, TAIL, side="right"))
    last = int(np.searchsorted(share, 1 - TAIL))
    return Range(min(float(edges[first]), 0.0), max(float(edges[min(last, BINS - 1) + 1]), 0.0))


def _mse(counts: Counts, lo: float, hi: float) -> Range:
    """Least of N * step^2 / 12 + (squares of what is cut off), over a grid of limits."""
    if hi <= lo:
        return Range(lo, hi)
    centers = lo + (np.arange(BINS) + 0.5) * ((hi - lo) / BINS)
    factors = np.linspace(0.25, 1.0, CANDIDATES)
    los = lo * factors if lo < 0 else np.zeros(1)
    his = hi * factors if hi > 0 else np.zeros(1)
    below = (np.minimum(centers - los[:, None], 0.0) ** 2) @ counts
    above = (np.maximum(centers - his[:, None], 0.0) ** 2) @ counts
    step = (his[None, :] - los[:, None]) / STEPS
    cost = counts.sum() * step**2 / 12 + below[:, None] + above[None, :]
    i, j = np.unravel_index(int(np.argmin(cost)), cost.shape)
    return Range(float(los[i]), float(his[j]))


METHODS: dict[str, Callable[[Counts, float, float], Range]] = {
    "minmax": _minmax,
    "percentile": _percentile,
    "mse": _mse,
}
