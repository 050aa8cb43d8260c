"""Small float graphs built by hand, and a check of int8 layers against their floats."""

from __future__ import annotations

from typing import Any

import numpy as np

from mcutrain.compile import Savings, compile_program
from mcutrain.ir.graph import Array, Graph, Node, Shape, Tensor
from mcutrain.ir.ops import OPS, infer_shape
from mcutrain.ir.program import Instr
from mcutrain.ir.reference.machine import Machine
from mcutrain.ir.verify import verify
from mcutrain.plan import Plan
from mcutrain.quantize import dequantize, quantize_input


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


def run(graph: Graph, xs: dict[str, Array]) -> dict[str, Array]:
    """What the program of a quantised graph writes for the first sample: real logits, int8 maps."""
    machine = Machine(compile_program(graph, Plan(), savings=Savings(rows=False)).program)
    written: dict[str, Array] = {}

    def trace(_: int, __: Instr, values: Any) -> None:
        for name, data in values.items():
            if name in graph.tensors and graph.tensors[name].q is not None:
                shape = graph.tensors[name].shape
                written[name] = np.frombuffer(data, np.int8).reshape(shape)

    machine.trace = trace
    quantised = quantize_input(graph, xs)
    first = {n: quantised[n][0] for n in graph.inputs}
    logits = machine.forward(b"".join(first[n].tobytes() for n in graph.inputs))
    return {**first, **written, graph.output: logits}


def real(graph: Graph, name: str, value: Array) -> Array:
    q = graph.tensors[name].q
    assert q is not None
    return (value.astype(np.float64) - q.zero_point) * q.scale


def assert_each_node_rounds_once(graph: Graph, values: dict[str, Array]) -> None:
    """A layer's int8 output is its real function of its int8 inputs, rounded to the nearest step.

    The multiplier has 31 bits (additions: 15 and more), so little more than half a step is allowed.
    """
    for node in dequantize(graph).nodes[:-1]:
        if not OPS[node.op].lowers_to:
            values[node.output] = values[node.inputs[0]].reshape(graph.tensors[node.output].shape)
            continue
        q = graph.tensors[node.output].q
        assert q is not None
        inputs = [real(graph, n, values[n])[None] for n in node.inputs]
        y = OPS[node.op].reference(node, inputs)[0]
        steps = np.clip(y / q.scale + q.zero_point, -128, 127)
        off = np.abs(steps - values[node.output])
        assert off.max() <= 0.51, f"{node.name}: {off.max():.3f} steps off"
