"""A plan: which biases, which input channels of which weights, and with how many fractional
bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from mcutrain.errors import InputError
from mcutrain.ir.graph import Graph, Node

FRACTION_BITS = (0, 4, 8)
MAX_PIXELS = 65536  # of an output whose layer trains weights: their gradients are int32 sums


@dataclass(frozen=True)
class Plan:
    """What a training step changes. Everything that is not named here stays frozen.

    Attributes:
        biases: layers whose biases train.
        weights: layer -> the input channels whose weights train (depthwise: the channels),
            ascending.
        head: whether the fp32 classifier trains.
        fraction_bits: B, the extra bits a trained int8 weight keeps between steps: 0, 4 or 8.
    """

    biases: tuple[str, ...] = ()
    weights: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    head: bool = True
    fraction_bits: int = 8

    def __post_init__(self) -> None:
        if self.fraction_bits not in FRACTION_BITS:
            raise InputError(
                f"fraction bits must be 0, 4 or 8, got {self.fraction_bits}", where="fraction_bits"
            )

    def check(self, graph: Graph) -> None:
        """Hold the plan against a quantised network.

        Raises:
            InputError: an unknown layer, a layer without weights, a channel that does not exist,
                or a partly trained grouped convolution that is not depthwise.
        """
        for name in (*self.biases, *self.weights):
            node = graph.node(name)
            if node is graph.head:
                raise InputError(
                    "the classifier is trained by 'head', not as a layer",
                    where=name,
                    hint='set "head": true in the scheme and leave the layer out',
                )
            if node.op not in ("conv2d", "linear"):
                raise InputError(
                    f"a layer of kind {node.op} has nothing to train",
                    where=name,
                    hint="mcutrain inspect NET lists the layers",
                )
        for name, channels in self.weights.items():
            _check_channels(graph, graph.node(name), channels)


def input_channels(graph: Graph, node: Node) -> int:
    """Number of input channels of a conv2d or linear node as a plan counts them."""
    tensor = graph.tensors[node.inputs[0]]
    return tensor.size if node.op == "linear" else tensor.shape[2]


def is_depthwise(node: Node) -> bool:
    """Whether a conv2d has as many groups as input and output channels, and more than one."""
    groups = int(node.attrs.get("groups", 1))
    weight = node.params["weight"]
    return groups > 1 and groups == weight.shape[0] and weight.shape[3] == 1


def _check_channels(graph: Graph, node: Node, channels: tuple[int, ...]) -> None:
    total = input_channels(graph, node)
    if not channels:
        raise InputError("a trained layer names at least one input channel", where=node.name)
    if list(channels) != sorted(set(channels)) or channels[0] < 0 or channels[-1] >= total:
        raise InputError(
            f"input channels must be ascending, without repeats, below {total}",
            where=node.name,
            why=f"got {_short(channels)}",
            hint='"all" stands for every channel, a share such as 0.25 for the strongest ones',
        )
    groups = int(node.attrs.get("groups", 1))
    if groups > 1 and not is_depthwise(node) and len(channels) != total:
        raise InputError(
            "a grouped convolution trains all of its input channels or none",
            where=node.name,
            why=f"it has {groups} groups and the plan names {len(channels)} of {total} channels",
        )
    shape = graph.tensors[node.output].shape
    if shape[0] * shape[1] > MAX_PIXELS:
        raise InputError(
            f"an output of more than {MAX_PIXELS} pixels cannot train weights (int32 gradient)",
            where=node.name,
            why=f"it has {shape[0]} x {shape[1]} pixels",
        )


def _short(channels: tuple[int, ...]) -> str:
    text = ", ".join(map(str, channels[:8]))
    return text + (", ..." if len(channels) > 8 else "")


def strongest_channels(graph: Graph, node: Node, count: int) -> tuple[int, ...]:
    """The `count` input channels whose weights have the largest L2 norm in real units, ascending.

    The choice of the sparse update paper's code ("magnitude+"), On-Device Training Under 256KB
    Memory.
    """
    weight = node.params["weight"].astype(np.float64)
    scale = np.asarray(node.params["w_scale"], np.float64)
    real = weight * scale[:, None, None, None]
    norm = (real**2).sum(axis=(1, 2, 3) if is_depthwise(node) else (0, 1, 2))
    if norm.size != input_channels(graph, node):
        raise InputError("a grouped convolution trains all input channels or none", where=node.name)
    order = np.argsort(-norm, kind="stable")[:count]
    return tuple(int(c) for c in np.sort(order))
