"""The fp32-shadow trainer: whole steps against float64 autograd, and what a step may change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.networks import NetworkBuilder, joined_network, residual_network

from mcutrain.errors import InputError
from mcutrain.ir.graph import Graph, QParams
from mcutrain.plan import Plan
from mcutrain.plan.plan import input_channels
from mcutrain.plan.scheme import resolve_scheme, trainable_layers
from mcutrain.shadow import ShadowNetwork

LABEL = 1
RATE = 2.0**-6  # exact in float32


def _branches() -> Graph:
    """Grouped and strided convolutions, kernels of two extents, a pool with windows, a hidden
    linear layer behind a reshape.
    """
    b = NetworkBuilder((9, 10, 4), 3, "branches")
    x = b.conv("grouped", "x", 8, (3, 2), 1, (1, 0, 1, 1), groups=2, relu=True)
    y = b.conv("dw", x, 8, 5, 2, 2, groups=8)
    z = b.conv("strided", x, 8, 3, 2, 1)
    y = b.add("sum", y, z)
    y = b.pool("avgpool", "pool", y, 2, 1, 1)
    h, w, c = b.tensors[y].shape
    y = b.reshape("flat", y, (1, 1, h * w * c))
    y = b.linear("hidden", y, 12)
    return b.head(y, 4)


NETWORKS = {"residual": residual_network, "branches": _branches, "joined": joined_network}


def _everything(graph: Graph) -> Plan:
    return resolve_scheme(graph, "full")


def _part(graph: Graph) -> Plan:
    """Every second input channel of layers that can be trained in part; no first layer."""
    weights = {}
    for node in trainable_layers(graph)[1:]:
        weights[node.name] = tuple(range(0, input_channels(graph, node), 2))
    return Plan(tuple(n.name for n in trainable_layers(graph)[2:]), weights)


def _sample(shadow: ShadowNetwork, graph: Graph, seed: int = 5) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = {name: graph.tensors[name].shape for name in shadow.boundary}
    return {k: rng.integers(-128, 128, shape).astype(np.int8) for k, shape in shapes.items()}


class Autograd:
    """The same forward pass in float64 PyTorch, rounding straight through; OIHW weights."""

    def __init__(self, graph: Graph, inputs: dict[str, np.ndarray]) -> None:
        import torch

        self.weights: dict[str, Any] = {}
        self.biases: dict[str, Any] = {}
        self._graph = graph
        self._maps = {k: torch.from_numpy(v.transpose(2, 0, 1)[None]) for k, v in inputs.items()}
        for name in graph.inputs:
            self._maps[name] = self._maps[name].double() - self._q(name).zero_point
        for node in graph.nodes[:-1]:
            self._maps[node.output] = self._run(node)
        head = graph.head
        features = self._hwc(head.inputs[0]) * self._q(head.inputs[0]).scale
        weight = self._parameter(self.weights, head, "weight").reshape(-1, features.numel())
        logits = weight @ features + self._parameter(self.biases, head, "bias")
        self.loss = torch.nn.functional.cross_entropy(logits[None], torch.tensor([LABEL]))
        self.logits = logits.detach().numpy()
        self.loss.backward()

    def _q(self, name: str) -> QParams:
        q = self._graph.tensors[name].q
        assert q is not None
        return q

    def _hwc(self, name: str) -> Any:
        return self._maps[name][0].permute(1, 2, 0).reshape(-1)

    def _parameter(self, kept: dict[str, Any], node: Any, name: str) -> Any:
        import torch

        kept[node.name] = torch.from_numpy(node.params[name].astype(np.float64)).requires_grad_()
        return kept[node.name]

    def _run(self, node: Any) -> Any:
        import torch
        import torch.nn.functional as F

        xs, y = [self._maps[x] for x in node.inputs], self._q(node.output)
        shape = self._graph.tensors[node.output].shape
        if node.op == "reshape":
            return self._hwc(node.inputs[0]).reshape(1, *shape).permute(0, 3, 1, 2)
        if node.op == "avgpool":
            t, left, b, r = node.attrs["pad"]
            padded = F.pad(xs[0], (left, r, t, b)) + y.zero_point
            real = F.avg_pool2d(padded, node.attrs["kernel"], node.attrs["stride"])
            return real + (torch.round(real) - real).detach() - y.zero_point
        if node.op == "maxpool":
            return self._largest(node, xs[0])
        if node.op in ("clamp", "concat"):
            scales = [self._q(x).scale / y.scale for x in node.inputs]
            real = torch.cat([x * scale for x, scale in zip(xs, scales, strict=True)], 1)
        elif node.op == "add":
            scales = [self._q(x).scale / y.scale for x in node.inputs]
            real = xs[0] * scales[0] + xs[1] * scales[1]
        else:
            real = self._convolution(node, xs[0])
            scale = self._q(node.inputs[0]).scale * node.params["w_scale"] / y.scale
            real = real * torch.from_numpy(scale)[:, None, None]
        rounded = real + (torch.round(real) - real).detach() + y.zero_point
        lo, hi = node.attrs.get("lo", -128), node.attrs.get("hi", 127)
        inside = (rounded >= lo) & (rounded <= hi)
        clamped = rounded.clamp(lo, hi).detach() - y.zero_point
        return torch.where(inside, rounded - y.zero_point, clamped)

    def _largest(self, node: Any, x: Any) -> Any:
        """PyTorch, too, takes the first of the largest; of integers, that rounding be exact."""
        import torch
        import torch.nn.functional as F

        t, left, b, r = node.attrs["pad"]
        integers = F.pad(torch.round(x.detach()), (left, r, t, b), value=-torch.inf)
        window = (node.attrs["kernel"], node.attrs["stride"])
        _, index = F.max_pool2d(integers, *window, return_indices=True)
        flat = F.pad(x, (left, r, t, b)).flatten(2)
        return flat.gather(2, index.flatten(2)).reshape(index.shape)

    def _convolution(self, node: Any, x: Any) -> Any:
        import torch.nn.functional as F

        weight = self._parameter(self.weights, node, "weight")
        bias = self._parameter(self.biases, node, "bias")
        if node.op == "linear":
            flat = self._hwc(node.inputs[0])
            return (weight.reshape(len(bias), -1) @ flat + bias)[None, :, None, None]
        t, left, b, r = node.attrs["pad"]
        padded = F.pad(x, (left, r, t, b))
        oihw = weight.permute(0, 3, 1, 2)
        return F.conv2d(padded, oihw, bias, node.attrs["stride"], groups=node.attrs["groups"])


def _close(got: np.ndarray, wanted: np.ndarray, what: str) -> None:
    """Sums of n float32 products err by about sqrt(n) * 2^-24 of them; at most 400 here, through at
    most eight layers.
    """
    assert np.abs(wanted).max() > 0, what
    tolerance = 8 * np.sqrt(400) * 2.0**-24
    assert np.abs(got - wanted).max() <= tolerance * np.abs(wanted).max(), what


@pytest.mark.torch
@pytest.mark.parametrize("make_plan", [_everything, _part])
@pytest.mark.parametrize("network", NETWORKS)
def test_gradients_are_those_of_autograd(network: str, make_plan: Any) -> None:
    graph = NETWORKS[network]()
    plan = make_plan(graph)
    shadow = ShadowNetwork(graph, plan)
    whole = ShadowNetwork(graph, _everything(graph))
    sample = _sample(whole, graph)
    oracle = Autograd(graph, sample)
    # The part's boundary is what the whole network computes there.
    maps = {name: whole.map_of(sample, name) for name in shadow.boundary}
    assert np.allclose(shadow.predict(maps), oracle.logits, rtol=1e-5, atol=1e-5)
    head = shadow.head_weight.copy()
    before = {name: _weight_of(layer) for name, layer in shadow.layers.items()}
    biases = {name: layer.bias.copy() for name, layer in shadow.layers.items()}
    result = shadow.step(maps, LABEL, RATE, RATE)
    assert result.loss == pytest.approx(oracle.loss.item(), rel=1e-5)
    assert set(shadow.layers) == set(plan.biases) | set(plan.weights)
    for name, layer in shadow.layers.items():
        node = graph.node(name)
        if name in plan.biases:
            gradient = oracle.biases[name].grad.numpy()
            _close(layer.bias_gradient, gradient, f"{name}: dB")
            s_x = graph.tensors[node.inputs[0]].q.scale  # type: ignore[union-attr]
            step = RATE * gradient / (node.params["w_scale"] * s_x) ** 2
            _moved(biases[name] - layer.bias, step, np.abs(biases[name]).max(), name)
        if name in plan.weights:
            cut, s_w = _trained(graph, node, plan, oracle.weights[name].grad.numpy())
            _close(layer.weight_gradient.reshape(cut.shape), cut, f"{name}: dW")
            step = (before[name] - _weight_of(layer)).reshape(cut.shape)
            _moved(step, RATE * cut / s_w**2, 127, name)
    _close(head - shadow.head_weight, RATE * _head_gradient(graph, oracle), "classifier")


def _moved(got: np.ndarray, wanted: np.ndarray, size: float, what: str) -> None:
    """Steps of float32 numbers up to `size`, which are rounded to 2^-24 of it."""
    limit = 2.0**-23 * (size + np.abs(wanted).max()) + 1e-4 * np.abs(wanted).max()
    assert np.abs(got - wanted).max() <= limit, what


def _trained(
    graph: Graph, node: Any, plan: Plan, ohwi: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The trained channels of a weight in the trainer's order of axes, and s_w beside it."""
    channels, s_w = list(plan.weights[node.name]), node.params["w_scale"]
    if node.op == "linear":
        return ohwi.reshape(len(ohwi), -1)[:, channels], s_w[:, None]
    oihw = ohwi.transpose(0, 3, 1, 2)
    if node.attrs["groups"] == len(ohwi):
        return oihw[channels], s_w[channels, None, None, None]
    return oihw if node.attrs["groups"] > 1 else oihw[:, channels], s_w[:, None, None, None]


