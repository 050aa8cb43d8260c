"""The plan with the largest score that fits: layers and input channels by score per byte.

The score of a plan is the sum over its layers of gradient norms, not of their squares: the most
that a step can win when no layer may move by more than a given length. So the first channels of a
layer count most, and bytes spread over more layers than the few with the largest gradients.

Bytes rank the candidates; what decides is the SRAM of the compiled program. How deep the backward
pass may reach is tried out, because it costs masks and errors whatever trains there; within a depth
as many candidates are taken as fit. It reaches back half of the layers, farther only if all of
those can train: gradients are larger nearer to the input, but what trains there wins less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mcutrain.compile import compile_program
from mcutrain.ir.graph import Graph, Node
from mcutrain.plan.plan import Plan, input_channels, is_depthwise
from mcutrain.plan.scheme import trainable_layers
from mcutrain.search.gradients import Scores

_DEPTHS = 8  # tried over the whole network, before the best one's neighbourhood
_PARTS = 50  # of the candidates that fit, while depths are compared


@dataclass(frozen=True)
class Candidate:
    """Something that can train or not.

    Attributes:
        channels: input channels of the layer's weights; () stands for its biases.
        value: by how much it raises the layer's gradient norm, after the better ones.
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
            squares = sorted(_of_layer(graph, node, scores, fraction_bits), key=_rank)
            sums = np.sqrt(np.cumsum([0.0, *(c.value for c in squares)]))
            found += [
                replace(c, value=float(v)) for c, v in zip(squares, np.diff(sums), strict=True)
            ]
    return sorted(found, key=_rank)


def _rank(candidate: Candidate) -> tuple[float, str, tuple[int, ...]]:
    return -candidate.value / candidate.nbytes, candidate.layer, candidate.channels


def _of_layer(graph: Graph, node: Node, scores: Scores, bits: int) -> Iterator[Candidate]:
    """Candidates whose values are squares."""
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
    search = _Search(graph, scores, pool, Plan(fraction_bits=fraction_bits))
    count = len(trainable_layers(graph))
    half = (count + 1) // 2
    best = _tried(search, range(1, half + 1), progress)
    if search.all_fit(half):
        deeper = _tried(search, range(half + 1, count + 1), progress)
        best = max(best, deeper, key=lambda c: c.value)
    return max(best, search.at(best.depth, parts=None), key=lambda c: c.value)


def grow(graph: Graph, scores: Scores, pool: int, base: Plan, depth: int | None = None) -> Plan:
    """A plan that fits, and the best candidates beside it, as many as fit.

    Args:
        graph, scores, pool: as for `choose`.
        base: what trains in any case.
        depth: how many layers it may reach back; None: as many as `base` does.
    """
    search = _Search(graph, scores, pool, base)
    return search.at(search.base_depth if depth is None else depth, parts=None).plan


def _tried(search: _Search, depths: range, progress: Callable[[int, int], None]) -> Chosen:
    """The best of some depths all over the range and around the best of those."""
    if not depths:
        return Chosen(search.base, 0.0, 0)
    count = len(depths)
    some = [depths[0] + max(1, round(count * (i + 1) / _DEPTHS)) - 1 for i in range(_DEPTHS)]
    tried: dict[int, Chosen] = {0: Chosen(search.base, 0.0, 0)}

    def best_with(more: list[int], done: int) -> Chosen:
        for depth in more:
            if depth in depths and depth not in tried:
                tried[depth] = search.at(depth)
            done += 1
            progress(done, _DEPTHS + 4)
        return max(tried.values(), key=lambda c: c.value)

    best, step = best_with(some, 0), max(1, count // _DEPTHS // 3)
    return best_with([best.depth + i * step for i in (-2, -1, 1, 2)], _DEPTHS)


class _Search:
    """What may train beside a plan, and how much of it fits."""

    def __init__(self, graph: Graph, scores: Scores, pool: int, base: Plan) -> None:
        self.graph, self.pool, self.base = graph, pool, base
        found = candidates(graph, scores, base.fraction_bits)
        self.ranked = [c for c in found if not _trains(base, c)]
        self.layers = [n.name for n in trainable_layers(graph)]
        self._least = self._bytes(())

    @property
    def base_depth(self) -> int:
        """How many layers the base reaches back."""
        trained = {*self.base.biases, *self.base.weights}
        return max((len(self.layers) - self.layers.index(name) for name in trained), default=0)

    def at(self, depth: int, parts: int | None = _PARTS) -> Chosen:
        """The best candidates in the last `depth` layers, as many as fit; of `parts` parts of them
        the last one may be left out, if that is a number.
        """
        ranked = self._reached(depth)
        count = self._most(ranked, parts)
        taken = ranked[:count]
        return Chosen(self._plan(taken), sum(c.value for c in taken), depth)

    def all_fit(self, depth: int) -> bool:
        """Whether all of the last `depth` layers can train."""
        return self._bytes(self._reached(depth)) <= self.pool

    def _reached(self, depth: int) -> list[Candidate]:
        reached = set(self.layers[len(self.layers) - depth :])
        return [c for c in self.ranked if c.layer in reached]

    def _most(self, ranked: Sequence[Candidate], parts: int | None) -> int:
        """How many of them fit, to a part: where the bytes that are left should be used up, from
        the last trial on; in the middle of what is not known every third time.
        """
        sums = np.cumsum([0, *(c.nbytes for c in ranked)])
        low, high, tried, need = 0, len(ranked) + 1, 0, self._least
        trials = 0
        while high - low > (1 if parts is None else max(1, low // parts)):
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
        channels = {name: set(there) for name, there in self.base.weights.items()}
        biases = set(self.base.biases)
        for c in taken:
            channels.setdefault(c.layer, set()).update(c.channels)
            biases.add(c.layer)
        weights = {n: tuple(sorted(channels[n])) for n in self.layers if channels.get(n)}
        return replace(
            self.base, biases=tuple(n for n in self.layers if n in biases), weights=weights
        )


def _trains(plan: Plan, candidate: Candidate) -> bool:
    if not candidate.channels:
        return candidate.layer in plan.biases
    return set(candidate.channels) <= set(plan.weights.get(candidate.layer, ()))
