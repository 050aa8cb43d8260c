"""Quantisation: scales, biases, and that each int8 layer computes what its floats say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.float_networks import (
    FloatNet,
    assert_each_node_rounds_once,
    mixed,
    run,
    samples,
)
from tests.networks import NetworkBuilder

from mcutrain.errors import InputError, UnsupportedError, UsageError
from mcutrain.ir.graph import Array, Graph, Node, QParams, Tensor
from mcutrain.ir.ops import OPS, evaluate
from mcutrain.ir.verify import verify
from mcutrain.quantize import Range, dequantize, quantize, quantize_input, simulate
from mcutrain.quantize.quantizer import qparams


@pytest.mark.parametrize("method", ["minmax", "percentile", "mse"])
def test_each_layer_of_the_program_computes_what_the_floats_say(method: str) -> None:
    graph = mixed()
    xs = samples(graph)
    quantised = quantize(graph, xs, method=method)
    assert_each_node_rounds_once(quantised, run(quantised, xs))


def test_one_array_cannot_feed_several_inputs() -> None:
    builder = NetworkBuilder((4, 4, 2), 3, "two")
    x = builder.add("sum", "x", builder.input("y", (4, 4, 2)))
    with pytest.raises(InputError, match="several inputs") as caught:
        quantize_input(builder.head(x, 3), np.zeros((5, 4, 4, 2), np.float32))
    assert caught.value.why == "its inputs are x, y"


def _rounding_noise(graph: Graph, xs: dict[str, Array]) -> Array:
    """Change of the logits when independent noise of one rounding is added to every tensor."""
    rng = np.random.default_rng(7)

    def noisy(name: str, value: Array) -> Array:
        q = graph.tensors[name].q
        return value if q is None else value + rng.uniform(-0.5, 0.5, value.shape) * q.scale

    plain = dequantize(graph)
    values = {name: noisy(name, x.astype(np.float64)) for name, x in xs.items()}
    for node in plain.nodes:
        y = OPS[node.op].reference(node, [values[n] for n in node.inputs])
        values[node.output] = y if node.op in ("maxpool", "reshape") else noisy(node.output, y)
    return values[graph.output] - evaluate(plain, xs)[graph.output]


def test_the_error_of_the_whole_network_is_that_of_independent_roundings() -> None:
    graph = mixed()
    xs = samples(graph, 200)
    quantised = quantize(graph, xs, method="minmax")
    expected = evaluate(graph, xs)[graph.output]
    of_weights = evaluate(dequantize(quantised), xs)[graph.output] - expected
    bound = np.hypot(_rounding_noise(quantised, xs).std(), of_weights.std())
    error = simulate(quantised, xs)[graph.output] - expected
    assert 0.7 * bound < error.std() < 1.3 * bound
    logits = run(quantised, xs)[graph.output]
    assert np.abs(logits - expected[0].ravel()).max() < 5 * bound


def test_the_source_graph_is_not_changed_and_the_result_is_repeatable() -> None:
    graph = mixed()
    before = [n.params["weight"].copy() for n in graph.nodes if n.params]
    a, b = (quantize(graph, samples(graph)) for _ in range(2))
    for x, y in zip(before, (n for n in graph.nodes if n.params), strict=True):
        np.testing.assert_array_equal(x, y.params["weight"])
    assert a.tensors == b.tensors
    assert graph.head.params is a.head.params
    assert a.tensors[a.output].q is None


# Zero points and clamps


@pytest.mark.parametrize("zero_point", [-128, -5, 0, 13])
@pytest.mark.parametrize("fused", [True, False])
def test_t32_relu_clamps_at_the_zero_point(zero_point: int, fused: bool) -> None:
    """Both graphs are built by hand: an identity convolution, then ReLU in it or after it."""
    x, y = QParams(0.05, 3), QParams(0.05, zero_point)
    lo = zero_point if fused else -128
    identity = {
        "weight": np.full((1, 1, 1, 1), 127, np.int8),
        "bias": np.zeros(1, np.int32),
        "w_scale": np.array([1 / 127]),
    }
    attrs = {"stride": (1, 1), "pad": (0, 0, 0, 0), "groups": 1, "lo": lo, "hi": 127}
    nodes = [Node("conv2d", "conv", ("x",), "c", attrs, identity)]
    tensors = {"x": Tensor("x", (16, 16, 1), x), "c": Tensor("c", (16, 16, 1), y)}
    last = "c"
    if not fused:
        nodes.append(Node("clamp", "relu", ("c",), "r", {"lo": zero_point, "hi": 127}))
        tensors["r"] = Tensor("r", (16, 16, 1), y)
        last = "r"
    head = {"weight": np.ones((2, 1, 1, 256), np.float32), "bias": np.zeros(2, np.float32)}
    nodes.append(Node("linear", "classifier", (last,), "out", {}, head))
    tensors["out"] = Tensor("out", (1, 1, 2))
    graph = verify(Graph("relu", ("x",), "out", tensors, tuple(nodes)))
    sample = np.arange(-128, 128).astype(np.int8).reshape(1, 16, 16, 1)
    values = run(graph, {"x": sample})
    moved = np.clip(sample[0].astype(int) - x.zero_point + zero_point, -128, 127)
    np.testing.assert_array_equal(values[last], np.maximum(moved, zero_point))


def test_t32_ranges_of_clamps() -> None:
    quantised = quantize(mixed(), samples(mixed()), method="minmax")
    q = {name: t.q for name, t in quantised.tensors.items()}
    nodes = {n.name: n for n in quantised.nodes}
    for name in ("stem", "dw", "sum", "fc_b"):
        made = q[name]
        assert made is not None
        assert made.zero_point == nodes[name].attrs["lo"] == -128
    stem, soft = q["stem"], q["soft"]
    assert stem is not None
    assert soft is not None
    assert stem.scale * 255 <= 6.0 + 1e-9
    assert abs((nodes["soft"].attrs["lo"] - soft.zero_point) * soft.scale + 0.5) <= soft.scale / 2
    assert abs((nodes["soft"].attrs["hi"] - soft.zero_point) * soft.scale - 1.0) <= soft.scale / 2


def test_pools_and_reshapes_share_their_inputs_scale() -> None:
    quantised = quantize(mixed(), samples(mixed()))
    shared = [quantised.tensors[n].q for n in ("both", "mp", "ap", "flat")]
    assert len(set(shared)) == 1


def test_t34_add_and_concat_with_unequal_scales() -> None:
    net = FloatNet(x=(5, 5, 2))
    small = np.full((2, 1, 1, 2), 0.01)
    net.conv("small", "x", 2, 1, weight=small, bias=np.zeros(2))
    net.conv("large", "x", 2, 1, weight=small * np.array([[[[400.0, -300.0]]]]), bias=np.ones(2))
    net.node("add", "sum", "small", "large")
    net.node("concat", "cat", "small", "sum", "large")
    graph = net.done("cat")
    xs = samples(graph)
    quantised = quantize(graph, xs)
    scales = [quantised.tensors[n].q for n in ("small", "large", "sum", "cat")]
    assert all(q is not None for q in scales)
    assert len({q.scale for q in scales if q is not None}) == 4
    assert_each_node_rounds_once(quantised, run(quantised, xs))


@pytest.mark.parametrize(
    ("lo", "hi"), [(0.0, 1.0), (-1.0, 0.0), (-1.0, 2.0), (-1e-6, 3.0), (0.0, 0.0), (-5.0, 1e-9)]
)
def test_zero_is_exact_and_the_range_is_covered(lo: float, hi: float) -> None:
    q = qparams(Range(lo, hi))
    assert -128 <= q.zero_point <= 127
    lowest, highest = ((v - q.zero_point) * q.scale for v in (-128, 127))
    assert lowest <= lo + q.scale / 2
    assert highest >= hi - q.scale / 2


# Weights and biases


def test_weights_are_symmetric_per_channel_with_a_finite_scale_for_dead_ones() -> None:
    net = FloatNet(x=(4, 4, 2))
    weight = np.random.default_rng(0).normal(size=(4, 3, 3, 2))
    weight[1] = 0
    weight[2] *= 1e-4
    net.conv("conv", "x", 4, weight=weight, bias=np.array([0.1, 0.5, 1e-3, -2.0]))
    graph = net.done("conv")
    params = quantize(graph, samples(graph)).nodes[0].params
    w_scale = params["w_scale"]
    alive = [0, 2, 3]
    np.testing.assert_allclose(
        w_scale[alive], np.abs(weight[alive]).max(axis=(1, 2, 3)) / 127, rtol=1e-6
    )
    assert w_scale[1] == np.median(w_scale[alive])
    assert np.abs(params["weight"][alive]).max(axis=(1, 2, 3)).tolist() == [127] * 3
    assert not params["weight"][1].any()


def test_a_network_of_zeros_can_be_quantised() -> None:
    net = FloatNet(x=(4, 4, 2))
    net.conv("dead", "x", 3, weight=np.zeros((3, 3, 3, 2)), bias=np.zeros(3))
    net.node("add", "sum", "dead", "dead")
    net.node("clamp", "relu", "sum", clamp=(0.0, None))
    graph = net.done("relu")
    xs = {"x": np.zeros((2, 4, 4, 2), np.float32)}
    values = run(quantize(graph, xs), xs)
    np.testing.assert_allclose(values["classifier"], graph.head.params["bias"])


def test_a_bias_too_large_for_its_weights_raises_the_weight_scale() -> None:
    """A clipped bias would change the output; coarser weights next to such a bias do not matter."""
    net = FloatNet(x=(3, 3, 1))
    bias = np.array([5.0, -3.0])
    net.conv("conv", "x", 2, 1, weight=np.array([1e-9, 1.0]).reshape(2, 1, 1, 1), bias=bias)
    graph = net.done("conv")
    xs = samples(graph)
    quantised = quantize(graph, xs)
    error = np.abs(dequantize(quantised).nodes[0].params["bias"] - bias)
    scale = quantised.nodes[0].params["w_scale"]
    assert scale[0] > 1e-9 / 127
    q = quantised.tensors["x"].q
    assert q is not None
    assert (error <= 0.51 * q.scale * scale + 1e-6).all()
    assert_each_node_rounds_once(quantised, run(quantised, xs))


def test_t41_an_accumulator_without_room_names_the_layer() -> None:
    net = FloatNet(x=(3, 1, 60000))
    net.node("linear", "wide", "x", weight=np.ones((1, 1, 1, 180000)))
    graph = net.done("wide")
    with pytest.raises(UnsupportedError, match="overflow") as error:
        quantize(graph, samples(graph, 2))
    assert error.value.where == "wide"


# Samples


def test_uint8_pixels_are_exact() -> None:
    net = FloatNet(x=(4, 4, 1))
    graph = net.done(net.conv("conv", "x", 2))
    pixels = np.random.default_rng(0).integers(30, 90, (20, 4, 4, 1), np.uint8)
    quantised = quantize(graph, pixels)
    assert quantised.tensors["x"].q == QParams(1 / 255, -128)
    every = np.arange(256, dtype=np.uint8).reshape(16, 4, 4, 1)
    np.testing.assert_array_equal(quantize_input(quantised, every)["x"], every.astype(int) - 128)
    # Floats of the same pixels give the same int8.
    floats = every.astype(np.float32) / 255
    np.testing.assert_array_equal(quantize_input(quantised, floats)["x"], every.astype(int) - 128)
    assert quantize(graph, pixels, pixel_scale=2.0).tensors["x"].q == QParams(2.0, -128)


def test_t48_one_and_three_channels_keep_their_order() -> None:
    for channels in (1, 3):
        net = FloatNet(x=(2, 3, channels))
        graph = net.done(net.conv("conv", "x", 2, 1))
        xs = samples(graph, 4)
        quantised = quantize(graph, xs)
        q = quantised.tensors["x"].q
        assert q is not None
        expected = np.rint(xs["x"] / q.scale) + q.zero_point
        got = quantize_input(quantised, xs["x"])["x"]
        assert got.shape == (4, 2, 3, channels)
        assert np.abs(got - np.clip(expected, -128, 127)).max() == 0


def test_pixels_for_a_network_that_takes_floats_are_refused() -> None:
    net = FloatNet(x=(4, 4, 1))
    graph = net.done(net.conv("conv", "x", 2))
    quantised = quantize(graph, samples(graph))
    with pytest.raises(InputError, match="uint8") as error:
        quantize_input(quantised, np.zeros((1, 4, 4, 1), np.uint8))
    assert error.value.where == "x"


BAD_SAMPLES: dict[str, tuple[Any, str]] = {
    "channels first": (np.zeros((2, 1, 4, 4), np.float32), "channels come last"),
    "no batch": (np.zeros((4, 4, 1), np.float32), "shape"),
    "empty": (np.zeros((0, 4, 4, 1), np.float32), "shape"),
    "not a number": (np.full((2, 4, 4, 1), np.nan, np.float32), "finite"),
    "unknown input": ({"y": np.zeros((2, 4, 4, 1), np.float32)}, "name"),
}


@pytest.mark.parametrize(("data", "text"), BAD_SAMPLES.values(), ids=BAD_SAMPLES)
def test_bad_samples(data: Any, text: str) -> None:
    net = FloatNet(x=(4, 4, 1))
    graph = net.done(net.conv("conv", "x", 2))
    with pytest.raises(InputError, match=text):
        quantize(graph, data)


def test_wrong_use_is_named() -> None:
    graph = mixed()
    xs = samples(graph)
    with pytest.raises(UsageError, match="unknown calibration method"):
        quantize(graph, xs, method="entropy")
    with pytest.raises(UsageError, match="pixel scale"):
        quantize(graph, xs, pixel_scale=0.0)
    quantised = quantize(graph, xs)
    with pytest.raises(InputError, match="already"):
        quantize(quantised, xs)
    for call in (dequantize, lambda g: simulate(g, xs)):
        with pytest.raises(InputError, match="not quantised"):
            call(graph)
    with pytest.raises(InputError, match="same number"):
        quantize(graph, {**xs, "b": xs["b"][:3]})


def test_an_input_of_features_may_be_two_dimensional() -> None:
    net = FloatNet(x=(1, 1, 6))
    graph = net.done(net.node("linear", "fc", "x", weight=(4, 1, 1, 6)))
    flat = np.random.default_rng(0).normal(size=(30, 6)).astype(np.float32)
    a, b = quantize(graph, flat), quantize(graph, flat[:, None, None, :])
    assert a.tensors == b.tensors
    assert replace(a, name="b").tensors == b.tensors
