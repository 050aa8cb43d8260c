"""Changes of a graph that the frontends' passes share."""

from __future__ import annotations

from dataclasses import replace

from mcutrain.ir.graph import Graph, Node


def bypass(graph: Graph, node: Node) -> Graph:
    """Remove a node of one input; whoever read its output reads its input."""
    source, gone = node.inputs[0], node.output
    nodes = tuple(
        replace(n, inputs=tuple(source if name == gone else name for name in n.inputs))
        for n in graph.nodes
        if n is not node
    )
    tensors = {name: tensor for name, tensor in graph.tensors.items() if name != gone}
    output = source if graph.output == gone else graph.output
    return replace(graph, nodes=nodes, tensors=tensors, output=output)


def prune(graph: Graph) -> Graph:
    """Remove nodes and tensors that the output does not depend on; inputs stay."""
    live = {graph.output}
    kept = []
    for node in reversed(graph.nodes):
        if node.output in live:
            live.update(node.inputs)
            kept.append(node)
    live.update(graph.inputs)
    tensors = {name: tensor for name, tensor in graph.tensors.items() if name in live}
    return replace(graph, tensors=tensors, nodes=tuple(reversed(kept)))
