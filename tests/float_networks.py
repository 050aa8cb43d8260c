"""Small float graphs built by hand, so that tests of quantisation need no torch."""

from __future__ import annotations

from typing import Any

import numpy as np

from mcutrain.ir.graph import Array, Graph, Node, Shape, Tensor
from mcutrain.ir.ops import infer_shape
from mcutrain.ir.verify import verify


class FloatNet:
    """A float graph, node by node; weights are random unless given."""

    def __init__(self, seed: int = 0, **inputs: Shape) -> None:
        self.rng = np.random.default_rng(seed)
        self.inputs = tuple(inputs)
        self.tensors = {name: Tensor(name, shape) for name, shape in inputs.items()}
        self.nodes: list[Node] = []

    def node(self, op: str, name: str, *inputs: str, **attrs: Any) -> str:
        weight, bias = attrs.pop("weight", None), attrs.pop("bias", None)
        params: dict[str, Array] = {}
        if weight is not None:
            array = self.rng.normal(size=weight) if isinstance(weight, tuple) else weight
            offset = self.rng.normal(size=len(array)) if bias is None else bias
            params = {"weight": array.astype(np.float32), "bias": offset.astype(np.float32)}
        node = Node(op, name, inputs, name, attrs, params)
        self.tensors[name] = Tensor(name, infer_shape(node, self.tensors))
        self.nodes.append(node)
        return name

    def conv(self, name: str, x: str, c_out: int, k: int = 3, **attrs: Any) -> str:
        c_in = self.tensors[x].shape[2]
        groups = attrs.setdefault("groups", 1)
        attrs.setdefault("weight", (c_out, k, k, c_in // groups))
        attrs = {"stride": (1, 1), "pad": (k // 2,) * 4, **attrs}
        return self.node("conv2d", name, x, **attrs)

    def pool(self, op: str, name: str, x: str, kernel: tuple[int, int]) -> str:
        return self.node(op, name, x, kernel=kernel, stride=kernel, pad=(0, 0, 0, 0))

    def done(self, x: str, classes: int = 3) -> Graph:
        self.node("linear", "classifier", x, weight=(classes, 1, 1, self.tensors[x].size))
        graph = Graph("net", self.inputs, "classifier", self.tensors, tuple(self.nodes))
        return verify(graph)


def mixed() -> Graph:
    """Every operator, clamps of all kinds, odd sizes, four different pads, two inputs."""
    net = FloatNet(a=(9, 7, 3), b=(1, 1, 5))
    net.conv("stem", "a", 4, clamp=(0.0, 6.0), stride=(2, 2), pad=(1, 2, 2, 0))
    net.conv("dw", "stem", 4, groups=4, clamp=(0.0, None))
    net.conv("pw", "dw", 4, 1)
    net.node("add", "sum", "stem", "pw", clamp=(0.0, None))
    net.node("clamp", "soft", "pw", clamp=(-0.5, 1.0))
    net.node("concat", "both", "sum", "soft")
    net.pool("maxpool", "mp", "both", (2, 2))
    net.pool("avgpool", "ap", "mp", (2, 1))
    net.node("linear", "fc_b", "b", weight=(6, 1, 1, 5), clamp=(0.0, None))
    flat = net.tensors["ap"].size
    net.node("reshape", "flat", "ap", shape=(1, 1, flat))
    net.node("concat", "all", "flat", "fc_b")
    net.node("linear", "fc", "all", weight=(7, 1, 1, flat + 6))
    return net.done("fc")


def samples(graph: Graph, count: int = 40, seed: int = 1) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    shapes = {n: graph.tensors[n].shape for n in graph.inputs}
    return {n: rng.normal(0.3, 1.0, (count, *s)).astype(np.float32) for n, s in shapes.items()}
