"""Successive halving: all plans are tried, then the better half again, until one is left.

Jamieson and Talwalkar, "Non-stochastic Best Arm Identification and Hyperparameter Optimization",
2016, section 3. One plan stays to the end, whatever its place: it is known to be good, and another
one has to be better than it by more than chance.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from mcutrain.search.trials import FOLDS, Arm

KNOWN = 0  # the number of that plan
_ERRORS = 2.0
TURNS = 4  # every sample is held out so often
_ALL_RATES = tuple(2.0**k for k in range(-11, -5))

# From arms and the number of a trial to the share of right predictions of each.
Run = Callable[[Sequence[Arm], int], list[float]]


@dataclass(frozen=True)
class Standing:
    """A plan at the end of a race.

    Attributes:
        plan: its number.
        shares: of right predictions, trial by trial, as long as it was in the race.
        rate: the one of both with which it was right more often.
    """

    plan: int
    shares: tuple[float, ...]
    rate: float

    @property
    def accuracy(self) -> float:
        """The mean share."""
        return statistics.fmean(self.shares)


def race(plans: int, run: Run) -> list[Standing]:
    """Try plans against each other, each at two rates, which count alike: plans differ by less.

    Args:
        plans: how many there are.
        run: tries arms.

    Returns:
        All of them: the winner, then the others, those first that were in the race for longer.
    """
    rates = _two_rates(run)
    seen: dict[int, list[tuple[float, ...]]] = {plan: [] for plan in range(plans)}
    others = [plan for plan in seen if plan != KNOWN]
    for turn in range(TURNS):
        for number in range(turn * FOLDS, (turn + 1) * FOLDS):
            alive = [KNOWN, *others]
            shares = run([Arm(plan, rate) for plan in alive for rate in rates], number)
            for plan, both in zip(alive, zip(shares[::2], shares[1::2], strict=True), strict=True):
                seen[plan].append(both)
        others.sort(key=lambda plan: -sum(map(sum, seen[plan])))  # stable: the earlier of equals
        others = others[: (len(others) + 1) // 2]
    found = [_standing(plan, rates, shares) for plan, shares in seen.items()]
    known = found[KNOWN]
    found.sort(key=lambda one: (-len(one.shares), -one.accuracy))
    winner = found[0] if _is_better(found[0], known) else known
    return [winner, *(one for one in found if one is not winner)]


def _two_rates(run: Run) -> tuple[float, float]:
    """Neighbours with which the known plan is right most often."""
    trials = [run([Arm(KNOWN, rate) for rate in _ALL_RATES], number) for number in range(FOLDS)]
    sums = [sum(shares) for shares in zip(*trials, strict=True)]
    pairs = list(zip(pairwise(sums), pairwise(_ALL_RATES), strict=True))
    return max(pairs, key=lambda pair: sum(pair[0]))[1]


def _standing(plan: int, rates: tuple[float, float], seen: Sequence[tuple[float, ...]]) -> Standing:
    low, high = (sum(shares) for shares in zip(*seen, strict=True))
    shares = tuple(statistics.fmean(both) for both in seen)
    return Standing(plan, shares, rates[0] if low >= high else rates[1])


def _is_better(one: Standing, known: Standing) -> bool:
    """By so many standard errors of the mean difference; the best of five is one ahead by chance.

    That is the expected maximum of five standard normal numbers, 1.16.
    """
    differences = [a - b for a, b in zip(one.shares, known.shares, strict=True)]
    error = statistics.stdev(differences) / len(differences) ** 0.5
    return bool(statistics.fmean(differences) > _ERRORS * error)
