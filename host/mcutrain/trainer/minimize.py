"""Smooth functions of many numbers: L-BFGS (Nocedal and Wright, algorithms 7.4 and 7.5)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Function = Callable[[Floats], tuple[float, Floats]]

_MEMORY = 10
_SUFFICIENT = 1e-4  # share of the promised decrease that a step must bring
_HALVINGS = 40


def minimize(
    function: Function, start: Floats, tolerance: float = 1e-6, iterations: int = 300
) -> Floats:
    """Where a function has its minimum, near enough.

    Args:
        function: value and gradient at a point (n,).
        start: (n,).
        tolerance: the largest element of the gradient, in magnitude, that ends the search.
        iterations: at most so many.
    """
    point = start.astype(np.float64)
    value, gradient = function(point)
    pairs: deque[tuple[Floats, Floats]] = deque(maxlen=_MEMORY)
    for _ in range(iterations):
        if np.abs(gradient).max() < tolerance:
            break
        direction = _direction(gradient, pairs)
        slope = float(direction @ gradient)
        length = 1.0 if pairs else min(1.0, 1.0 / float(np.abs(gradient).sum()))
        for _ in range(_HALVINGS):
            there = point + length * direction
            lower, next_gradient = function(there)
            if lower <= value + _SUFFICIENT * length * slope:
                break
            length /= 2
        else:
            break  # as low as binary64 can tell
        step, change = there - point, next_gradient - gradient
        if float(step @ change) > 1e-12 * float(change @ change):
            pairs.append((step, change))
        point, value, gradient = there, lower, next_gradient
    return point


def _direction(gradient: Floats, pairs: deque[tuple[Floats, Floats]]) -> Floats:
    """Minus the inverse Hessian, as the last steps show it, times the gradient."""
    direction = -gradient
    weights = []
    for step, change in reversed(pairs):
        weight = float(step @ direction) / float(step @ change)
        direction = direction - weight * change
        weights.append(weight)
    if pairs:
        step, change = pairs[-1]
        direction = direction * (float(step @ change) / float(change @ change))
    for (step, change), weight in zip(pairs, reversed(weights), strict=True):
        back = float(change @ direction) / float(step @ change)
        direction = direction + (weight - back) * step
    return direction
