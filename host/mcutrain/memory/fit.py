"""Depth-first search for a layout within given bytes, in the manner of MiniMalloc (Moffitt, 2023).

Buffers are placed in the order of their offsets, each as low as those before it allow. A branch
ends where, at some moment, what is still to be placed cannot fit above the lowest place left; and
a buffer is no candidate while another one fits wholly below it, for that one can go first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mcutrain.ir.program import Buffer

_FAR = 1 << 40
_ALIGN = 4

Key = Callable[[Buffer], tuple[int, ...]]
_Ints = npt.NDArray[np.int64]
_Flags = npt.NDArray[np.bool_]


@dataclass
class _Node:
    """What is open, where each buffer could lie at the lowest, and bytes to come by moment."""

    open: _Flags
    lowest: _Ints
    to_come: _Ints
    candidates: Iterator[int]
    placed: int = -1
    at: int = 0


def fit(buffers: Sequence[Buffer], capacity: int, key: Key, nodes: int) -> dict[str, int] | None:
    """Offsets by name that need at most `capacity` bytes; None if none were found.

    Args:
        buffers: at least one.
        key: candidates are tried in its order.
        nodes: how many placements are tried at most.
    """
    return _Fit(buffers, capacity, key).run(nodes)


class _Fit:
    def __init__(self, buffers: Sequence[Buffer], capacity: int, key: Key) -> None:
        self.buffers = buffers
        # Only the last buffer may end within a word.
        self.capacity = capacity + _ALIGN - 1
        self.sizes = np.array([-(-b.nbytes // _ALIGN) * _ALIGN for b in buffers], np.int64)
        self.exact = np.array([b.nbytes for b in buffers], np.int64)
        self.limit = capacity
        moments = sorted({b.first for b in buffers})
        alive = np.array([[b.first <= t <= b.last for t in moments] for b in buffers])
        self.alive = alive[:, _maximal(alive)]
        self.rivals = (self.alive.astype(np.int64) @ self.alive.T.astype(np.int64)) > 0
        self.far = np.where(self.alive, 0, _FAR)
        order = sorted(range(len(buffers)), key=lambda i: key(buffers[i]))
        self.rank = np.argsort(np.array(order))

    def run(self, nodes: int) -> dict[str, int] | None:
        everything = np.ones(len(self.buffers), np.bool_)
        start = np.zeros(len(self.buffers), np.int64)
        to_come = (self.alive * self.sizes[:, None]).sum(axis=0)
        path = [_Node(everything, start, to_come, self._candidates(everything, start))]
        for _ in range(nodes):
            index = next(path[-1].candidates, None)
            if index is None:
                path.pop()
                if not path:
                    return None
                continue
            node = self._place(path[-1], index)
            if node is not None:
                path.append(node)
                if not node.open.any():
                    return {self.buffers[n.placed].name: n.at for n in path[1:]}
        return None

    def _candidates(self, still_open: _Flags, lowest: _Ints) -> Iterator[int]:
        below = (lowest + self.sizes)[still_open].min()
        found = np.flatnonzero(still_open & (lowest < below))
        return iter(found[np.argsort(self.rank[found])].tolist())

    def _place(self, node: _Node, index: int) -> _Node | None:
        at = int(node.lowest[index])
        if at + self.exact[index] > self.limit:
            return None
        still_open = node.open.copy()
        still_open[index] = False
        lowest = np.maximum(node.lowest, at)
        rivals = self.rivals[index] & still_open
        lowest[rivals] = np.maximum(lowest[rivals], at + self.sizes[index])
        to_come = node.to_come - self.alive[index] * self.sizes[index]
        if not still_open.any():
            return _Node(still_open, lowest, to_come, iter(()), index, at)
        floor = (lowest[:, None] + self.far)[still_open].min(axis=0)
        if ((to_come > 0) & (floor + to_come > self.capacity)).any():
            return None
        return _Node(still_open, lowest, to_come, self._candidates(still_open, lowest), index, at)


def _maximal(alive: _Flags) -> list[int]:
    """The moments whose sets of live buffers lie in no other one's."""
    kept: list[int] = []
    sets = [frozenset(np.flatnonzero(column).tolist()) for column in alive.T]
    for i, mine in enumerate(sets):
        if not any(mine < other for other in sets) and mine not in sets[:i]:
            kept.append(i)
    return kept
