"""Offsets for a list of buffers: greedy by size, then local search on the order, near the lower
bound.

Dynamic storage allocation is NP-hard; first fit in a good order is nearly always at the bound for
networks. The search moves a buffer that ends at the arena's top before one it conflicts with, and
keeps what is not worse.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from mcutrain.ir.program import Buffer

_ALIGN = 4
_TRIES = 400

Solution = tuple[dict[str, int], int]


def lower_bound(buffers: Sequence[Buffer]) -> int:
    """Bytes of the largest set of buffers alive at one instruction: no layout can be smaller.

    All but one of such a set end at a multiple of 4.
    """
    best = 0
    for at in {b.first for b in buffers}:
        live = [b.nbytes for b in buffers if b.first <= at <= b.last]
        padding = [_aligned(n) - n for n in live]
        best = max(best, sum(live) + sum(padding) - max(padding))
    return best


def solve(buffers: Sequence[Buffer], seed: int = 0) -> Solution:
    """Offsets by name and the arena's bytes. The same input gives the same layout."""
    if not buffers:
        return {}, 0
    bound = lower_bound(buffers)
    best_order: list[Buffer] = []
    best: Solution | None = None
    for key in _ORDERS:
        order = sorted(buffers, key=key)
        result = first_fit(order)
        if best is None or result[1] < best[1]:
            best, best_order = result, order
    assert best is not None  # there is at least one order
    rng = random.Random(seed)
    order, current = best_order, best
    for _ in range(_TRIES):
        if best[1] <= bound:
            break
        candidate = _move_top_earlier(order, current, rng)
        result = first_fit(candidate)
        if result[1] <= current[1]:
            order, current = candidate, result
        if result[1] < best[1]:
            best = result
    return best


def first_fit(order: Sequence[Buffer]) -> Solution:
    """Place each buffer at the lowest offset where nothing placed before is alive with it."""
    offsets: dict[str, int] = {}
    placed: list[Buffer] = []
    top = 0
    for buffer in order:
        busy = sorted(
            (offsets[p.name], offsets[p.name] + p.nbytes)
            for p in placed
            if p.first <= buffer.last and buffer.first <= p.last
        )
        at = 0
        for start, end in busy:
            if at + buffer.nbytes <= start:
                break
            at = max(at, _aligned(end))
        offsets[buffer.name] = at
        placed.append(buffer)
        top = max(top, at + buffer.nbytes)
    return offsets, top


def _move_top_earlier(
    order: Sequence[Buffer], current: Solution, rng: random.Random
) -> list[Buffer]:
    offsets, top = current
    at_top = [i for i, b in enumerate(order) if offsets[b.name] + b.nbytes == top]
    index = rng.choice(at_top)
    changed = list(order)
    buffer = changed.pop(index)
    changed.insert(rng.randrange(index) if index else 0, buffer)
    if rng.random() < 0.3 and len(changed) > 1:
        i, j = rng.sample(range(len(changed)), 2)
        changed[i], changed[j] = changed[j], changed[i]
    return changed


def _aligned(nbytes: int) -> int:
    return (nbytes + _ALIGN - 1) // _ALIGN * _ALIGN


_ORDERS: tuple[Callable[[Buffer], tuple[int, ...]], ...] = (
    lambda b: (-b.nbytes, b.first),
    lambda b: (-b.nbytes * (b.last - b.first + 1), b.first),
    lambda b: (-(b.last - b.first), -b.nbytes),
    lambda b: (b.first, -b.nbytes),
)
