"""The fp32-shadow trainer against the published simulator's own numbers (refdata oracle-golden)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mcutrain.frontends import import_network
from mcutrain.ir.graph import Graph, Node, QParams, Tensor
from mcutrain.plan import Plan
from mcutrain.plan.head import fresh_head
from mcutrain.plan.plan import input_channels
from mcutrain.plan.scheme import trainable_layers
from mcutrain.shadow import ShadowNetwork
from mcutrain.shadow.layers import Conv, layer_of

CONVS = (
    "conv3x3_s2",
    "pw_expand",
    "dw3x3_s1",
    "dw5x5_s2",
    "dw7x7_s1",
    "pw_project",
    "grouped3x3",
)
FP32 = 2e-5  # of the largest element: sums of some hundred float32 products in another order
WEIGHTS = (21, 22, 24, 27, 30, 36, 39, 41)

Arrays = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def golden(refdata: Path) -> tuple[dict[str, dict], Arrays]:
    settings = json.loads((refdata / "oracle-golden.json").read_text())["cases"]
    with np.load(refdata / "oracle-golden.npz") as file:
        return {case["name"]: case for case in settings}, {k: file[k] for k in file.files}


def _case(golden: tuple[dict[str, dict], Arrays], name: str) -> tuple[dict, Arrays]:
    settings, arrays = golden
    own = {k.partition(".")[2]: v for k, v in arrays.items() if k.startswith(f"{name}.")}
    return settings[name], own


def _q(settings: dict, name: str) -> QParams:
    return QParams(settings[f"{name}_scale"], settings[f"{name}_zero"])


def _close(got: np.ndarray, wanted: np.ndarray, what: str) -> None:
    assert np.abs(got - wanted).max() <= FP32 * np.abs(wanted).max(), what


def _flat(maps: np.ndarray, zero_point: int = 0) -> Iterator[np.ndarray]:
    """Each sample as (C, H * W) float32."""
    for chw in maps:
        yield chw.reshape(len(chw), -1).astype(np.float32) - np.float32(zero_point)


@pytest.mark.parametrize("name", CONVS)
def test_convolutions(golden: tuple[dict[str, dict], Arrays], name: str) -> None:
    """Outputs equal; errors, gradients, and what quantization-aware scaling makes of them."""
    settings, arrays = _case(golden, name)
    (_, c, h, w), (_, co, ho, wo) = arrays["x"].shape, arrays["y"].shape
    attrs = {"stride": (settings["stride"],) * 2, "pad": (settings["padding"],) * 4}
    attrs |= {"groups": settings["groups"], "lo": -128, "hi": 127}
    ohwi = np.ascontiguousarray(arrays["w"].transpose(0, 2, 3, 1))
    params = {"weight": ohwi, "bias": arrays["b"], "w_scale": arrays["w_scale"].astype(np.float64)}
    node = Node("conv2d", "layer", ("x",), "y", attrs, params)
    tensors = {"x": Tensor("x", (h, w, c), _q(settings, "x"))}
    tensors["y"] = Tensor("y", (ho, wo, co), _q(settings, "y"))
    graph = Graph("net", ("x",), "y", tensors, (node,))
    trained = layer_of(graph, node, Plan(("layer",), {"layer": tuple(range(c))}))
    frozen = layer_of(graph, node, Plan())
    assert isinstance(trained, Conv)
    assert isinstance(frozen, Conv)

    g_weight = np.zeros(arrays["gw"].size)
    g_bias = np.zeros(co)
    samples = zip(*(_flat(arrays[k]) for k in ("y", "gy", "gx")), strict=True)
    for x, (y, gy, gx) in zip(_flat(arrays["x"], settings["x_zero"]), samples, strict=True):
        for layer in (trained, frozen):
            out = layer.forward([x]) + settings["y_zero"]
            assert np.array_equal(out, y)
            (error,) = layer.backward(gy, [True])
            assert error is not None
            _close(error, gx, "error of x")
        g_weight += trained.weight_gradient.reshape(-1)
        g_bias += trained.bias_gradient
    assert frozen.weight_gradient is None
    _close(g_weight, arrays["gw"].reshape(-1), "dW")
    _close(g_bias, arrays["gb"], "dB")
    scaled = g_weight.reshape(co, -1) * trained.weight_scaling[:, None]
    _close(scaled, arrays["gw_qas"].reshape(co, -1), "dW after scaling")
    _close(g_bias * trained.bias_scaling, arrays["gb_qas"], "dB after scaling")


def test_addition(golden: tuple[dict[str, dict], Arrays]) -> None:
    settings, arrays = _case(golden, "add")
    node = Node("add", "layer", ("x1", "x2"), "y", {"lo": -128, "hi": 127})
    _, c, h, w = arrays["y"].shape
    tensors = {k: Tensor(k, (h, w, c), _q(settings, k)) for k in ("x1", "x2", "y")}
    layer = layer_of(Graph("net", ("x1", "x2"), "y", tensors, (node,)), node, Plan())
    inputs = [_flat(arrays[k], settings[f"{k}_zero"]) for k in ("x1", "x2")]
    wanted = [_flat(arrays[k]) for k in ("y", "gy", "gx1", "gx2")]
    for xs, (y, gy, gx1, gx2) in zip(
        zip(*inputs, strict=True), zip(*wanted, strict=True), strict=True
    ):
        assert np.array_equal(layer.forward(xs) + settings["y_zero"], y)
        errors = layer.backward(gy, [True, True])
        _close(np.stack(errors), np.stack([gx1, gx2]), "errors")


def test_average_pool(golden: tuple[dict[str, dict], Arrays]) -> None:
    _, arrays = _case(golden, "avgpool")
    _, c, h, w = arrays["x"].shape
    attrs = {"kernel": (h, w), "stride": (1, 1), "pad": (0, 0, 0, 0)}
    node = Node("avgpool", "layer", ("x",), "y", attrs)
    for zero_point in (0, -7):  # halves are rounded to even before the zero point is taken off
        q = QParams(0.1, zero_point)
        tensors = {"x": Tensor("x", (h, w, c), q), "y": Tensor("y", (1, 1, c), q)}
        layer = layer_of(Graph("net", ("x",), "y", tensors, (node,)), node, Plan())
        wanted = [_flat(arrays[k]) for k in ("y", "gy", "gx")]
        for x, (y, gy, gx) in zip(
            _flat(arrays["x"], zero_point), zip(*wanted, strict=True), strict=True
        ):
            assert np.array_equal(layer.forward([x]) + zero_point, y)
            (error,) = layer.backward(gy, [True])
            assert error is not None
            _close(error, gx, "error of x")


def test_whole_step_of_mcunet(refdata: Path, golden: tuple[dict[str, dict], Arrays]) -> None:
    """42 convolutions one after the other: features to the bit, loss, and every gradient."""
    net = {k[4:]: v for k, v in golden[1].items() if k.startswith("net.")}
    graph = fresh_head(import_network(refdata / "mcunet-5fps.pkl"), len(net["fc_b"]))
    head = {"weight": np.ascontiguousarray(net["fc_w"][:, None, None, :]), "bias": net["fc_b"]}
    graph = replace(graph, nodes=(*graph.nodes[:-1], replace(graph.head, params=head)))
    layers = trainable_layers(graph)
    weights = {layers[i].name: tuple(range(input_channels(graph, layers[i]))) for i in WEIGHTS}
    # A layer before them that trains, so that the forward pass under test is the whole one.
    first = (layers[0].name, *(n.name for n in layers[20:]))
    shadow = ShadowNetwork(graph, Plan(first, weights))
    sums: dict[str, np.ndarray] = {}
    losses = []
    for x, label, features in zip(net["x"], net["labels"], net["features"], strict=True):
        boundary = {"input": x.transpose(1, 2, 0)}
        real = (features.astype(np.float32) - graph_zero(graph)) * graph_scale(graph)
        logits = net["fc_w"] @ real + net["fc_b"]
        assert np.array_equal(shadow.features(boundary), real)
        assert np.allclose(shadow.predict(boundary), logits, rtol=1e-5, atol=1e-5)
        losses.append(shadow.step(boundary, int(label), 0.0, 0.0).loss)
        for i, node in enumerate(layers):
            layer = shadow.layers.get(node.name)
            if layer is not None:
                sums[f"c{i}.gb"] = sums.get(f"c{i}.gb", 0) + layer.bias_gradient / 4
            if layer is not None and layer.weight is not None:
                sums[f"c{i}.gw"] = sums.get(f"c{i}.gw", 0) + layer.weight_gradient / 4
    assert np.mean(losses) == pytest.approx(float(net["loss"]), rel=1e-5)
    wanted = {k: v for k, v in net.items() if k[0] == "c"}
    assert wanted.keys() == sums.keys() - {"c0.gb"}
    for name, gradient in wanted.items():
        _close(sums[name].reshape(-1), gradient.reshape(-1), name)


def graph_zero(graph: Graph) -> np.float32:
    q = graph.tensors[graph.head.inputs[0]].q
    assert q is not None
    return np.float32(q.zero_point)


def graph_scale(graph: Graph) -> np.float32:
    q = graph.tensors[graph.head.inputs[0]].q
    assert q is not None
    return np.float32(q.scale)
