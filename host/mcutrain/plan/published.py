"""The update schemes published with "On-Device Training Under 256KB Memory", as data.

A scheme is called by the memory it needed there: `49kb`. Layers are numbered as there: convolutions
in the order they run, the classifier left out. Which of the tables applies is seen from the
network's layers, so it does not matter where the network was imported from or what it is called.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcutrain.errors import InputError
from mcutrain.ir.graph import Graph, Node
from mcutrain.plan.plan import Plan, input_channels, is_depthwise

# Of which layers the weights train, and which share of their input channels (depthwise: channels);
# `biases` counts layers from the end.
Ratios = Mapping[int, float]


@dataclass(frozen=True)
class PublishedScheme:
    """Biases of the last `biases` layers; weights of some layers, a share of each."""

    biases: int
    weights: Ratios


@dataclass(frozen=True)
class PublishedNetwork:
    """A network with schemes: how many layers it has, and the input channels of some of them."""

    name: str
    layers: int
    widths: Mapping[int, int]
    schemes: Mapping[str, PublishedScheme]


# fmt: off
NETWORKS = (
    PublishedNetwork(
        "mcunet-5fps", 42,
        {0: 3, 21: 40, 24: 48, 27: 48, 30: 48, 33: 96, 36: 96, 39: 96, 41: 576},
        {
            "49kb": PublishedScheme(20, {24: 1 / 4, 27: 1 / 2, 30: 1 / 2}),
            "74kb": PublishedScheme(21, {21: 1, 24: 1, 27: 1 / 2, 30: 1}),
            "99kb": PublishedScheme(22, {21: 1, 24: 1, 27: 1, 30: 1, 36: 1 / 8, 39: 1 / 4}),
            "124kb": PublishedScheme(24, {21: 1 / 4, 24: 1, 27: 1, 30: 1, 33: 1 / 2, 39: 1 / 2}),
            "148kb": PublishedScheme(23, {21: 1, 24: 1, 27: 1, 30: 1, 36: 1, 39: 1 / 2}),
        },
    ),
    PublishedNetwork(
        "mbv2-w0.35", 51,
        {0: 3, 27: 24, 30: 24, 32: 144, 33: 32, 36: 32, 39: 32, 41: 192, 42: 56, 45: 56, 48: 56,
         49: 336},
        {
            "49kb": PublishedScheme(16, {36: 1, 39: 1, 41: 1 / 4, 42: 1 / 8, 45: 1 / 8, 48: 1 / 8,
                                         49: 1 / 8}),
            "73kb": PublishedScheme(20, {32: 1 / 8, 33: 1 / 2, 36: 1 / 2, 39: 1, 41: 1 / 4,
                                         42: 1 / 8, 45: 1 / 8, 48: 1}),
            "99kb": PublishedScheme(25, {27: 1, 30: 1, 33: 1, 36: 1, 39: 1, 42: 1 / 8, 45: 1 / 2,
                                         48: 1}),
            "123kb": PublishedScheme(31, {27: 1, 30: 1, 33: 1, 36: 1, 39: 1, 42: 1 / 2, 45: 1,
                                          48: 1}),
            "138kb": PublishedScheme(34, {27: 1, 30: 1, 33: 1, 36: 1, 39: 1, 42: 1, 45: 1, 48: 1}),
        },
    ),
)
# fmt: on


def is_published_name(scheme: str) -> bool:
    """Whether a scheme is called like a published one."""
    return re.fullmatch(r"\d+kb", scheme) is not None


def published_network(graph: Graph, layers: tuple[Node, ...]) -> PublishedNetwork | None:
    """The published network that a graph is, whatever its classifier; None if it is another.

    `layers` are the graph's layers with weights, the classifier left out.
    """
    for network in NETWORKS:
        if len(layers) == network.layers and all(
            input_channels(graph, layers[i]) == width for i, width in network.widths.items()
        ):
            return network
    return None


def published_scheme(graph: Graph, layers: tuple[Node, ...], scheme: str) -> dict[str, Any]:
    """The contents of a scheme file for a published scheme.

    Raises:
        InputError: it was not published for this network; the message lists what was.
    """
    network = published_network(graph, layers)
    if network is None or scheme not in network.schemes:
        known = "; ".join(f"{n.name}: {', '.join(n.schemes)}" for n in NETWORKS)
        raise InputError(
            "this scheme was not published for this network",
            where=scheme,
            why=f"'{graph.name}' is {'another network' if network is None else network.name}; "
            f"published are {known}",
            hint="use head, bias:K, last:K, full, or a JSON file",
        )
    found = network.schemes[scheme]
    weights = {layers[index].name: ratio for index, ratio in found.weights.items()}
    return {"bias_last": found.biases, "weights": weights}


@dataclass(frozen=True)
class PublishedBytes:
    """Bytes as the publication counts them: the classifier's weights, momentum and errors left out.

    Attributes:
        weights: one a trained weight.
        biases: four a trained bias.
        inputs: one an element of a saved input (its trained channels only), the classifier's too.
        masks: an eighth an output element of each layer from the first one that trains.
    """

    weights: int
    biases: int
    inputs: int
    masks: float

    @property
    def total(self) -> float:
        """All of them; the publication gives it in KiB."""
        return self.weights + self.biases + self.inputs + self.masks


def published_accounting(graph: Graph, layers: tuple[Node, ...], plan: Plan) -> PublishedBytes:
    """What a plan needs by the publication's count, to compare with its tables.

    `layers` are the graph's layers with weights, the classifier left out.
    """
    weights = biases = masks = 0
    inputs = graph.tensors[graph.head.inputs[0]].size if plan.head else 0
    reached = False
    for node in layers:
        channels = len(plan.weights.get(node.name, ()))
        reached |= channels > 0 or node.name in plan.biases
        weight, source = node.params["weight"], graph.tensors[node.inputs[0]]
        per_channel = weight[0].size if is_depthwise(node) else weight.size // weight.shape[3]
        weights += channels * per_channel
        inputs += channels * source.size // input_channels(graph, node)
        biases += weight.shape[0] if node.name in plan.biases else 0
        masks += graph.tensors[node.output].size if reached else 0
    return PublishedBytes(weights, 4 * biases, inputs, masks / 8)