def _weight_of(layer: Any) -> np.ndarray:
    return np.zeros(0) if layer.weight is None else layer.weight.copy()


def _head_gradient(graph: Graph, oracle: Autograd) -> np.ndarray:
    h, w, c = graph.tensors[graph.head.inputs[0]].shape
    gradient = oracle.weights[graph.head.name].grad.numpy()
    return gradient.reshape(-1, h, w, c).transpose(0, 3, 1, 2).reshape(len(gradient), -1)


def test_the_boundary_is_what_training_does_not_change() -> None:
    graph = residual_network()
    for scheme, boundary in (
        ("head", ("pool:0",)),
        ("bias:1", ("b2.dw:0",)),
        ("last:4", ("b1.dw:0", "stem:0")),
        ("full", ("x",)),
    ):
        assert ShadowNetwork(graph, resolve_scheme(graph, scheme)).boundary == boundary, scheme


def test_without_scaling_the_steps_are_the_gradients() -> None:
    graph = residual_network()
    shadow = ShadowNetwork(graph, _everything(graph), scaled=False)
    before = {name: layer.weight.copy() for name, layer in shadow.layers.items()}
    shadow.step(_sample(shadow, graph), LABEL, RATE, RATE)
    for name, layer in shadow.layers.items():
        wanted = before[name] - np.float32(RATE) * layer.weight_gradient
        assert np.array_equal(layer.weight, wanted)


