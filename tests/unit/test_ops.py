"""The operator table: no missing cell, and references against plain loops."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import replace

import numpy as np
import pytest

from mcutrain.errors import InputError, UnsupportedError
from mcutrain.ir.graph import Array, Graph, Node, QParams, Shape, Tensor
from mcutrain.ir.instructions import INSTRUCTIONS
from mcutrain.ir.ops import OPS, Case, OpSpec, evaluate
from mcutrain.ir.verify import verify

CASES = [(row, case) for row in OPS.values() for case in row.cases(np.random.default_rng(0))]
IDS = [f"{row.name}-{i}" for i, (row, _) in enumerate(CASES)]


@pytest.mark.parametrize("row", OPS.values(), ids=OPS)
def test_no_cell_is_missing(row: OpSpec) -> None:
    assert OPS[row.name] is row
    for field in dataclasses.fields(row):
        assert getattr(row, field.name) is not None
    least, most = row.arity
    assert least >= 1
    assert most is None or most >= least
    assert set(row.lowers_to) <= set(INSTRUCTIONS)
    assert row.lowers_to or row.name == "reshape"
    assert len(row.cases(np.random.default_rng(0))) >= 2


def _taps(
    node: Node, size: Shape, kernel: tuple[int, int], at: tuple[int, int]
) -> list[tuple[int, ...]]:
    """(ky, kx, y, x) of the taps inside the input of the window that makes output pixel `at`."""
    top, left, _, _ = node.attrs["pad"]
    y0, x0 = (a * s - p for a, s, p in zip(at, node.attrs["stride"], (top, left), strict=True))
    return [
        (ky, kx, y0 + ky, x0 + kx)
        for ky, kx in itertools.product(range(kernel[0]), range(kernel[1]))
        if 0 <= y0 + ky < size[0] and 0 <= x0 + kx < size[1]
    ]


def _loop_conv(node: Node, x: Array, shape: Shape) -> Array:
    weight, bias = (node.params[key].astype(np.float64) for key in ("weight", "bias"))
    y = np.zeros(shape)
    c_out, kh, kw, c_group = weight.shape
    per = c_out // node.attrs["groups"]
    for i, j, o in np.ndindex(shape):
        start = o // per * c_group
        y[i, j, o] = bias[o] + sum(
            float(weight[o, ky, kx] @ x[iy, ix, start : start + c_group])
            for ky, kx, iy, ix in _taps(node, x.shape, (kh, kw), (i, j))
        )
    return y


def _loop_pool(node: Node, x: Array, shape: Shape) -> Array:
    kernel, y = node.attrs["kernel"], np.zeros(shape)
    for i, j, c in np.ndindex(shape):
        values = [x[iy, ix, c] for _, _, iy, ix in _taps(node, x.shape, kernel, (i, j))]
        mean = node.op == "avgpool"
        y[i, j, c] = sum(values) / (kernel[0] * kernel[1]) if mean else max(values)
    return y


def _loops(node: Node, xs: list[Array], shape: Shape) -> Array:
    """The operator's definition, one sample, element by element."""
    if node.op == "conv2d":
        y = _loop_conv(node, xs[0], shape)
    elif node.op in ("avgpool", "maxpool"):
        y = _loop_pool(node, xs[0], shape)
    elif node.op == "linear":
        flat = list(xs[0].flat)
        rows = node.params["weight"].reshape(shape[2], -1)
        y = np.array([sum(w * v for w, v in zip(r, flat, strict=True)) for r in rows])
        y = (y + node.params["bias"]).reshape(shape)
    elif node.op == "concat":
        y = np.array(
            [[[v for x in xs for v in x[i, j]] for j in range(shape[1])] for i in range(shape[0])]
        )
    else:
        y = (xs[0] + xs[1] if node.op == "add" else xs[0]).reshape(shape)
    lo, hi = node.attrs.get("clamp", (None, None))
    return y if lo is None and hi is None else np.clip(y, lo, hi)


@pytest.mark.parametrize(("row", "case"), CASES, ids=IDS)
def test_reference_is_the_definition(row: OpSpec, case: Case) -> None:
    """Includes t35 (15x15 and 16x16, stride 2) and t38 (four different pads)."""
    xs = case.inputs(np.random.default_rng(1))
    shape = row.shape(case.node, case.shapes)
    got = row.reference(case.node, xs)
    assert got.shape == (2, *shape)
    for sample in range(2):
        expected = _loops(case.node, [x[sample] for x in xs], shape)
        np.testing.assert_allclose(got[sample], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("row", "case"), CASES, ids=IDS)
def test_reference_keeps_float32(row: OpSpec, case: Case) -> None:
    xs = [x.astype(np.float32) for x in case.inputs(np.random.default_rng(1))]
    assert row.reference(case.node, xs).dtype == np.float32


def _weights(*shape: int) -> dict[str, Array]:
    return {"weight": np.ones(shape, np.float32), "bias": np.zeros(shape[0], np.float32)}


