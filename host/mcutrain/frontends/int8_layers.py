"""What the frontends of int8 networks share: how layers become nodes, the last one a classifier."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mcutrain.errors import InputError, UnsupportedError
from mcutrain.ir.graph import Array, Graph, Node, QParams, Shape, Tensor
from mcutrain.ir.ops import infer_shape
from mcutrain.ir.verify import verify

FULL_RANGE = {"lo": -128, "hi": 127}


@dataclass(frozen=True, eq=False)
class Int8Weights:
    """Weights of a convolution: int8 OHWI, int32 biases of scale s_x * w_scale, w_scale float64."""

    weight: Array
    bias: Array
    w_scale: Array

    def params(self) -> dict[str, Array]:
        """As a quantised node holds them."""
        return {"weight": self.weight, "bias": self.bias, "w_scale": self.w_scale}

    def dequantised(self, x_scale: float) -> dict[str, Array]:
        """As the classifier holds them: float32, the weight (C_out, 1, 1, n_in)."""
        scale = self.w_scale[:, None]
        weight = self.weight.reshape(len(scale), -1).astype(np.float64) * scale
        bias = self.bias.astype(np.float64) * self.w_scale * x_scale
        return {
            "weight": weight.astype(np.float32)[:, None, None, :],
            "bias": bias.astype(np.float32),
        }


def int8_weights(weight: Array, bias: Array, w_scale: Array, layer: str) -> Int8Weights:
    """Checked weights: int8 OHWI, int32 (C_out,), real (C_out,).

    Raises:
        UnsupportedError: a weight of -128, or a scale that is not positive.
        InputError: other types or shapes.
    """
    scale = np.asarray(w_scale, np.float64).reshape(-1)
    if weight.dtype != np.int8 or bias.dtype != np.int32 or weight.ndim != 4:
        raise InputError(
            "weights must be int8 with four dimensions, biases int32",
            where=layer,
            why=f"they are {weight.dtype} {weight.shape} and {bias.dtype}",
        )
    if scale.shape != bias.shape or bias.shape != weight.shape[:1]:
        raise InputError(
            "weights, biases and scales differ in their number of output channels",
            where=layer,
            why=f"{weight.shape[0]}, {bias.size} and {scale.size}",
        )
    if (weight == -128).any():
        raise UnsupportedError(
            "a weight of -128 is not supported",
            where=layer,
            why="weights are symmetric, from -127 to 127",
            hint="quantise the network with symmetric int8 weights",
        )
    if not (np.isfinite(scale).all() and (scale > 0).all()):
        raise UnsupportedError("a weight scale is not positive and finite", where=layer)
    return Int8Weights(np.ascontiguousarray(weight), bias, scale)


@dataclass(eq=False)
class Int8Builder:
    """A quantised graph as it grows; a node and the tensor that it makes have one name."""

    name: str
    tensors: dict[str, Tensor] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)

    def input(self, name: str, shape: Shape, q: QParams) -> str:
        """An input of the network."""
        self.tensors[name] = Tensor(name, shape, q)
        self.inputs.append(name)
        return name

    def unique(self, name: str) -> str:
        """The name, with a number behind where it is taken."""
        count, free = 0, name
        while free in self.tensors:
            count += 1
            free = f"{name}@{count}"
        return free

    def q(self, tensor: str) -> QParams:
        """Scale and zero point of a tensor."""
        q = self.tensors[tensor].q
        if q is None:
            raise InputError("the classifier's output is read by another layer", where=tensor)
        return q

    def check_source(self, layer: str, tensor: str, q: QParams) -> None:
        """A layer must read a tensor with the scale and zero point that it was made with.

        Raises:
            UnsupportedError: it does not.
        """
        made = self.q(tensor)
        same_scale = math.isclose(q.scale, made.scale, rel_tol=1e-6)
        if q.zero_point != made.zero_point or not same_scale:
            raise UnsupportedError(
                "a layer reads its input with another scale than the input has",
                where=layer,
                why=f"scale {q.scale:.6g}, zero point {q.zero_point}; "
                f"'{tensor}' was made with {made.scale:.6g}, {made.zero_point}",
            )

    def emit(
        self,
        op: str,
        name: str,
        inputs: tuple[str, ...],
        q: QParams | None,
        attrs: Mapping[str, Any],
        params: Mapping[str, Array] | None = None,
    ) -> str:
        """Add a node; the shape of its tensor follows from its inputs.

        Raises:
            UnsupportedError: the inputs do not fit the operator.
        """
        name = self.unique(name)
        node = Node(op, name, inputs, name, dict(attrs), dict(params or {}))
        self.tensors[name] = Tensor(name, infer_shape(node, self.tensors), q)
        self.nodes.append(node)
        return name

    def global_pool(self, name: str, x: str) -> str:
        """Average over the whole map."""
        height, width, _ = self.tensors[x].shape
        attrs = {"kernel": (height, width), "stride": (1, 1), "pad": (0, 0, 0, 0)}
        return self.emit("avgpool", name, (x,), self.q(x), attrs)

    def classifier(self, name: str, x: str, weights: Int8Weights) -> Graph:
        """Close the network with its float32 classifier.

        Raises:
            UnsupportedError: the layer does not see the whole map at once.
        """
        if weights.weight[0].size != math.prod(self.tensors[x].shape):
            raise UnsupportedError(
                "the last layer must see its whole input at once: it becomes the classifier",
                where=name,
                why=f"it takes {weights.weight[0].size} values, "
                f"its input has {self.tensors[x].shape}",
            )
        output = self.emit("linear", name, (x,), None, {}, weights.dequantised(self.q(x).scale))
        return verify(Graph(self.name, tuple(self.inputs), output, self.tensors, tuple(self.nodes)))
