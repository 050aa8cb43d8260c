"""A fresh classifier for other classes than the network was made for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mcutrain.errors import InputError
from mcutrain.ir.graph import Graph
from mcutrain.ir.verify import MAX_EXTENT


def fresh_head(graph: Graph, classes: int | tuple[str, ...]) -> Graph:
    """The network with a zero-initialised classifier for `classes` (a number or names)."""
    count = classes if isinstance(classes, int) else len(classes)
    if not 2 <= count <= MAX_EXTENT:
        raise InputError(
            f"a classifier needs at least 2 classes, at most {MAX_EXTENT}, got {count}",
            where=f"the classifier of '{graph.name}'",
            hint="--classes N with the number of classes that the data have",
        )
    names = tuple(str(i) for i in range(classes)) if isinstance(classes, int) else classes
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
