"""Whether a network is well formed: run on what a frontend or a file gives, and after every pass.

What holds afterwards: names are unique and defined before use, every tensor is used, the operators
have the attributes and weights of their row in `mcutrain.ir.ops`, shapes follow its rule, the last
node is the linear classifier, and a network is either float throughout or quantised throughout.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mcutrain.errors import InputError
from mcutrain.ir.graph import Array, Graph, Node, Tensor
from mcutrain.ir.ops import OPS, OpSpec, infer_shape

MAX_EXTENT = 65535  # a map's height, width and channels are u16 in an image
MAX_WINDOW = 255


def is_quantised(graph: Graph) -> bool:
    """Whether the network computes in int8."""
    return all(graph.tensors[name].q is not None for name in graph.inputs)


def verify(graph: Graph) -> Graph:
    """Return the graph if it is well formed.

    Raises:
        InputError: it is not; the message names the layer or tensor.
    """
    quantised = _check_tensors(graph)
    defined = set(graph.inputs)
    names: set[str] = set()
    for node in graph.nodes:
        if node.name in names:
            raise _error("two layers have one name", node.name)
        names.add(node.name)
        _check_node(graph, node, defined, quantised)
        defined.add(node.output)
    _check_ends(graph, defined)
    return graph


def _error(message: str, where: str, why: str | None = None) -> InputError:
    return InputError(message, where=where, why=why)


def _check_tensors(graph: Graph) -> bool:
    """Names, extents, and all-or-nothing quantisation; returns whether it is quantised."""
    if not graph.inputs or not graph.nodes:
        raise _error("a network needs at least one input and one layer", graph.name)
    if len(set(graph.inputs)) != len(graph.inputs):
        raise _error("two inputs have one name", graph.name, ", ".join(graph.inputs))
    for name, tensor in graph.tensors.items():
        if name != tensor.name:
            raise _error("a tensor stands under another name than its own", name, tensor.name)
        if len(tensor.shape) != 3 or not all(1 <= n <= MAX_EXTENT for n in tensor.shape):
            raise _error(
                "a shape must be (H, W, C), each 1 to 65535", name, f"it is {tensor.shape}"
            )
    for name in (*graph.inputs, graph.output):
        _tensor(graph, name, graph.name)
    quantised = is_quantised(graph)
    for name, tensor in graph.tensors.items():
        if (tensor.q is not None) != (quantised and name != graph.output):
            raise _error(
                "a quantised network has a scale on every tensor but the logits, a float one none",
                name,
            )
    return quantised


def _tensor(graph: Graph, name: str, where: str) -> Tensor:
    if name not in graph.tensors:
        raise _error(f"tensor '{name}' is not in the network's table", where)
    return graph.tensors[name]


def _check_node(graph: Graph, node: Node, defined: set[str], quantised: bool) -> None:
    spec = OPS.get(node.op)
    if spec is None:
        raise _error(f"unknown operator '{node.op}'", node.name, "known are " + ", ".join(OPS))
    least, most = spec.arity
    if len(node.inputs) < least or (most is not None and len(node.inputs) > most):
        raise _error(f"{node.op} cannot take {len(node.inputs)} inputs", node.name)
    for name in node.inputs:
        _tensor(graph, name, node.name)
        if name not in defined:
            raise _error(f"tensor '{name}' is read before it is made", node.name)
    if node.output in defined:
        raise _error(f"tensor '{node.output}' is made twice", node.name)
    is_head = node is graph.nodes[-1]
    _check_params(node, spec, quantised and not is_head)
    _check_attrs(node, spec, quantised and not is_head)
    made, expected = _tensor(graph, node.output, node.name), infer_shape(node, graph.tensors)
    if made.shape != expected:
        raise _error(
            "a tensor has not the shape that its layer makes",
            node.name,
            f"{made.shape} declared, {expected} made",
        )
    if quantised and spec.same_q and made.q != graph.tensors[node.inputs[0]].q:
        raise _error(
            f"the output of {node.op} must have its input's scale and zero point", node.name
        )


def _ints(count: int, least: int, most: int) -> Callable[[Any], bool]:
    def fits(value: Any) -> bool:
        return (
            isinstance(value, tuple)
            and len(value) == count
            and all(type(v) is int and least <= v <= most for v in value)
        )

    return fits


def _real_range(value: Any) -> bool:
    if not (isinstance(value, tuple) and len(value) == 2):
        return False
    lo, hi = (
        -math.inf if value[0] is None else value[0],
        math.inf if value[1] is None else value[1],
    )
    return all(type(v) in (int, float) and not math.isnan(v) for v in (lo, hi)) and lo <= hi


def _int8(value: Any) -> bool:
    return type(value) is int and -128 <= value <= 127


_ATTRS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "kernel": (_ints(2, 1, MAX_EXTENT), "two integers (kh, kw) from 1 on"),
    "stride": (_ints(2, 1, MAX_WINDOW), "two integers (sh, sw) from 1 to 255"),
    "pad": (_ints(4, 0, MAX_WINDOW), "four integers (top, left, bottom, right) from 0 to 255"),
    "groups": (lambda v: type(v) is int and v >= 1, "a positive integer"),
    "shape": (_ints(3, 1, MAX_EXTENT), "three integers (H, W, C)"),
    "clamp": (_real_range, "two numbers (lo, hi), None for an open side, lo <= hi"),
    "lo": (_int8, "an int8"),
    "hi": (_int8, "an int8"),
}


def _check_attrs(node: Node, spec: OpSpec, quantised: bool) -> None:
    required, allowed = set(spec.attrs), set(spec.attrs)
    if spec.clamps and quantised:
        required |= {"lo", "hi"}
    elif spec.clamps:
        allowed |= {"clamp"}
        required |= {"clamp"} if spec.name == "clamp" else set()
    missing, surplus = required - set(node.attrs), set(node.attrs) - required - allowed
    if missing or surplus:
        why = f"missing: {sorted(missing)}, not allowed: {sorted(surplus)}"
        raise _error(f"{node.op} has not the attributes of its kind", node.name, why)
    for name, value in node.attrs.items():
        fits, text = _ATTRS[name]
        if not fits(value):
            raise _error(f"attribute '{name}' must be {text}", node.name, f"it is {value!r}")
    if "lo" in node.attrs and node.attrs["lo"] > node.attrs["hi"]:
        raise _error("attribute 'lo' exceeds 'hi'", node.name)
    if "pad" in node.attrs:
        _check_window(node)


def _check_window(node: Node) -> None:
    kernel = node.params["weight"].shape[1:3] if "weight" in node.params else node.attrs["kernel"]
    pad = node.attrs["pad"]
    if max(kernel) > MAX_WINDOW or (node.op == "maxpool" and math.prod(kernel) > MAX_WINDOW):
        raise _error("the window is too large", node.name, f"{tuple(kernel)}, limit {MAX_WINDOW}")
    if max(pad[0], pad[2]) >= kernel[0] or max(pad[1], pad[3]) >= kernel[1]:
        raise _error(
            "padding must be smaller than the window", node.name, f"pad {pad}, window {kernel}"
        )


def _check_params(node: Node, spec: OpSpec, quantised: bool) -> None:
    expected = set(spec.params) | ({"w_scale"} if quantised and spec.params else set())
    if set(node.params) != expected:
        raise _error(
            f"{node.op} has not the weights of its kind",
            node.name,
            f"it has {sorted(node.params)}, needs {sorted(expected)}",
        )
    if not expected:
        return
    weight, bias = node.params["weight"], node.params["bias"]
    c_out = weight.shape[0] if weight.ndim == 4 else 0
    if c_out == 0 or weight.size == 0 or bias.shape != (c_out,):
        raise _error(
            "weights must be (C_out, kh, kw, C_in / groups) with a bias (C_out,)",
            node.name,
            f"they are {weight.shape} and {bias.shape}",
        )
    if quantised:
        _check_int8_params(node, weight, bias, node.params["w_scale"])
    elif any(p.dtype != np.float32 or not np.isfinite(p).all() for p in (weight, bias)):
        raise _error("weights must be finite float32", node.name)


def _check_int8_params(node: Node, weight: Array, bias: Array, scale: Array) -> None:
    if weight.dtype != np.int8 or (weight == -128).any():
        raise _error("weights must be int8 in [-127, 127]", node.name)
    if bias.dtype != np.int32:
        raise _error("biases must be int32", node.name, f"they are {bias.dtype}")
    if scale.dtype != np.float64 or scale.shape != bias.shape:
        raise _error("w_scale must be float64 (C_out,)", node.name)
    if not (np.isfinite(scale).all() and (scale > 0).all()):
        raise _error("w_scale must be positive and finite", node.name)


def _check_ends(graph: Graph, defined: set[str]) -> None:
    head = graph.head
    if head.op != "linear" or head.output != graph.output or head.attrs:
        raise _error(
            "the last layer must be a linear classifier that makes the network's output",
            head.name,
            f"it is {head.op} with attributes {dict(head.attrs)} and makes '{head.output}'",
        )
    unmade = set(graph.tensors) - defined
    if unmade:
        raise _error("a tensor is made by no layer", min(unmade))
    read = {name for node in graph.nodes for name in node.inputs}
    for name in sorted(set(graph.tensors) - read - {graph.output}):
        raise _error("a tensor is not used by any layer", name)
    if graph.output in read:
        raise _error("the logits may not be read by a layer", graph.output)
    classes = graph.tensors[graph.output].size
    if graph.classes and len(graph.classes) != classes:
        raise _error(
            "the class names do not fit the classifier",
            head.name,
            f"{len(graph.classes)} names, {classes} outputs",
        )
