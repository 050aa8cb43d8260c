"""Batch normalisation into the layer before it.

A frontend writes a batch norm as a depthwise 1x1 convolution, which is what it stays if nothing can
take it.

Before:                                        After:
    a = conv2d(x, weight w, bias b)                a = conv2d(x, weight g * w, bias g * b + h)
    c = conv2d(a, weight g, bias h)  # scale

Not where somebody else reads `a`, or where a clamp stands between.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from mcutrain.frontends.rewrite import bypass
from mcutrain.ir.graph import Array, Graph, Node


def fold_scale(graph: Graph, scales: Collection[str]) -> Graph:
    """Fold the named scale nodes (depthwise 1x1, stride 1, no padding) where that is possible."""
    for name in scales:
        scale = next((n for n in graph.nodes if n.name == name), None)
        producer = None if scale is None else graph.producer(scale.inputs[0])
        if scale is None or producer is None or not _can_take(graph, producer):
            continue
        merged = replace(producer, params=_merged(producer, scale))
        nodes = tuple(merged if n is producer else n for n in graph.nodes)
        graph = bypass(replace(graph, nodes=nodes), scale)
    return graph


def _can_take(graph: Graph, producer: Node) -> bool:
    return (
        producer.op in ("conv2d", "linear")
        and "clamp" not in producer.attrs
        and len(graph.consumers(producer.output)) == 1
    )


def _merged(producer: Node, scale: Node) -> dict[str, Array]:
    gain = scale.params["weight"].reshape(-1).astype(np.float64)
    offset = scale.params["bias"].astype(np.float64)
    weight = producer.params["weight"] * gain[:, None, None, None]
    bias = producer.params["bias"] * gain + offset
    return {"weight": weight.astype(np.float32), "bias": bias.astype(np.float32)}
