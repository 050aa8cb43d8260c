"""The operator table: one row an operator that a network can have.

A row is data: what the operator takes, the shape it makes, what it computes in real numbers, the
instructions it becomes, and cases to test it with. `tests/unit/test_ops.py` fails on a row with a
missing cell. A depthwise convolution has no row: it is `conv2d` with groups = C_in = C_out.
A folded clamp is an attribute.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mcutrain.errors import UnsupportedError
from mcutrain.ir import float_ops
from mcutrain.ir.graph import Array, Graph, Node, Shape, Tensor

ShapeRule = Callable[[Node, Sequence[Shape]], Shape]
Reference = Callable[[Node, Sequence[Array]], Array]


@dataclass(frozen=True, eq=False)
class Case:
    """One test case of an operator: a node and the shapes of its inputs."""

    node: Node
    shapes: tuple[Shape, ...]

    def inputs(self, rng: np.random.Generator, batch: int = 2) -> list[Array]:
        """Random float64 maps (batch, H, W, C) for the node."""
        return [rng.normal(size=(batch, *shape)) for shape in self.shapes]


@dataclass(frozen=True)
class OpSpec:
    """One row of the table.

    Attributes:
        arity: least and largest number of inputs; None: any number.
        attrs: the attributes that a node must have; besides them only a folded clamp is allowed.
        params: the weights that a node must have.
        clamps: can take a clamp into its output range: attribute `clamp` in a float graph, `lo` and
            `hi` in a quantised one.
        same_q: the output of a quantised node has the input's QParams.
        shape: rule for the (H, W, C) of the output; UnsupportedError where the inputs do not fit.
        reference: what it computes, on float (N, H, W, C) maps.
        lowers_to: instructions of `mcutrain.ir.instructions` that its forward pass becomes.
        cases: makes test cases from a random generator.
    """

    name: str
    arity: tuple[int, int | None]
    attrs: tuple[str, ...]
    params: tuple[str, ...]
    clamps: bool
    same_q: bool
    shape: ShapeRule
    reference: Reference
    lowers_to: tuple[str, ...]
    cases: Callable[[np.random.Generator], list[Case]] = field(repr=False)


def refuse(node: Node, message: str, why: str | None = None) -> UnsupportedError:
    """An error that names the user's layer."""
    return UnsupportedError(f"{node.op}: {message}", where=node.name, why=why)


def _window_shape(node: Node, x: Shape, kernel: tuple[int, int], channels: int) -> Shape:
    top, left, bottom, right = node.attrs["pad"]
    extents = []
    for size, before, after, k, stride in zip(
        x[:2], (top, left), (bottom, right), kernel, node.attrs["stride"], strict=True
    ):
        extent = (size + before + after - k) // stride + 1
        if extent < 1:
            raise refuse(node, f"a window of {k} does not fit into {size} + {before + after} pad")
        extents.append(extent)
    return (extents[0], extents[1], channels)


def _conv2d_shape(node: Node, xs: Sequence[Shape]) -> Shape:
    c_out, kh, kw, c_group = node.params["weight"].shape
    groups = node.attrs["groups"]
    if c_group * groups != xs[0][2] or c_out % groups:
        raise refuse(
            node,
            "channels do not fit",
            f"{groups} groups of {c_group} in, {c_out} out, but the input has {xs[0][2]} channels",
        )
    return _window_shape(node, xs[0], (kh, kw), c_out)


def _linear_shape(node: Node, xs: Sequence[Shape]) -> Shape:
    c_out, kh, kw, n_in = node.params["weight"].shape
    if (kh, kw, n_in) != (1, 1, math.prod(xs[0])):
        raise refuse(node, f"weights take {n_in} inputs, but the input has {math.prod(xs[0])}")
    return (1, 1, c_out)


def _add_shape(node: Node, xs: Sequence[Shape]) -> Shape:
    if xs[0] != xs[1]:
        raise refuse(
            node,
            "both inputs must have one shape",
            f"{xs[0]} and {xs[1]}; broadcasting is not supported",
        )
    return xs[0]


