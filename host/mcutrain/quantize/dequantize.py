"""What a quantised network computes, in real numbers: to measure quantisation errors.

Not the arithmetic of an image, which is `mcutrain.ir.reference`: rounding may differ by one step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from mcutrain.errors import InputError
from mcutrain.ir.graph import Array, Graph, Node, QParams, Tensor
from mcutrain.ir.ops import OPS
from mcutrain.ir.verify import is_quantised
from mcutrain.quantize.inputs import Samples, quantize_input, round_to


def dequantize(graph: Graph) -> Graph:
    """The float graph with the real values of the int8 weights, biases and output limits.

    Raises:
        InputError: the graph is not quantised.
    """
    if not is_quantised(graph):
        raise InputError("the network is not quantised", where=graph.name)
    nodes = [_real_node(node, graph.tensors) for node in graph.nodes[:-1]]
    tensors = {name: replace(t, q=None) for name, t in graph.tensors.items()}
    return replace(graph, tensors=tensors, nodes=(*nodes, graph.head))


def simulate(graph: Graph, samples: Samples) -> dict[str, Array]:
    """Real values of every tensor, float64 (N, H, W, C), each rounded to its int8 steps.

    Args:
        graph: a quantised graph.
        samples: as `quantize_input` takes them.

    Raises:
        InputError: the graph is not quantised, or the samples do not fit.
    """
    plain = dequantize(graph)
    values = {}
    for name, x in quantize_input(graph, samples).items():
        q = _q(graph.tensors[name])
        values[name] = (x.astype(np.float64) - q.zero_point) * q.scale
    for node in plain.nodes:
        y = OPS[node.op].reference(node, [values[name] for name in node.inputs])
        q_out = graph.tensors[node.output].q
        if q_out is not None:
            y = (round_to(y, q_out) - q_out.zero_point) * q_out.scale
        values[node.output] = y
    return values


def _q(tensor: Tensor) -> QParams:
    assert tensor.q is not None
    return tensor.q


def _real_node(node: Node, tensors: Mapping[str, Tensor]) -> Node:
    attrs = {key: value for key, value in node.attrs.items() if key not in ("lo", "hi")}
    if "lo" in node.attrs:
        q = _q(tensors[node.output])
        attrs["clamp"] = tuple(q.scale * (node.attrs[k] - q.zero_point) for k in ("lo", "hi"))
    params = dict(node.params)
    if params:
        scale = params.pop("w_scale")
        x = _q(tensors[node.inputs[0]])
        weight = params["weight"] * scale[:, None, None, None]
        bias = params["bias"] * (scale * x.scale)
        params = {"weight": weight.astype(np.float32), "bias": bias.astype(np.float32)}
    return replace(node, attrs=attrs, params=params)
