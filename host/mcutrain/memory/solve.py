"""Offsets for a list of buffers, near the lower bound: greedy, a bounded tree search, local search.

Dynamic storage allocation is NP-hard. First fit in some simple order often meets the lower bound;
else the tree search (`fit`) nearly always does, in a hundred steps or never, or comes within 0.3 %
of it; what is left is improved by moving buffers that end above the bound, and what they meet, in
the order of first fit.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mcutrain.ir.program import Buffer, aligned
from mcutrain.memory.fit import fit

_ALIGN = 4
_NODES = 1500  # of each tree search
_SLACK = (0.001, 0.003)  # shares of the bound that a layout may be above it, where none meets it
_WORK = 2_000_000  # pairs of buffers that the local search looks at: about a second
_RIVAL = 0.3  # how often it moves a rival of a buffer that is too high

Solution = tuple[dict[str, int], int]


def lower_bound(buffers: Sequence[Buffer]) -> int:
    """Bytes of the largest set of buffers alive at one instruction: no layout can be smaller.

    All but one of such a set end at a multiple of 4.
    """
    best = 0
    for at in {b.first for b in buffers}:
        live = [b.nbytes for b in buffers if b.first <= at <= b.last]
        padding = [aligned(n) - n for n in live]
        best = max(best, sum(live) + sum(padding) - max(padding))
    return best


def solve(buffers: Sequence[Buffer], seed: int = 0) -> Solution:
    """Offsets by name and the arena's bytes. The same input gives the same layout."""
    if not buffers:
        return {}, 0
    found = solve_at_bound(buffers)
    if found is not None:
        return found
    bound = lower_bound(buffers)
    for slack in _SLACK:
        found = _by_tree(buffers, int(bound * (1 + slack)), _NODES)
        if found is not None:
            return found
    search = _Search(buffers, bound, seed)
    layout = search.improve(search.start())
    return {b.name: at for b, at in zip(buffers, layout.offsets, strict=True)}, layout.top


def solve_at_bound(buffers: Sequence[Buffer], nodes: int = _NODES) -> Solution | None:
    """A layout of no more than the lower bound, None if it is not found soon.

    Args:
        buffers: at least one.
        nodes: of each tree search.
    """
    bound = lower_bound(buffers)
    search = _Search(buffers, bound, 0)
    start = search.start()
    if start.top <= bound:
        return {b.name: at for b, at in zip(buffers, start.offsets, strict=True)}, start.top
    return _by_tree(buffers, bound, nodes)


def _by_tree(buffers: Sequence[Buffer], limit: int, nodes: int) -> Solution | None:
    for key in _tree_orders(buffers):
        offsets = fit(buffers, limit, key, nodes)
        if offsets is not None:
            return offsets, max(offsets[b.name] + b.nbytes for b in buffers)
    return None


def first_fit_top(buffers: Sequence[Buffer]) -> int:
    """Bytes that first fit needs at its best; never below what `solve` needs."""
    return _Search(buffers, 0, 0).start().top


def _tree_orders(buffers: Sequence[Buffer]) -> Sequence[Callable[[Buffer], tuple[int, ...]]]:
    """What lives at the fullest moments first, then what lives long; and two plainer orders."""
    moments = sorted({b.first for b in buffers})
    full = {t: sum(b.nbytes for b in buffers if b.first <= t <= b.last) for t in moments}
    fullest = {b: max(full[t] for t in moments if b.first <= t <= b.last) for b in buffers}
    return (
        lambda b: (-fullest[b], b.first - b.last, -b.nbytes),
        lambda b: (-b.nbytes * (b.last - b.first + 1), b.first),
        lambda b: (b.first - b.last, -b.nbytes),
    )


@dataclass(frozen=True)
class _Layout:
    """Buffers placed in an order, each at the lowest offset that is free; `over` sums what ends
    above the bound.
    """

    order: list[int]
    offsets: list[int]
    top: int
    over: int


class _Search:
    def __init__(self, buffers: Sequence[Buffer], bound: int, seed: int) -> None:
        self.buffers = buffers
        self.bound = bound
        self.sizes = [b.nbytes for b in buffers]
        self.rivals = [
            [j for j, o in enumerate(buffers) if o is not b and _together(b, o)] for b in buffers
        ]
        self.rng = random.Random(seed)

    def start(self) -> _Layout:
        """First fit in the best of some simple orders."""
        every = range(len(self.buffers))
        ranks = [[key(b) for b in self.buffers] for key in _ORDERS]
        return min((self._place(sorted(every, key=r.__getitem__)) for r in ranks), key=_top)

    def improve(self, best: _Layout) -> _Layout:
        """Move buffers that are too high while there is time."""
        current = best
        tries = _WORK // (1 + sum(len(r) for r in self.rivals))
        for _ in range(tries):
            if best.top <= self.bound:
                break
            found = self._place(self._moved(current))
            if found.over <= current.over:
                current = found
            if found.top < best.top:
                best = found
        return best

    def _place(self, order: list[int]) -> _Layout:
        offsets, sizes = [-1] * len(order), self.sizes
        top = over = 0
        for index in order:
            busy = sorted([(offsets[j], sizes[j]) for j in self.rivals[index] if offsets[j] >= 0])
            at, size = 0, sizes[index]
            for start, length in busy:
                if at + size <= start:
                    break
                at = max(at, (start + length + 3) & -_ALIGN)
            offsets[index] = at
            top = max(top, at + size)
            over += max(0, at + size - self.bound)
        return _Layout(order, offsets, top, over)

    def _moved(self, current: _Layout) -> list[int]:
        """A buffer above the bound, or a rival of one, goes before or changes with another one."""
        rng, ends = self.rng, zip(current.offsets, self.sizes, strict=True)
        index = rng.choice([i for i, (at, size) in enumerate(ends) if at + size > self.bound])
        if rng.random() < _RIVAL and self.rivals[index]:
            index = rng.choice(self.rivals[index])
        order = current.order.copy()
        place = {buffer: i for i, buffer in enumerate(order)}
        here = place[index]
        before = [place[j] for j in self.rivals[index] if place[j] < here]
        there = rng.choice(before) if before and rng.random() < 0.5 else rng.randrange(here + 1)
        if rng.random() < 0.5:
            order.insert(there, order.pop(here))
        else:
            order[here], order[there] = order[there], order[here]
        return order


_ORDERS: tuple[Callable[[Buffer], tuple[int, ...]], ...] = (
    lambda b: (-b.nbytes, b.first),
    lambda b: (b.first - b.last, -b.nbytes),
    lambda b: (-b.nbytes * (b.last - b.first + 1), b.first),
    lambda b: (b.first, -b.nbytes),
)


def _top(layout: _Layout) -> int:
    return layout.top


def _together(a: Buffer, b: Buffer) -> bool:
    return a.first <= b.last and b.first <= a.last