def _concat_shape(node: Node, xs: Sequence[Shape]) -> Shape:
    if len({x[:2] for x in xs}) > 1:
        raise refuse(node, "all inputs must have one height and width", str(list(xs)))
    return (xs[0][0], xs[0][1], sum(x[2] for x in xs))


def _clamp_shape(node: Node, xs: Sequence[Shape]) -> Shape:  # noqa: ARG001 (one signature for all rules)
    return xs[0]


def _pool_shape(node: Node, xs: Sequence[Shape]) -> Shape:
    return _window_shape(node, xs[0], node.attrs["kernel"], xs[0][2])


def _reshape_shape(node: Node, xs: Sequence[Shape]) -> Shape:
    shape: Shape = node.attrs["shape"]
    if math.prod(shape) != math.prod(xs[0]):
        raise refuse(node, f"{xs[0]} and {shape} have not the same number of elements")
    return shape


def _reshape(node: Node, xs: Sequence[Array]) -> Array:
    return xs[0].reshape(xs[0].shape[0], *node.attrs["shape"])


# Test cases. Each list covers odd sizes, few channels, unequal strides and four different pads.


def _case(op: str, shapes: Sequence[Shape], attrs: Mapping[str, Any], **params: Array) -> Case:
    names = tuple(f"x{i}" for i in range(len(shapes)))
    return Case(Node(op, op, names, "y", dict(attrs), params), tuple(shapes))


def _weights(rng: np.random.Generator, *shape: int) -> dict[str, Array]:
    return {
        "weight": rng.normal(size=shape).astype(np.float32),
        "bias": rng.normal(size=shape[0]).astype(np.float32),
    }


def _conv2d_cases(rng: np.random.Generator) -> list[Case]:
    grid: list[tuple[Shape, tuple[int, ...], tuple[int, int], tuple[int, ...], int]] = [
        ((5, 5, 3), (4, 3, 3, 3), (1, 1), (1, 1, 1, 1), 1),
        ((15, 15, 1), (2, 3, 3, 1), (2, 2), (1, 1, 1, 1), 1),
        ((16, 16, 2), (2, 3, 3, 2), (2, 2), (0, 0, 1, 1), 1),
        ((7, 6, 5), (3, 5, 4, 5), (1, 2), (1, 2, 3, 0), 1),
        ((9, 4, 6), (6, 7, 3, 1), (2, 1), (3, 2, 4, 1), 6),
        ((4, 5, 4), (6, 1, 2, 2), (1, 1), (0, 0, 0, 1), 2),
        ((3, 3, 5), (1, 1, 1, 5), (1, 1), (0, 0, 0, 0), 1),
    ]
    cases = []
    for i, (x, w, stride, pad, groups) in enumerate(grid):
        attrs: dict[str, Any] = {"stride": stride, "pad": pad, "groups": groups}
        if i % 2:
            attrs["clamp"] = (0.0, None) if i % 4 == 1 else (-0.5, 1.0)
        cases.append(_case("conv2d", [x], attrs, **_weights(rng, *w)))
    return cases


def _linear_cases(rng: np.random.Generator) -> list[Case]:
    grid: list[tuple[Shape, int]] = [((1, 1, 5), 3), ((2, 3, 4), 7), ((1, 1, 1), 1)]
    plain = [_case("linear", [x], {}, **_weights(rng, n, 1, 1, math.prod(x))) for x, n in grid]
    relu = _case("linear", [(1, 1, 6)], {"clamp": (0.0, None)}, **_weights(rng, 4, 1, 1, 6))
    return [*plain, relu]


def _add_cases(rng: np.random.Generator) -> list[Case]:  # noqa: ARG001
    shapes: list[Shape] = [(1, 1, 1), (3, 5, 2)]
    return [_case("add", [s, s], attrs) for s in shapes for attrs in ({}, {"clamp": (-0.25, 0.75)})]


