"""Which learning rate of several is best, where chance moves single results."""

from __future__ import annotations

from collections.abc import Sequence


def best_rate(rates: Sequence[float], accuracies: Sequence[float]) -> float:
    """The rate with the highest accuracy, averaged with its neighbours' by 1/4, 1/2, 1/4.

    Some hundred samples tell neighbours apart by chance only; an end stands for what is beyond it.

    Args:
        rates: ascending, each as many times the one before.
        accuracies: one for each.
    """
    before, after = [accuracies[0], *accuracies[:-1]], [*accuracies[1:], accuracies[-1]]
    smooth = [a + 2 * b + c for a, b, c in zip(before, accuracies, after, strict=True)]
    return rates[smooth.index(max(smooth))]
