"""Put a trained state back into the network it came from: the inverse of `lower`.

    w_trained, w_frozen, perm, folded bias   become   weight, bias of the layer

Lowering the result with the same plan gives the same int8 weights, folded biases and classifier.
What a network file cannot hold, the fractions of trained weights, is dropped: they are rounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from mcutrain.errors import InputError
from mcutrain.ir.graph import Array, Graph, Node
from mcutrain.plan.plan import Plan, is_depthwise


def lift(graph: Graph, plan: Plan, state: Mapping[str, Array]) -> Graph:
    """The network with trained weights, biases and classifier.

    Args:
        graph: the quantised network that was lowered.
        plan: the plan that it was lowered with.
        state: arrays of the trained values by name (`LAYER.trained`, `LAYER.bias`, ...), of any
            shape with the right number of elements.

    Raises:
        InputError: a value that the plan trains is missing, or has another size.
    """
    nodes = [_layer(graph, node, plan, state) for node in graph.nodes[:-1]]
    head = _head(graph.head, state) if plan.head else graph.head
    return replace(graph, nodes=(*nodes, head))


def _layer(graph: Graph, node: Node, plan: Plan, state: Mapping[str, Array]) -> Node:
    channels = plan.weights.get(node.name, ())
    if not channels and node.name not in plan.biases:
        return node
    weight = np.array(node.params["weight"], np.int8)
    if channels:
        axis = 0 if is_depthwise(node) else 3
        # A grouped convolution trains whole, and counts the channels of all its groups.
        some = list(channels) if len(channels) < weight.shape[axis] else slice(None)
        index = (slice(None),) * axis + (some,)
        weight[index] = _value(state, f"{node.name}.trained", weight[index]).astype(np.int8)
    q = graph.tensors[node.inputs[0]].q
    if q is None:
        raise InputError("the network is not quantised", where=node.name)
    # int32 by the bound on folded biases: |bias| <= B_max + 128 * sum |w| < 2^31.
    folded = _value(state, f"{node.name}.bias", node.params["bias"]).astype(np.int64)
    bias = folded + q.zero_point * weight.astype(np.int64).sum(axis=(1, 2, 3))
    return replace(node, params={**node.params, "weight": weight, "bias": bias.astype(np.int32)})


def _head(node: Node, state: Mapping[str, Array]) -> Node:
    trained = {
        name: _value(state, f"{node.name}.{name}", node.params[name]).astype(np.float32)
        for name in ("weight", "bias")
    }
    return replace(node, params={**node.params, **trained})


def _value(state: Mapping[str, Array], name: str, like: Array) -> Array:
    if name not in state or state[name].size != like.size:
        found = f"{state[name].size} elements" if name in state else "nothing"
        raise InputError(
            "the trained state does not belong to this network and plan",
            where=name,
            why=f"{like.size} elements expected, {found} there",
            hint="use the network that the image was packed from",
        )
    return state[name].reshape(like.shape)