def _concat_cases(rng: np.random.Generator) -> list[Case]:  # noqa: ARG001
    grid: list[list[Shape]] = [
        [(2, 3, 1), (2, 3, 4)],
        [(1, 1, 2)],
        [(3, 1, 2), (3, 1, 1), (3, 1, 5)],
    ]
    return [_case("concat", shapes, {}) for shapes in grid]


def _clamp_cases(rng: np.random.Generator) -> list[Case]:  # noqa: ARG001
    sides = [(0.0, None), (0.0, 6.0), (None, 0.5), (-0.5, 0.25)]
    return [_case("clamp", [(3, 4, 2)], {"clamp": side}) for side in sides]


def _pool_cases(op: str) -> list[Case]:
    grid: list[tuple[Shape, tuple[int, int], tuple[int, int], tuple[int, ...]]] = [
        ((4, 4, 3), (2, 2), (2, 2), (0, 0, 0, 0)),
        ((5, 7, 2), (3, 2), (2, 1), (2, 0, 1, 1)),
        ((7, 3, 5), (7, 3), (1, 1), (0, 0, 0, 0)),
        ((15, 15, 1), (3, 3), (2, 2), (1, 1, 1, 1)),
    ]
    return [_case(op, [x], {"kernel": k, "stride": s, "pad": p}) for x, k, s, p in grid]


def _reshape_cases(rng: np.random.Generator) -> list[Case]:  # noqa: ARG001
    grid: list[tuple[Shape, Shape]] = [((2, 3, 4), (1, 1, 24)), ((1, 1, 6), (2, 3, 1))]
    return [_case("reshape", [x], {"shape": y}) for x, y in grid]


_WEIGHTS = ("weight", "bias")
_POOL = ("kernel", "stride", "pad")
# fmt: off
_ROWS = (
    # name, arity, attrs, params, clamps, same_q, shape rule, reference, instructions, cases
    OpSpec("conv2d", (1, 1), ("stride", "pad", "groups"), _WEIGHTS, True, False,
           _conv2d_shape, float_ops.conv2d, ("conv2d",), _conv2d_cases),
    OpSpec("linear", (1, 1), (), _WEIGHTS, True, False,
           _linear_shape, float_ops.linear, ("conv2d", "head"), _linear_cases),
    OpSpec("add", (2, 2), (), (), True, False,
           _add_shape, float_ops.add, ("add",), _add_cases),
    OpSpec("concat", (1, None), (), (), False, False,
           _concat_shape, float_ops.concat, ("rescale",), _concat_cases),
    OpSpec("clamp", (1, 1), (), (), True, False,
           _clamp_shape, float_ops.clamp, ("rescale",), _clamp_cases),
    OpSpec("avgpool", (1, 1), _POOL, (), False, True,
           _pool_shape, float_ops.avgpool, ("avgpool",), lambda _: _pool_cases("avgpool")),
    OpSpec("maxpool", (1, 1), _POOL, (), False, True,
           _pool_shape, float_ops.maxpool, ("maxpool",), lambda _: _pool_cases("maxpool")),
    # No instruction: the output is a view of the input's bytes.
    OpSpec("reshape", (1, 1), ("shape",), (), False, True,
           _reshape_shape, _reshape, (), _reshape_cases),
)
# fmt: on

OPS: dict[str, OpSpec] = {row.name: row for row in _ROWS}


def infer_shape(node: Node, tensors: Mapping[str, Tensor]) -> Shape:
    """The shape of a node's output.

    Raises:
        UnsupportedError: the inputs do not fit the node; names the layer.
    """
    return OPS[node.op].shape(node, [tensors[name].shape for name in node.inputs])


def evaluate(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Run a float graph.

    Args:
        graph: a float graph (`mcutrain.quantize.dequantize` makes one from a quantised graph).
        inputs: float (N, H, W, C) maps by name.

    Returns:
        Every tensor by name, (N, H, W, C); the logits are `result[graph.output]`.
    """
    values = {name: np.asarray(inputs[name]) for name in graph.inputs}
    for node in graph.nodes:
        values[node.output] = OPS[node.op].reference(node, [values[n] for n in node.inputs])
    return values
