"""Which schemes there are for a network, and what each one costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mcutrain.compile import compile_program
from mcutrain.image.pack import pack
from mcutrain.ir.graph import Graph
from mcutrain.plan.published import published_network
from mcutrain.plan.scheme import resolve_scheme, trainable_layers
from mcutrain.report.accounting import Cost, cost_of

# Running layers again is tried where it has to save less than this share of the arena.
_HOPE = 0.15


@dataclass(frozen=True)
class Choice:
    """A scheme and what a training step of it costs."""

    scheme: str
    fraction_bits: int
    cost: Cost


def choice_of(
    graph: Graph, scheme: str, fraction_bits: int | None, pool: int | None = None
) -> Choice:
    """Compile a network with a scheme; `pool` as for `compile_program`.

    Raises:
        InputError: the scheme does not fit the network.
    """
    plan = resolve_scheme(graph, scheme, fraction_bits)
    compiled = compile_program(graph, plan, pool=pool)
    return Choice(scheme, plan.fraction_bits, cost_of(compiled, len(pack(compiled))))


def choices(
    graph: Graph, fraction_bits: int | None, pool: int, fits: Callable[[Choice], bool]
) -> Iterator[Choice]:
    """The schemes worth a look, from the smallest to the largest kind.

    `head`; of `bias:K` and `last:K` the largest K that fits, and the next one, which does not;
    `full`; then what was published for the network. What needs little more than `pool` bytes runs
    layers again.
    """
    for found in _schemes(graph, fraction_bits, fits):
        need, arena = found.cost.pool, found.cost.arena
        if pool < need < pool + _HOPE * arena:
            found = choice_of(graph, found.scheme, found.fraction_bits, pool)
        yield found


def _schemes(
    graph: Graph, fraction_bits: int | None, fits: Callable[[Choice], bool]
) -> Iterator[Choice]:
    layers = trainable_layers(graph)
    yield choice_of(graph, "head", fraction_bits)
    for kind in ("bias", "last"):
        yield from _largest(graph, kind, len(layers), fraction_bits, fits)
    yield choice_of(graph, "full", fraction_bits)
    network = published_network(graph, layers)
    for scheme in () if network is None else network.schemes:
        yield choice_of(graph, scheme, fraction_bits)


def _largest(
    graph: Graph, kind: str, layers: int, bits: int | None, fits: Callable[[Choice], bool]
) -> Iterator[Choice]:
    """By bisection: training one layer more never needs less state, and hardly ever less arena."""
    tried: dict[int, Choice] = {}
    low, high = 0, layers + 1  # low fits (nothing but the classifier), high does not
    while high - low > 1:
        middle = (low + high) // 2
        tried[middle] = choice_of(graph, f"{kind}:{middle}", bits)
        low, high = (middle, high) if fits(tried[middle]) else (low, middle)
    yield from (tried[k] for k in (low, high) if k in tried)