def small_graph() -> Graph:
    """conv, add of the input, pool, classifier."""
    attrs = {"stride": (1, 1), "pad": (1, 1, 1, 1), "groups": 1}
    return Graph(
        "small",
        ("x",),
        "logits",
        {
            "x": Tensor("x", (4, 4, 2)),
            "c": Tensor("c", (4, 4, 2)),
            "s": Tensor("s", (4, 4, 2)),
            "p": Tensor("p", (1, 1, 2)),
            "logits": Tensor("logits", (1, 1, 3)),
        },
        (
            Node(
                "conv2d", "conv", ("x",), "c", {**attrs, "clamp": (0.0, None)}, _weights(2, 3, 3, 2)
            ),
            Node("add", "sum", ("c", "x"), "s"),
            Node(
                "avgpool",
                "pool",
                ("s",),
                "p",
                {"kernel": (4, 4), "stride": (1, 1), "pad": (0, 0, 0, 0)},
            ),
            Node("linear", "classifier", ("p",), "logits", {}, _weights(3, 1, 1, 2)),
        ),
        ("a", "b", "c"),
    )


def test_verify_accepts_and_evaluate_runs_the_small_graph() -> None:
    graph = verify(small_graph())
    values = evaluate(graph, {"x": np.ones((5, 4, 4, 2))})
    assert values["logits"].shape == (5, 1, 1, 3)
    # Inner pixels: 18 taps + 1; corners 8 + 1; edges 12 + 1; two channels add up.
    np.testing.assert_allclose(values["logits"], 2 * (4 * 19 + 4 * 9 + 8 * 13) / 16)


def _with_node(index: int, **changes: object) -> Graph:
    graph = small_graph()
    nodes = list(graph.nodes)
    nodes[index] = replace(nodes[index], **changes)  # type: ignore[arg-type]
    return replace(graph, nodes=tuple(nodes))


def _with_tensor(name: str, tensor: Tensor) -> Graph:
    graph = small_graph()
    return replace(graph, tensors={**graph.tensors, name: tensor})


CONV = small_graph().nodes[0]
BAD: list[tuple[str, Graph, str, str]] = [
    ("unknown op", _with_node(0, op="softplus"), "conv", "unknown operator"),
    ("arity", _with_node(1, inputs=("c",)), "sum", "cannot take 1 inputs"),
    ("order", _with_node(0, inputs=("s",)), "conv", "read before"),
    ("name twice", _with_node(1, name="conv"), "conv", "one name"),
    ("made twice", _with_node(1, output="c"), "sum", "made twice"),
    ("tensor unknown", _with_node(1, inputs=("c", "?")), "sum", "not in the network's table"),
    ("attr missing", _with_node(0, attrs={"stride": (1, 1)}), "conv", "attributes"),
    ("attr surplus", _with_node(1, attrs={"alpha": 2}), "sum", "attributes"),
    ("attr kind", _with_node(0, attrs={**CONV.attrs, "stride": (0, 1)}), "conv", "stride"),
    ("clamp order", _with_node(0, attrs={**CONV.attrs, "clamp": (1.0, 0.0)}), "conv", "clamp"),
    ("large pad", _with_node(0, attrs={**CONV.attrs, "pad": (3, 1, 1, 1)}), "conv", "smaller than"),
    ("quantised attr", _with_node(0, attrs={**CONV.attrs, "lo": 0, "hi": 1}), "conv", "attributes"),
    (
        "params",
        _with_node(0, params={"weight": CONV.params["weight"]}),
        "conv",
        "weights of its kind",
    ),
    (
        "bias",
        _with_node(0, params={**CONV.params, "bias": np.zeros(3, np.float32)}),
        "conv",
        "C_out",
    ),
    ("dtype", _with_node(0, params={**CONV.params, "bias": np.zeros(2)}), "conv", "float32"),
    ("channels", _with_node(0, attrs={**CONV.attrs, "groups": 2}), "conv", "channels do not fit"),
    ("shape", _with_tensor("p", Tensor("p", (1, 2, 2))), "pool", "shape"),
    ("extent", _with_tensor("p", Tensor("p", (1, 0, 2))), "p", "65535"),
    ("foreign name", _with_tensor("p", Tensor("q", (1, 1, 2))), "p", "another name"),
    ("unmade", _with_tensor("z", Tensor("z", (1, 1, 2))), "z", "made by no layer"),
    ("part quantised", _with_tensor("c", Tensor("c", (4, 4, 2), QParams(1.0, 0))), "c", "scale"),
    ("unused", _with_node(1, inputs=("x", "x")), "c", "not used"),
    ("classes", replace(small_graph(), classes=("a",)), "classifier", "class names"),
    ("head", _with_node(3, attrs={"clamp": (0.0, None)}), "classifier", "last layer"),
    ("broadcast", _with_node(1, inputs=("c", "c2")), "sum", "table"),
]


@pytest.mark.parametrize(("graph", "where", "text"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_verify_names_the_layer(graph: Graph, where: str, text: str) -> None:
    with pytest.raises(InputError) as error:
        verify(graph)
    assert error.value.where == where
    assert text in str(error.value)


def test_add_refuses_broadcasting_and_says_so() -> None:
    node = Node("add", "block.sum", ("a", "b"), "y")
    with pytest.raises(UnsupportedError, match="broadcasting") as error:
        OPS["add"].shape(node, [(4, 4, 2), (1, 1, 2)])
    assert error.value.where == "block.sum"
