"""Plans that are worth a trial: by gradients, and what is known already, grown to fill the SRAM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from mcutrain.compile import compile_program
from mcutrain.ir.graph import Graph
from mcutrain.plan.plan import FRACTION_BITS, Plan
from mcutrain.plan.published import published_network
from mcutrain.plan.scheme import resolve_scheme, trainable_layers
from mcutrain.search.choose import choose, grow
from mcutrain.search.gradients import Scores

ALL_BITS = tuple(sorted(FRACTION_BITS, reverse=True))


@dataclass(frozen=True)
class Entry:
    """A plan that fits, and how it was made."""

    name: str
    plan: Plan


def shortlist(
    graph: Graph,
    scores: Scores,
    pool: int,
    all_bits: Sequence[int] = ALL_BITS,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> list[Entry]:
    """Different plans, at most two for each number of fraction bits; the first one is known best.

    Fewer bits leave room for more weights. One plan follows the gradients alone; the other is the
    largest named scheme that fits (a published one of this network, else `last:K`), and beside it
    what the gradients say. Published schemes were found by many trainings: they come first.

    Args:
        graph, scores, pool: as for `choose`.
        all_bits: numbers of fraction bits, the first one for the search of a depth.
        progress: told how much of that search is done.
    """
    chosen = choose(graph, scores, pool, all_bits[0], progress)
    computed = [Entry(_name("gradients", all_bits[0]), chosen.plan)]
    for bits in all_bits[1:]:
        plan = grow(graph, scores, pool, Plan(fraction_bits=bits), chosen.depth)
        computed.append(Entry(_name("gradients", bits), plan))
    named = []
    for bits in all_bits:
        scheme = _largest(graph, pool, bits)
        if scheme is not None:
            base = resolve_scheme(graph, scheme, bits)
            plan = grow(graph, scores, pool, base)
            named.append(Entry(_name(scheme if plan == base else f"{scheme} and more", bits), plan))
    published = published_network(graph, trainable_layers(graph)) is not None
    found = named + computed if published else computed + named
    return [e for i, e in enumerate(found) if not any(_same(e, other) for other in found[:i])]


def _same(one: Entry, other: Entry) -> bool:
    """Fraction bits are those of weights: without trained weights they change nothing."""
    a, b = one.plan, other.plan
    trains_weights = bool(a.weights or b.weights)
    return a == (b if trains_weights else replace(b, fraction_bits=a.fraction_bits))


def _name(what: str, bits: int) -> str:
    return f"{what}, {bits} bits"


def _largest(graph: Graph, pool: int, bits: int) -> str | None:
    """The largest named scheme that fits, None if no layer can train."""
    schemes = list(_named(graph))
    low, high = -1, len(schemes)  # each scheme needs more than the one before
    while high - low > 1:
        middle = (low + high) // 2
        plan = resolve_scheme(graph, schemes[middle], bits)
        fits = compile_program(graph, plan).pool_bytes <= pool
        low, high = (middle, high) if fits else (low, middle)
    return None if low < 0 else schemes[low]


def _named(graph: Graph) -> Iterator[str]:
    """Published schemes of the network; of others the last layers: by their size."""
    layers = trainable_layers(graph)
    network = published_network(graph, layers)
    if network is not None:
        yield from network.schemes
    else:
        yield from (f"last:{k + 1}" for k in range(len(layers)))
