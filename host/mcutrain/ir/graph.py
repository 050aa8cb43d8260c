"""A network: tensors, and nodes that make one tensor each. Batch 1, maps are (H, W, C).

A *float* graph comes from a frontend and carries float weights; a *quantised* graph carries int8
weights, int32 biases and `QParams` on every tensor. Both are frozen: a pass returns a new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.errors import InputError

Array = npt.NDArray[Any]
Shape = tuple[int, int, int]


@dataclass(frozen=True)
class QParams:
    """Affine quantisation of one int8 tensor: real = scale * (q - zero_point)."""

    scale: float
    zero_point: int

    def __post_init__(self) -> None:
        if not (np.isfinite(self.scale) and self.scale > 0):
            raise InputError(f"a scale must be positive and finite, got {self.scale}")
        if not -128 <= self.zero_point <= 127:
            raise InputError(f"a zero point must fit int8, got {self.zero_point}")


@dataclass(frozen=True)
class Tensor:
    """One activation map under the user's own name. `q` is None in a float graph."""

    name: str
    shape: Shape
    q: QParams | None = None

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.shape[0] * self.shape[1] * self.shape[2]


@dataclass(frozen=True, eq=False)
class Node:
    """One operator: `op` names a row of `mcutrain.ir.ops.OPS`.

    Attributes:
        inputs: names of the tensors it reads, in the operator's order.
        output: name of the tensor it makes.
        attrs: plain values (kernel, stride, pad, groups, lo, hi, ...).
        params: weights. conv2d, linear: `weight` (C_out, kh, kw, C_in / groups) and `bias`
            (C_out,);
            float graphs: float32; quantised graphs: int8, int32 and `w_scale` float64 (C_out,).
    """

    op: str
    name: str
    inputs: tuple[str, ...]
    output: str
    attrs: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Graph:
    """A network. Nodes stand in an order in which they can run; `output` is the logits tensor.

    The last node is a `linear` one, the classifier, which runs and trains in fp32: it keeps
    float32 weights in a quantised graph, too.
    """

    name: str
    inputs: tuple[str, ...]
    output: str
    tensors: Mapping[str, Tensor]
    nodes: tuple[Node, ...]
    classes: tuple[str, ...] = ()

    def consumers(self, tensor: str) -> tuple[Node, ...]:
        """The nodes that read a tensor."""
        return tuple(n for n in self.nodes if tensor in n.inputs)

    def producer(self, tensor: str) -> Node | None:
        """The node that makes a tensor; None for an input of the network."""
        return next((n for n in self.nodes if n.output == tensor), None)

    def node(self, name: str) -> Node:
        """The node of that name.

        Raises:
            InputError: there is none; the message lists those there are.
        """
        for n in self.nodes:
            if n.name == name:
                return n
        raise InputError(
            f"no layer '{name}' in network '{self.name}'",
            where=name,
            why="the network has " + ", ".join(n.name for n in self.nodes),
            hint="mcutrain inspect NET lists the layers",
        )

    @property
    def head(self) -> Node:
        """The classifier: the last node."""
        return self.nodes[-1]
