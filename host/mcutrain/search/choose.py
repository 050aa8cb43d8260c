"""The plan with the largest score that fits: layers and input channels by score per byte.

Bytes rank the candidates; what decides is the SRAM of the compiled program. How deep the backward
pass may reach is tried out, because it costs masks and errors whatever trains there; within a depth
as many candidates are taken as fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mcutrain.compile import compile_program
from mcutrain.ir.graph import Graph, Node
from mcutrain.plan.plan import Plan, input_channels, is_depthwise
from mcutrain.plan.scheme import trainable_layers
from mcutrain.search.gradients import Scores

_DEPTHS = 8  # tried over the whole network, before the best one's neighbourhood
_PARTS = 100  # of the candidates, while depths are compared


@dataclass(frozen=True)
class Candidate:
    """Something that can train or not.

    Attributes:
        channels: input channels of the layer's weights; () stands for its biases.
        value: mean squared norm of the gradient.
        nbytes: weights with their fractions and saved activations, or biases.
    """

    layer: str
    channels: tuple[int, ...]
    value: float
    nbytes: int


@dataclass(frozen=True)
class Chosen:
    """A plan, the sum of its candidates' values, and the layers it reaches back."""

    plan: Plan
    value: float
    depth: int


def candidates(graph: Graph, scores: Scores, fraction_bits: int) -> list[Candidate]:
    """All there are, the best value per byte first."""
    found: list[Candidate] = []
    for node in trainable_layers(graph):
        if node.name in scores.layers:
            found += _of_layer(graph, node, scores, fraction_bits)
    return sorted(found, key=lambda c: (-c.value / c.nbytes, c.layer, c.channels))


def _of_layer(graph: Graph, node: Node, scores: Scores, bits: int) -> Iterator[Candidate]:
    layer, weight = scores.layers[node.name], node.params["weight"]
    yield Candidate(node.name, (), layer.bias, 4 * weight.shape[0])
    total = input_channels(graph, node)
    if layer.channels.size != total:
        return  # maps too large to train weights
    saved = graph.tensors[node.inputs[0]].size // total
    depthwise = is_depthwise(node)
    per_channel = weight[0].size if depthwise else weight.size // weight.shape[3]
    nbytes = per_channel + per_channel * bits // 8 + saved
    if int(node.attrs.get("groups", 1)) > 1 and not depthwise:
        whole = weight.size + weight.size * bits // 8 + saved * total
        yield Candidate(node.name, tuple(range(total)), float(layer.channels.sum()), whole)
        return
    for channel, value in enumerate(layer.channels):
        yield Candidate(node.name, (channel,), float(value), nbytes)


def choose(
    graph: Graph,
    scores: Scores,
    pool: int,
    fraction_bits: int,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> Chosen:
    """The best plan whose compiled program needs at most `pool` bytes of state and arena.

    The classifier always trains; if it alone does not fit, the plan is it alone.

    Args:
        graph, scores: a quantised network and what `score` found for it.
        pool: bytes there are.
        fraction_bits: 0, 4 or 8.
        progress: told how many depths are done, and of how many.
    """
    search = _Search(graph, candidates(graph, scores, fraction_bits), pool, fraction_bits)
    count = len(trainable_layers(graph))
    depths = sorted({max(1, round(count * (i + 1) / _DEPTHS)) for i in range(_DEPTHS)})
    best = Chosen(Plan(fraction_bits=fraction_bits), 0.0, 0)
    for done, depth in enumerate(depths):
        best = max(best, search.at(depth), key=lambda c: c.value)
        progress(done + 1, len(depths) + 4)
    step = max(1, count // _DEPTHS // 3)
    near = [best.depth + i * step for i in (-2, -1, 1, 2)]
    for done, depth in enumerate(near):
        if 1 <= depth <= count and depth not in depths:
            best = max(best, search.at(depth), key=lambda c: c.value)
        progress(len(depths) + done + 1, len(depths) + 4)
    return max(best, search.at(best.depth, parts=len(search.ranked)), key=lambda c: c.value)


class _Search:
    def __init__(self, graph: Graph, ranked: list[Candidate], pool: int, bits: int) -> None:
        self.graph, self.ranked, self.pool, self.bits = graph, ranked, pool, bits
        self.layers = [n.name for n in trainable_layers(graph)]
        self._least = self._bytes(())

    def at(self, depth: int, parts: int = _PARTS) -> Chosen:
        """The best prefix of the candidates in the last `depth` layers that fits, to one part."""
        reached = set(self.layers[len(self.layers) - depth :])
        ranked = [c for c in self.ranked if c.layer in reached]
        count = self._most(ranked, max(1, len(ranked) // parts))
        taken = ranked[:count]
        return Chosen(self._plan(taken), sum(c.value for c in taken), depth)

    def _most(self, ranked: Sequence[Candidate], part: int) -> int:
        """How many of them fit, to a part: where the bytes that are left should be used up, from
        the last trial on; in the middle of what is not known every third time.
        """
        sums = np.cumsum([0, *(c.nbytes for c in ranked)])
        low, high, tried, need = 0, len(ranked) + 1, 0, self._least
        trials = 0
        while high - low > part:
            guess = int(np.searchsorted(sums, sums[tried] + self.pool - need, side="right")) - 1
            tried = (low + high) // 2 if trials % 3 == 2 else min(max(guess, low + 1), high - 1)
            need = self._bytes(ranked[:tried])
            low, high = (tried, high) if need <= self.pool else (low, tried)
            trials += 1
        return low

    def _bytes(self, taken: Sequence[Candidate]) -> int:
        return compile_program(self.graph, self._plan(taken)).pool_bytes

    def _plan(self, taken: Sequence[Candidate]) -> Plan:
        """Biases of layers whose weights train are in the state anyway: they train, too."""
        channels: dict[str, list[int]] = {}
        for c in taken:
            channels.setdefault(c.layer, []).extend(c.channels)
        weights = {n: tuple(sorted(channels[n])) for n in self.layers if channels.get(n)}
        return Plan(
            biases=tuple(n for n in self.layers if n in channels),
            weights=weights,
            fraction_bits=self.bits,
        )
