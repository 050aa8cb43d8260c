"""Calibration: which range of real numbers a tensor gets."""

from __future__ import annotations

import numpy as np
import pytest
from tests.float_networks import FloatNet, mixed, samples

from mcutrain.ir.graph import Array, Graph
from mcutrain.quantize import calibrate, quantize, simulate


def heavy_tailed() -> tuple[Graph, dict[str, Array]]:
    net = FloatNet(x=(16, 16, 1))
    graph = net.done(net.conv("conv", "x", 1, 1, weight=np.ones((1, 1, 1, 1)), bias=np.zeros(1)))
    values = np.random.default_rng(0).standard_t(3, (1024, 16, 16, 1)).astype(np.float32)
    return graph, {"x": values}


def test_ranges_hold_all_values_or_cut_rare_ones() -> None:
    graph, xs = heavy_tailed()
    full, percentile, mse = (
        calibrate(graph, xs, method=m)["x"] for m in ("minmax", "percentile", "mse")
    )
    assert (full.lo, full.hi) == (xs["x"].min(), xs["x"].max())
    assert full.lo < percentile.lo < 0 < percentile.hi < full.hi
    assert full.lo <= mse.lo < 0 < mse.hi < full.hi
    outside = (xs["x"] < percentile.lo) | (xs["x"] > percentile.hi)
    assert outside.mean() <= 2e-5


def test_mse_has_the_least_error() -> None:
    graph, xs = heavy_tailed()
    errors = {}
    for method in ("minmax", "percentile", "mse"):
        values = simulate(quantize(graph, xs, method=method), xs)["x"]
        errors[method] = float(((values - xs["x"]) ** 2).mean())
    assert errors["mse"] < min(errors["percentile"], errors["minmax"])


def test_batches_do_not_matter() -> None:
    graph = mixed()
    xs = samples(graph, 30)
    whole = calibrate(graph, xs, method="minmax")
    halves = [
        calibrate(graph, {n: x[part] for n, x in xs.items()}, method="minmax")
        for part in (slice(0, 15), slice(15, 30))
    ]
    for name, made in whole.items():
        assert made.lo == pytest.approx(min(h[name].lo for h in halves), rel=1e-6)
        assert made.hi == pytest.approx(max(h[name].hi for h in halves), rel=1e-6)


def test_exact_zeros_do_not_narrow_a_range() -> None:
    """Zeros have no rounding error, so many of them (ReLU) must not cut the range."""
    graph, xs = heavy_tailed()
    values = xs["x"][:64]
    zeros = np.concatenate([values, np.zeros((600, 16, 16, 1), np.float32)])
    assert calibrate(graph, values)["x"] == calibrate(graph, zeros)["x"]
