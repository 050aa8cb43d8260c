"""ReLU, ReLU6 and other clamps into the output range of the layer before them.

Before:                             After:
    a = conv2d(x)                       a = conv2d(x) clamp (0, 6)
    b = clamp(a) clamp (0, 6)

Max pools and reshapes between the two are passed: clamping before or after them is the same.
Not where somebody else reads `a` (it would read clamped values), and not where the producer has no
output range.
"""

from __future__ import annotations

import math
from dataclasses import replace

from mcutrain.frontends.rewrite import bypass
from mcutrain.ir.graph import Graph, Node
from mcutrain.ir.ops import OPS

_PASSED = ("maxpool", "reshape")
Range = tuple[float | None, float | None]


def fold_clamp(graph: Graph) -> Graph:
    """Fold every stand-alone clamp that its producer can take; the others stay."""
    for name in [n.name for n in graph.nodes if n.op == "clamp"]:
        clamp = graph.node(name)
        target = _target(graph, clamp)
        if target is not None:
            graph = _folded(graph, clamp, target)
    return graph


def _target(graph: Graph, clamp: Node) -> Node | None:
    tensor = clamp.inputs[0]
    while len(graph.consumers(tensor)) == 1:
        node = graph.producer(tensor)
        if node is None:
            return None
        if OPS[node.op].clamps:
            return node
        if node.op not in _PASSED:
            return None
        tensor = node.inputs[0]
    return None


def _folded(graph: Graph, clamp: Node, target: Node) -> Graph:
    old: Range = target.attrs.get("clamp", (None, None))
    attrs = {**target.attrs, "clamp": compose(old, clamp.attrs["clamp"])}
    clamped = replace(target, attrs=attrs)
    nodes = tuple(clamped if n is target else n for n in graph.nodes)
    return bypass(replace(graph, nodes=nodes), clamp)


def compose(first: Range, second: Range) -> Range:
    """The one clamp that does what two in a row do."""
    lo2 = -math.inf if second[0] is None else second[0]
    hi2 = math.inf if second[1] is None else second[1]
    lo = min(max(-math.inf if first[0] is None else first[0], lo2), hi2)
    hi = min(max(math.inf if first[1] is None else first[1], lo2), hi2)
    return (None if lo == -math.inf else lo, None if hi == math.inf else hi)
