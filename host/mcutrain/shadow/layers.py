"""The operators: forward in integers held by float32, backward in fp32 (docs/DESIGN.md).

Maps are (C, H * W) float32 and hold integers less their tensor's zero point; errors are dL/dy in
units of these integers. A layer keeps from `forward` what its `backward` needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from mcutrain.ir import arith
from mcutrain.ir.graph import Graph, Node, QParams, Tensor
from mcutrain.plan import Plan
from mcutrain.plan.plan import is_depthwise
from mcutrain.shadow.windows import Floats, Geometry, Ints, product_of, weight_gradient


class Layer(Protocol):
    """One operator."""

    def forward(self, xs: Sequence[Floats]) -> Floats:
        """Output from inputs."""

    def backward(self, g: Floats, wanted: Sequence[bool]) -> list[Floats | None]:
        """Errors of those inputs for which one is wanted."""


class Requantized:
    """Rounds half to even and clamps; passes errors where nothing was clamped, bounds included."""

    def __init__(self, node: Node, q: QParams) -> None:
        self._low = np.float32(node.attrs.get("lo", -128) - q.zero_point)
        self._high = np.float32(node.attrs.get("hi", 127) - q.zero_point)
        self.passed: Any = None

    def forward(self, real: Floats) -> Floats:
        """Overwrites `real`, outputs that are not integers yet."""
        np.rint(real, out=real)
        y = np.minimum(np.maximum(real, self._low), self._high)
        self.passed = y == real
        return y

    def backward(self, g: Floats) -> Floats:
        """The error of what was rounded."""
        return np.asarray(g * self.passed)


class Conv:
    """conv2d or linear, with the trained part of its weight and bias.

    Attributes:
        bias: (C_out,) float32, in units of the accumulator, never rounded.
        weight: the trained input channels, float32, never rounded nor clamped: (groups,
            C_out / groups, C_in / groups, kh * kw) cut to these; None if none trains.
        bias_gradient, weight_gradient: of the last step, without quantization-aware scaling.
        bias_scaling, weight_scaling: what quantization-aware scaling multiplies them with; 0 for
            channels that int8 arithmetic leaves alone (docs/SPEC-arithmetic.md, degenerate).
    """

    def __init__(self, graph: Graph, node: Node, plan: Plan) -> None:
        x, y = (graph.tensors[name] for name in (node.inputs[0], node.output))
        qx, qy = _q(x), _q(y)
        self.name = node.name
        whole, self._geometry, groups, channels = _arrange(node, x, plan)
        self._depthwise = is_depthwise(node)
        self._groups = groups
        self._channels = channels
        self._rounded = whole
        self._product = product_of(whole, self._geometry)
        self.bias = node.params["bias"].astype(np.float32)
        self.trains_bias = node.name in plan.biases
        self.weight = None if channels is None else self._part(whole).copy()
        s_w = np.asarray(node.params["w_scale"], np.float64)
        effective = qx.scale * s_w / qy.scale
        self._scale = effective.astype(np.float32)[:, None]
        live = ~arith.degenerate(arith.multiplier(effective, node.name)[0])
        with np.errstate(divide="ignore"):
            self.weight_scaling = np.where(live, s_w**-2, 0.0)
            self.bias_scaling = np.where(live, (s_w * qx.scale) ** -2, 0.0)
        self._requantized = Requantized(node, qy)
        self._x: Any = None
        self.bias_gradient: Any = None
        self.weight_gradient: Any = None

    @property
    def trains(self) -> bool:
        """Whether a step changes anything of it."""
        return self.trains_bias or self.weight is not None

    def forward(self, xs: Sequence[Floats]) -> Floats:
        """Output from input."""
        self._x = xs[0].reshape(-1, self._geometry.size[0] * self._geometry.size[1])
        acc = self._product.forward(self._x)
        acc += self.bias[:, None]
        acc *= self._scale
        return self._requantized.forward(acc)

    def backward(self, g: Floats, wanted: Sequence[bool]) -> list[Floats | None]:
        """Keeps the gradients, returns the error of the input."""
        g = self._requantized.backward(g)
        g *= self._scale
        if self.trains_bias:
            self.bias_gradient = g.sum(1)
        if self._channels is not None:
            self.weight_gradient = self._gradient(g, self._channels)
        return [self._product.input_gradient(g) if wanted[0] else None]

    def _gradient(self, g: Floats, channels: Ints) -> Floats:
        if self._depthwise:
            x, g = self._x[channels], g[channels]
            return weight_gradient(self._geometry, len(channels), x, g)
        return weight_gradient(self._geometry, self._groups, self._part_of_input(channels), g)

    def _part_of_input(self, channels: Ints) -> Floats:
        x: Floats = self._x
        return x if self._groups > 1 or len(channels) == len(x) else x[channels]

    def _part(self, whole: Floats) -> Floats:
        """The trained channels of a weight."""
        if self._depthwise:
            return whole[self._channels]
        return whole if self._groups > 1 else whole[:, :, self._channels]

    def update(self, rate: float, scaled: bool) -> None:
        """One step down the gradients, with or without quantization-aware scaling."""
        if self.trains_bias:
            factor = self.bias_scaling if scaled else self.bias_scaling > 0
            self.bias -= (rate * factor).astype(np.float32) * self.bias_gradient
        if self.weight is not None:
            factor = self.weight_scaling if scaled else self.weight_scaling > 0
            per_channel = (rate * factor).astype(np.float32).reshape(self._groups, -1, 1, 1)
            if self._depthwise:
                per_channel = per_channel[self._channels]
            self.weight -= per_channel * self.weight_gradient
            self._round()

    def _round(self) -> None:
        assert self.weight is not None
        if self._depthwise:
            self._rounded[self._channels] = np.rint(self.weight)
        elif self._groups > 1:
            np.rint(self.weight, out=self._rounded)
        else:
            self._rounded[:, :, self._channels] = np.rint(self.weight)


class Add:
    """A residual addition."""

    def __init__(self, graph: Graph, node: Node) -> None:
        qs, qy = [_q(graph.tensors[x]) for x in node.inputs], _q(graph.tensors[node.output])
        self._scales = [np.float32(q.scale) for q in qs]
        self._y_scale = np.float32(qy.scale)
        self._factors = [np.float32(q.scale / qy.scale) for q in qs]
        self._requantized = Requantized(node, qy)

    def forward(self, xs: Sequence[Floats]) -> Floats:
        """Output from two inputs."""
        real = xs[0] * self._scales[0]
        real += xs[1] * self._scales[1]
        real /= self._y_scale
        return self._requantized.forward(real)

    def backward(self, g: Floats, wanted: Sequence[bool]) -> list[Floats | None]:
        """The same error for both inputs, each in its own units."""
        g = self._requantized.backward(g)
        pairs = zip(self._factors, wanted, strict=True)
        return [g * factor if want else None for factor, want in pairs]


class AveragePool:
    """Mean over windows, rounded half to even before the zero point is taken off again."""

    def __init__(self, graph: Graph, node: Node) -> None:
        x = graph.tensors[node.inputs[0]]
        self._geometry = _geometry(node, x)
        self._zero_point = np.float32(_q(x).zero_point)
        self._taps = node.attrs["kernel"][0] * node.attrs["kernel"][1]

    def forward(self, xs: Sequence[Floats]) -> Floats:
        """Output from input."""
        sums = self._geometry.windows(xs[0]).sum(1)
        mean = (sums + self._zero_point * self._taps) / np.float32(self._taps)
        return np.asarray(np.rint(mean) - self._zero_point)

    def backward(self, g: Floats, wanted: Sequence[bool]) -> list[Floats | None]:
        """An equal share for each tap."""
        share = np.repeat((g / np.float32(self._taps))[:, None], self._taps, 1)
        return [self._geometry.scatter(share) if wanted[0] else None]


class MaxPool:
    """Largest tap inside of the input; the first one of the largest gets the error."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self._geometry = _geometry(node, graph.tensors[node.inputs[0]])
        self._taps = node.attrs["kernel"][0] * node.attrs["kernel"][1]
        self._chosen: Any = None

    def forward(self, xs: Sequence[Floats]) -> Floats:
        """Output from input."""
        taps = self._geometry.windows(xs[0], -np.inf)
        self._chosen = taps.argmax(1)[:, None]
        return np.take_along_axis(taps, self._chosen, 1)[:, 0]

    def backward(self, g: Floats, wanted: Sequence[bool]) -> list[Floats | None]:
        """All of it for the tap that was chosen."""
        taps = np.zeros((len(g), self._taps, g.shape[1]), np.float32)
        np.put_along_axis(taps, self._chosen, g[:, None], 1)
        return [self._geometry.scatter(taps) if wanted[0] else None]


