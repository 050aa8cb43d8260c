"""Successive halving: all plans are tried, then the better half again, until one is left.

Jamieson and Talwalkar, "Non-stochastic Best Arm Identification and Hyperparameter Optimization",
2016, section 3. One plan stays to the end, whatever its place: it is known to be good, and another
one has to be better than it by more than chance.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mcutrain.search.rates import best_rate
from mcutrain.search.trials import FOLDS, Arm

KNOWN = 0  # the number of that plan
TURNS = 4  # every sample is held out so often
_FIRST_RATES = tuple(2.0**k for k in range(-11, -5))

# From arms and the number of a trial to the share of right predictions of each.
Run = Callable[[Sequence[Arm], int], list[float]]


@dataclass(frozen=True)
class Standing:
    """An arm and its shares of right predictions, trial by trial, as long as it was in the race."""

    arm: Arm
    shares: tuple[float, ...]

    @property
    def accuracy(self) -> float:
        """The mean share."""
        return statistics.fmean(self.shares)


def race(plans: int, run: Run) -> list[Standing]:
    """Try plans against each other.

    Trial 0 chooses a rate, the others decide between the plans.

    Args:
        plans: how many there are.
        run: tries arms.

    Returns:
        All of them: the winner, then the others, those first that were in the race for longer.
    """
    rate = _rate(plans, run)
    alive = [Arm(plan, rate) for plan in range(plans)]
    shares: dict[Arm, list[float]] = {arm: [] for arm in alive}
    known, others = alive[KNOWN], alive[:KNOWN] + alive[KNOWN + 1 :]
    for turn in range(TURNS):
        for number in range(turn * FOLDS + 1, (turn + 1) * FOLDS + 1):
            alive = [known, *others]
            for arm, share in zip(alive, run(alive, number), strict=True):
                shares[arm].append(share)
        others.sort(key=lambda arm: -sum(shares[arm]))  # stable: the earlier one of equals
        others = others[: (len(others) + 1) // 2]
    found = [Standing(arm, tuple(s)) for arm, s in shares.items()]
    found.sort(key=lambda one: (-len(one.shares), -one.accuracy))
    last = next(one for one in found if one.arm == known)
    winner = found[0] if _is_better(found[0], last) else last
    return [winner, *(one for one in found if one is not winner)]


def _rate(plans: int, run: Run) -> float:
    """The best one of three for all plans together, around the one that is best for the known plan.

    A rate for each plan, chosen by single results, would mostly follow chance.
    """
    first = [Arm(KNOWN, rate) for rate in _FIRST_RATES]
    middle = best_rate(_FIRST_RATES, run(first, 0))
    rates = [middle / 2, middle, middle * 2]
    return best_rate(
        rates,
        [statistics.fmean(run([Arm(plan, rate) for plan in range(plans)], 0)) for rate in rates],
    )


def _is_better(one: Standing, known: Standing) -> bool:
    """By more than a standard error of the mean difference."""
    differences = [a - b for a, b in zip(one.shares, known.shares, strict=True)]
    error = statistics.stdev(differences) / len(differences) ** 0.5
    return statistics.fmean(differences) > error
