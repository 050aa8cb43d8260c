"""Float64 autograd of a quantised network by PyTorch: the oracle for errors and gradients.

Each tensor takes the exact value that the integer network computed; its gradient passes straight
through the rounding and is cut where the output was clamped. So the oracle differentiates the very
forward pass that ran.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from mcutrain.ir.graph import Graph, Node
from mcutrain.ir.reference.machine import Machine

Tensor = Any  # torch has no types here


@dataclass
class Oracle:
    """Tensors (1, C, H, W), and masks (H, W, C) of clamps, by name; weights by layer."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    weights: dict[str, Tensor] = field(default_factory=dict)
    biases: dict[str, Tensor] = field(default_factory=dict)
    masks: dict[str, np.ndarray] = field(default_factory=dict)
    loss: Tensor = None

    def gradient(self, tensor: str) -> np.ndarray:
        """dL/d(real tensor), (H, W, C)."""
        return self.tensors[tensor].grad[0].permute(1, 2, 0).numpy()

    def weight_gradient(self, layer: str) -> np.ndarray:
        """dL/d(real weight), OHWI."""
        return self.weights[layer].grad.permute(0, 2, 3, 1).numpy()


def differentiate(graph: Graph, machine: Machine, label: int) -> Oracle:
    """Loss and gradients of the step that `machine` has just run (with the graph's own weights)."""
    oracle = Oracle()
    for name in graph.inputs:
        oracle.tensors[name] = _real(graph, machine, name).requires_grad_()
    for node in graph.nodes[:-1]:
        y = _linear_part(graph, node, oracle)
        value = _real(graph, machine, node.output)
        if node.op in ("conv2d", "linear", "add", "concat", "clamp"):
            mask = _unclamped(machine, node.output, y.shape)
            oracle.masks[node.output] = mask[0].permute(1, 2, 0).numpy()
            y = y * mask
        out = y + (value - y).detach()
        out.retain_grad()
        oracle.tensors[node.output] = out
    head = graph.head
    features = oracle.tensors[head.inputs[0]].permute(0, 2, 3, 1).reshape(1, -1)
    _parameters(oracle, head, np.ones(len(head.params["bias"])), 1.0)
    weight = oracle.weights[head.name].reshape(len(head.params["bias"]), -1)
    logits = features @ weight.T + oracle.biases[head.name]
    oracle.loss = F.cross_entropy(logits, torch.tensor([label]))
    oracle.loss.backward()
    return oracle


def _nchw(hwc: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(hwc.transpose(2, 0, 1)[None]).astype(np.float64))


def _real(graph: Graph, machine: Machine, name: str) -> Tensor:
    q = graph.tensors[name].q
    assert q is not None
    return _nchw((machine.memory.array(name).astype(np.float64) - q.zero_point) * q.scale)


def _unclamped(machine: Machine, name: str, shape: Any) -> Tensor:
    mask = f"{name}.mask"
    if mask not in machine.program.values:  # nothing below trains
        return torch.ones(shape, dtype=torch.float64)
    value = machine.program.values[mask]
    bits = np.unpackbits(machine.memory.array(mask), count=value.count, bitorder="little")
    return _nchw(bits.reshape(value.shape))


def _parameters(oracle: Oracle, node: Node, w_scale: np.ndarray, x_scale: float) -> None:
    weight = node.params["weight"].astype(np.float64) * w_scale[:, None, None, None]
    bias = node.params["bias"].astype(np.float64) * w_scale * x_scale
    oihw = torch.from_numpy(weight.transpose(0, 3, 1, 2).copy())
    oracle.weights[node.name] = oihw.requires_grad_()
    oracle.biases[node.name] = torch.from_numpy(bias).requires_grad_()


def _linear_part(graph: Graph, node: Node, oracle: Oracle) -> Tensor:
    xs = [oracle.tensors[name] for name in node.inputs]
    if node.op in ("conv2d", "linear"):
        q = graph.tensors[node.inputs[0]].q
        assert q is not None
        _parameters(oracle, node, node.params["w_scale"], q.scale)
        weight, bias = oracle.weights[node.name], oracle.biases[node.name]
        if node.op == "linear":
            flat = xs[0].permute(0, 2, 3, 1).reshape(1, -1)
            return (flat @ weight.reshape(len(bias), -1).T + bias).reshape(1, -1, 1, 1)
        t, left, b, r = node.attrs["pad"]
        padded = F.pad(xs[0], (left, r, t, b))
        return F.conv2d(padded, weight, bias, node.attrs["stride"], groups=node.attrs["groups"])
    if node.op == "add":
        return xs[0] + xs[1]
    if node.op == "concat":
        return torch.cat(xs, 1)
    if node.op == "clamp":
        return xs[0]
    if node.op == "reshape":
        flat = xs[0].permute(0, 2, 3, 1)
        return flat.reshape(1, *graph.tensors[node.output].shape).permute(0, 3, 1, 2)
    t, left, b, r = node.attrs["pad"]
    kernel, stride = node.attrs["kernel"], node.attrs["stride"]
    if node.op == "avgpool":
        return F.avg_pool2d(F.pad(xs[0], (left, r, t, b)), kernel, stride)
    # Equal values: the oracle must choose the same one, so the first in row order is raised a
    # little.
    return _first_max(F.pad(xs[0], (left, r, t, b), value=-1e9), kernel, stride)


def _first_max(x: Tensor, kernel: tuple[int, int], stride: tuple[int, int]) -> Tensor:
    _, c, _, _ = x.shape
    taps = F.unfold(x.permute(1, 0, 2, 3), kernel, stride=stride)  # (C, kh * kw, windows)
    tie_break = torch.arange(taps.shape[1], dtype=x.dtype)[None, :, None] * 1e-9
    index = (taps.detach() - tie_break).argmax(1, keepdim=True)
    h = (x.shape[2] - kernel[0]) // stride[0] + 1
    return taps.gather(1, index).reshape(1, c, h, -1)
