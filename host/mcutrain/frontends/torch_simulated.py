"""A training step of a quantised network as simulators take it, in PyTorch: to compare speed with.

Maps hold integers in fp32, less their zero point; weights and biases are fp32 copies of the
integers, weights rounded wherever they are read; rounding passes gradients through, a clamp stops
them; plain SGD with quantization-aware scaling. Only what the plan names has a gradient, so that
autograd leaves out the rest by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from mcutrain.errors import ToolchainError
from mcutrain.ir.graph import Array, Graph, Node, QParams

_DEAD_BELOW = (
    2.0**-17
)  # of a channel's output scale: SPEC-arithmetic, section 2, leaves it as it is


class SimulatedStep:
    """One step of a network, eager, on one thread.

    Args:
        graph: a quantised network.
        biases: layers whose biases train.
        weights: layer -> the input channels (depthwise: channels) whose weights train.
        head: whether the classifier trains.

    Raises:
        ToolchainError: PyTorch is not installed.
    """

    def __init__(
        self,
        graph: Graph,
        biases: Collection[str],
        weights: Mapping[str, Sequence[int]],
        head: bool = True,
    ) -> None:
        try:
            import torch
        except ImportError as error:
            raise ToolchainError(
                "PyTorch is not installed", hint="pip install 'mcutrain[torch]'"
            ) from error
        torch.set_num_threads(1)
        self._torch: Any = torch
        self._requantize = _requantize_function(torch)
        self._graph = graph
        self._weights: dict[str, Any] = {}
        self._biases: dict[str, Any] = {}
        self._scales: dict[str, Any] = {}
        self._trained: list[tuple[Any, Any]] = []
        for node in graph.nodes:
            if "weight" not in node.params:
                continue
            fresh = node is graph.head
            channels = range(node.params["weight"].shape[3]) if fresh else weights.get(node.name)
            self._add(node, channels if head or not fresh else None, fresh or node.name in biases)

    def _add(self, node: Node, channels: Sequence[int] | None, bias: bool) -> None:
        """Parameters of a layer, and by what their gradients are multiplied."""
        torch, weight = self._torch, node.params["weight"]
        oihw = np.ascontiguousarray(weight.transpose(0, 3, 1, 2), np.float32)
        shape = (len(oihw), -1) if node.op == "linear" else oihw.shape
        w = torch.tensor(oihw).reshape(shape)
        b = torch.tensor(node.params["bias"].astype(np.float32))
        self._weights[node.name], self._biases[node.name] = w, b
        w_factor, b_factor = np.ones((len(oihw), 1, 1, 1)), np.ones(len(oihw))
        if node is not self._graph.head:
            s_w, s_x = node.params["w_scale"], self._q(node.inputs[0]).scale
            scale = s_w * s_x / self._q(node.output).scale
            self._scales[node.name] = torch.tensor(scale.astype(np.float32)).reshape(-1, 1, 1)
            alive = scale >= _DEAD_BELOW
            w_factor, b_factor = (alive / s_w**2).reshape(-1, 1, 1, 1), alive / (s_w * s_x) ** 2
        if channels is not None:
            w.requires_grad_()
            mask = _mask(node, channels)
            factor = np.broadcast_to(w_factor * mask, oihw.shape).astype(np.float32)
            self._trained.append((w, torch.tensor(factor).reshape(shape)))
        if bias:
            b.requires_grad_()
            self._trained.append((b, torch.tensor(b_factor.astype(np.float32))))

    def parameters(self) -> dict[str, Any]:
        """Weights (C_out, C_in / groups, kh, kw) and biases as they are now, by "LAYER.weight"."""
        weights = {f"{name}.weight": w for name, w in self._weights.items()}
        return weights | {f"{name}.bias": b for name, b in self._biases.items()}

    def inputs(self, samples: Sequence[bytes], channels_last: bool = False) -> dict[str, Any]:
        """Samples as bytes of int8 (the network's inputs one after the other) as a batch.

        channels_last: so they lie in memory, and then most other maps do as well.
        """
        order = self._torch.channels_last if channels_last else self._torch.contiguous_format
        found, at = {}, 0
        for name in self._graph.inputs:
            h, w, c = self._graph.tensors[name].shape
            parts = [np.frombuffer(s, np.int8, h * w * c, at).reshape(h, w, c) for s in samples]
            x = np.stack(parts).astype(np.float32) - self._q(name).zero_point
            maps = self._torch.tensor(np.ascontiguousarray(x.transpose(0, 3, 1, 2)))
            found[name] = maps.contiguous(memory_format=order)
            at += h * w * c
        return found

    def forward(self, inputs: Mapping[str, Any]) -> Any:
        """Logits (N, classes) of a batch."""
        values = dict(inputs)
        for node in self._graph.nodes:
            values[node.output] = self._run(node, [values[name] for name in node.inputs])
        return values[self._graph.output]

    def train(self, inputs: Mapping[str, Any], labels: Sequence[int], rate: float) -> float:
        """One step of SGD on the mean loss of a batch; returns that loss."""
        torch = self._torch
        loss = torch.nn.functional.cross_entropy(self.forward(inputs), torch.tensor(labels))
        gradients = torch.autograd.grad(loss, [p for p, _ in self._trained])
        with torch.no_grad():
            for (parameter, factor), gradient in zip(self._trained, gradients, strict=True):
                parameter.sub_(gradient.mul_(factor), alpha=rate)
        return float(loss.detach())

    # ---- operators: maps (N, C, H, W), integers less their zero point ----

    def _q(self, tensor: str) -> QParams:
        q = self._graph.tensors[tensor].q
        assert q is not None
        return q

    def _run(self, node: Node, xs: Sequence[Any]) -> Any:
        functional = self._torch.nn.functional
        if node is self._graph.head:
            x = xs[0].permute(0, 2, 3, 1).flatten(1) * self._q(node.inputs[0]).scale
            return functional.linear(x, self._weights[node.name], self._biases[node.name])
        if node.op in ("conv2d", "linear"):
            return self._layer(node, xs[0])
        if node.op in ("avgpool", "maxpool"):
            return self._pool(node, xs[0])
        if node.op == "reshape":
            h, w, c = self._graph.tensors[node.output].shape
            return xs[0].permute(0, 2, 3, 1).reshape(-1, h, w, c).permute(0, 3, 1, 2)
        out = self._q(node.output).scale
        scaled = [x * (self._q(n).scale / out) for x, n in zip(xs, node.inputs, strict=True)]
        y = scaled[0] + scaled[1] if node.op == "add" else self._torch.cat(scaled, 1)
        return self._rounded(node, y, 1.0)

    def _layer(self, node: Node, x: Any) -> Any:
        functional = self._torch.nn.functional
        weight, bias = self._weights[node.name], self._biases[node.name]
        if weight.requires_grad:  # else it holds integers
            weight = weight + (weight.round() - weight).detach()
        if node.op == "linear":
            flat = x.permute(0, 2, 3, 1).flatten(1)
            y = functional.linear(flat, weight, bias).reshape(len(flat), -1, 1, 1)
        else:
            y = self._convolved(node, x, weight, bias)
        return self._rounded(node, y, self._scales[node.name])

    def _convolved(self, node: Node, x: Any, weight: Any, bias: Any) -> Any:
        x, pad = self._padded(node, x, 0.0)
        stride, groups = node.attrs["stride"], node.attrs.get("groups", 1)
        return self._torch.nn.functional.conv2d(x, weight, bias, stride, pad, 1, groups)

    def _pool(self, node: Node, x: Any) -> Any:
        functional = self._torch.nn.functional
        kernel, stride = node.attrs["kernel"], node.attrs["stride"]
        if node.op == "maxpool":
            x = functional.pad(x, _sides(node), value=float("-inf"))
            return functional.max_pool2d(x, kernel, stride)
        x, pad = self._padded(node, x, 0.0)
        return self._rounded(node, functional.avg_pool2d(x, kernel, stride, pad), 1.0)

    def _padded(self, node: Node, x: Any, value: float) -> tuple[Any, tuple[int, int]]:
        """The map, and the padding that is left to the operator: what is alike on both sides."""
        top, left, bottom, right = node.attrs["pad"]
        if (top, left) == (bottom, right):
            return x, (top, left)
        return self._torch.nn.functional.pad(x, _sides(node), value=value), (0, 0)

    def _rounded(self, node: Node, y: Any, scale: Any) -> Any:
        z = self._q(node.output).zero_point
        lo, hi = node.attrs.get("lo", -128) - z, node.attrs.get("hi", 127) - z
        if y.requires_grad:
            return self._requantize.apply(y, scale, lo, hi)
        return y.mul_(scale).round_().clamp_(lo, hi)


class PublishedStep(SimulatedStep):
    """The same by the formulas of the published simulator, each operation by itself.

    acc = round(conv(round(x) - z_x, round(W))); p = round((acc + b) * scale) + z_y; clamp.
    `SimulatedStep` puts them together, and works in place where no gradient needs the parts.
    """

    def _layer(self, node: Node, x: Any) -> Any:
        weight, bias = self._round(self._weights[node.name]), self._biases[node.name]
        if node.op == "linear":
            return super()._layer(node, x)
        acc = self._round(self._convolved(node, self._round(x), weight, None))
        return self._rounded(node, acc + bias.reshape(-1, 1, 1), self._scales[node.name])

    def _rounded(self, node: Node, y: Any, scale: Any) -> Any:
        z = self._q(node.output).zero_point
        p = self._round(y * scale) + z
        return p.clamp(node.attrs.get("lo", -128), node.attrs.get("hi", 127)) - z

    def _round(self, x: Any) -> Any:
        return x + (x.round() - x).detach() if x.requires_grad else x.round()


def _sides(node: Node) -> tuple[int, int, int, int]:
    top, left, bottom, right = node.attrs["pad"]
    return left, right, top, bottom


def _mask(node: Node, channels: Sequence[int]) -> Array:
    """1 where weights (C_out, C_in / groups, kh, kw) train, else 0; some axes have length 1."""
    c_out, _, _, c_in = node.params["weight"].shape
    depthwise = node.attrs.get("groups", 1) > 1 and c_in == 1
    if node.attrs.get("groups", 1) > 1 and not depthwise:
        return np.ones((1, 1, 1, 1))  # a grouped convolution trains as a whole
    mask = np.zeros((c_out, 1, 1, 1) if depthwise else (1, c_in, 1, 1))
    mask[(list(channels), 0, 0, 0) if depthwise else (0, list(channels), 0, 0)] = 1
    return mask


def _requantize_function(torch: Any) -> Any:
    """Scale, round, clamp; the gradient passes where the clamp changed nothing."""

    class Requantize(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(context: Any, y: Any, scale: Any, lo: int, hi: int) -> Any:
            rounded = (y * scale).round_()
            clamped = rounded.clamp(lo, hi)
            context.save_for_backward(rounded == clamped)
            context.scale = scale
            return clamped

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            (inside,) = context.saved_tensors
            return (gradient * inside).mul_(context.scale), None, None, None

    return Requantize
