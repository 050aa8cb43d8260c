"""A fresh classifier for other classes than the network was made for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mcutrain.errors import InputError
from mcutrain.ir.graph import Graph


def fresh_head(graph: Graph, classes: int | tuple[str, ...]) -> Graph:
    """The network with a zero-initialised classifier for `classes` (a number or names)."""
    names = tuple(str(i) for i in range(classes)) if isinstance(classes, int) else classes
    if len(names) < 2:
        raise InputError(f"a classifier needs at least 2 classes, got {len(names)}")
    old = graph.head
    features = graph.tensors[old.inputs[0]].size
    head = replace(
        old,
        params={
            "weight": np.zeros((len(names), 1, 1, features), np.float32),
            "bias": np.zeros(len(names), np.float32),
        },
    )
    logits = replace(graph.tensors[old.output], shape=(1, 1, len(names)))
    return replace(
        graph,
        nodes=(*graph.nodes[:-1], head),
        tensors={**graph.tensors, old.output: logits},
        classes=names,
    )