def test_weights_move_by_fractions_and_are_rounded_in_the_forward_pass() -> None:
    """A weight that moved by less than half a step leaves the outputs as they were."""
    graph = residual_network()
    shadow = ShadowNetwork(graph, Plan((), {"b2.pw2": tuple(range(24))}, head=False))
    sample = _sample(shadow, graph)
    logits = shadow.predict(sample)
    layer = shadow.layers["b2.pw2"]
    shadow.step(sample, LABEL, 1e-12, 1e-12)
    largest = np.abs(layer.weight_gradient.reshape(12, -1) * layer.weight_scaling[:, None]).max()
    start = layer.weight.copy()
    shadow.step(sample, LABEL, 0.4 / largest, 0.0)
    assert 0.3 < np.abs(layer.weight - start).max() < 0.5
    assert np.array_equal(shadow.predict(sample), logits)
    shadow.step(sample, LABEL, 0.4 / largest, 0.0)
    assert not np.array_equal(shadow.predict(sample), logits)


def test_degenerate_channels_stay() -> None:
    """1 / s_w^2 of a dead channel is some 1e16: it does not train, as in the integer arithmetic."""
    graph = residual_network()
    node = graph.node("b2.pw2")
    node.params["w_scale"][3] = 1e-9
    shadow = ShadowNetwork(graph, resolve_scheme(graph, "last:1"))
    layer = shadow.layers["b2.pw2"]
    weight, bias = layer.weight.copy(), layer.bias.copy()
    shadow.step(_sample(shadow, graph), LABEL, 1.0, 1.0)
    assert np.array_equal(layer.weight[0, 3], weight[0, 3])
    assert layer.bias[3] == bias[3]
    assert not np.array_equal(layer.weight[0, 4], weight[0, 4])


def test_a_plan_of_another_network_is_refused() -> None:
    with pytest.raises(InputError):
        ShadowNetwork(residual_network(), Plan(("nothing",)))


def test_the_joined_network_cuts_values_off_and_has_ties() -> None:
    """Else what is said of its gradients would say little of clamps and pools."""
    graph = joined_network()
    shadow = ShadowNetwork(graph, _everything(graph))
    sample = _sample(shadow, graph)
    for name, lo, hi in (("cut:0", -60, 40), ("relu6:0", -20, 90)):
        values = shadow.map_of(sample, name)
        assert lo <= values.min() <= values.max() <= hi
        assert 0.02 < ((values == lo) | (values == hi)).mean() < 0.9, name
    windows = np.lib.stride_tricks.sliding_window_view(values, (2, 2), (0, 1))[::2, ::2]
    largest = windows.max(axis=(3, 4), keepdims=True)
    assert ((windows == largest).sum(axis=(3, 4)) > 1).mean() > 0.1
