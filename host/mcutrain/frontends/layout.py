"""Frameworks store maps as CHW, the graph as HWC: where that shows, and what a flatten means.

A traced value is a tensor of the graph plus the shape that the framework sees. After a flatten its
elements stand in another order than the framework thinks; `Value.order` carries the difference to
the next linear layer, whose weight columns take it over, so that no data ever moves on the chip.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mcutrain.ir.graph import Shape

Order = npt.NDArray[np.intp]
Pad = tuple[int, int, int, int]
NO_PAD: Pad = (0, 0, 0, 0)


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor of the graph as the framework sees it.

    Attributes:
        tensor: name in the graph.
        shape: the framework's shape without the batch: (C, H, W), (C, L) or (n,).
        order: (n,) values only: each element's place in the graph's tensor; None: the same.
        pad: zeros (top, left, bottom, right) still to be added by the layer that reads it.
    """

    tensor: str
    shape: tuple[int, ...]
    order: Order | None = None
    pad: Pad = NO_PAD


def map_shape(shape: Sequence[int]) -> Shape | None:
    """The (H, W, C) of a framework's (C, H, W), (C, L) or (n,); None if there is none."""
    if not 1 <= len(shape) <= 3 or min(shape) < 1:
        return None
    c, h, w = (*shape, 1, 1)[:3]
    return (h, w, c)


def flat_order(shape: Shape) -> Order:
    """For each element in CHW order, its place in HWC order."""
    places = np.arange(math.prod(shape), dtype=np.intp)
    return places.reshape(shape).transpose(2, 0, 1).ravel()


def reshaped(value: Value, shape: tuple[int, ...]) -> Value | None:
    """The value under another shape, the tensor's bytes where they are.

    Returns:
        None if bytes would have to move. The tensor is still the old one.
    """
    old, new = map_shape(value.shape), map_shape(shape)
    if old is None or new is None:
        return None
    order = flat_order(old) if value.order is None else value.order
    if np.array_equal(order, flat_order(new)):
        return Value(value.tensor, shape)
    return Value(value.tensor, shape, order) if len(shape) == 1 else None