class Rescale:
    """A stand-alone clamp, or a concat: inputs in the units of the output, one behind the other."""

    def __init__(self, graph: Graph, node: Node) -> None:
        xs, y = [graph.tensors[x] for x in node.inputs], graph.tensors[node.output]
        self._factors = [np.float32(_q(x).scale / _q(y).scale) for x in xs]
        self._ends = np.cumsum([x.shape[2] for x in xs])[:-1]
        self._requantized = Requantized(node, _q(y))

    def forward(self, xs: Sequence[Floats]) -> Floats:
        """Output from inputs."""
        parts = [x * factor for x, factor in zip(xs, self._factors, strict=True)]
        return self._requantized.forward(np.concatenate(parts))

    def backward(self, g: Floats, wanted: Sequence[bool]) -> list[Floats | None]:
        """The part of each input, in its own units."""
        parts = np.split(self._requantized.backward(g), self._ends)
        rows = zip(parts, self._factors, wanted, strict=True)
        return [part * factor if want else None for part, factor, want in rows]


class Reshape:
    """The same elements in (H, W, C) order under another shape."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self._from = graph.tensors[node.inputs[0]].shape
        self._to = graph.tensors[node.output].shape

    def forward(self, xs: Sequence[Floats]) -> Floats:
        """Output from input."""
        return _reordered(xs[0], self._from, self._to)

    def backward(self, g: Floats, wanted: Sequence[bool]) -> list[Floats | None]:
        """The way back."""
        return [_reordered(g, self._to, self._from) if wanted[0] else None]


def layer_of(graph: Graph, node: Node, plan: Plan) -> Layer:
    """The layer of a node."""
    if node.op in ("conv2d", "linear"):
        return Conv(graph, node, plan)
    kinds: dict[str, Callable[[Graph, Node], Layer]] = {
        "add": Add,
        "avgpool": AveragePool,
        "maxpool": MaxPool,
        "clamp": Rescale,
        "concat": Rescale,
        "reshape": Reshape,
    }
    return kinds[node.op](graph, node)


def to_map(hwc: Any, q: QParams) -> Floats:
    """(C, H * W) float32 less the zero point, from int8 (H, W, C)."""
    flat = hwc.reshape(-1, hwc.shape[2]).T.astype(np.float32)
    flat -= np.float32(q.zero_point)
    return np.ascontiguousarray(flat)


def _q(tensor: Tensor) -> QParams:
    assert tensor.q is not None  # of a quantised network
    return tensor.q


def _geometry(node: Node, x: Tensor) -> Geometry:
    kernel = node.attrs.get("kernel") or node.params["weight"].shape[1:3]
    return Geometry(x.shape[:2], tuple(kernel), node.attrs["stride"], node.attrs["pad"])


def _arrange(node: Node, x: Tensor, plan: Plan) -> tuple[Floats, Geometry, int, Ints | None]:
    """Weight (groups, C_out / groups, C_in / groups, kh * kw), geometry, groups, and the trained
    input channels. A linear layer is a 1x1 convolution whose channels are all of its inputs.
    """
    channels = plan.weights.get(node.name)
    trained = None if channels is None else np.array(channels, np.int64)
    ohwi = node.params["weight"]
    if node.op == "linear":
        # Inputs are numbered in (H, W, C) order by the plan, in (C, H, W) order here.
        hwc = np.arange(x.size).reshape(x.shape).transpose(2, 0, 1).reshape(-1)
        weight = ohwi.reshape(len(ohwi), -1)[:, hwc]
        if trained is not None:
            trained = np.sort(np.argsort(hwc)[trained])
        geometry = Geometry((1, 1), (1, 1), (1, 1), (0, 0, 0, 0))
        return weight[None, :, :, None].astype(np.float32), geometry, 1, trained
    groups = int(node.attrs["groups"])
    oi = ohwi.transpose(0, 3, 1, 2).reshape(len(ohwi), ohwi.shape[3], -1)
    weight = oi.reshape(groups, -1, *oi.shape[1:]).astype(np.float32)
    return np.ascontiguousarray(weight), _geometry(node, x), groups, trained


def _reordered(x: Floats, old: tuple[int, int, int], new: tuple[int, int, int]) -> Floats:
    hwc = x.reshape(old[2], old[0], old[1]).transpose(1, 2, 0).reshape(new)
    return np.ascontiguousarray(hwc.transpose(2, 0, 1)).reshape(new[2], -1)
