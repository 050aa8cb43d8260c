"""Which sample each step trains on, and at which rate: both follow from seeds alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mcutrain.errors import InputError

MAX_STEPS = 2**32 - 1  # the device counts them in 32 bits
_MAX_RATE = float(np.finfo(np.float32).max)  # a device takes binary32


@dataclass(frozen=True)
class Schedule:
    """The learning rate of each step: linear warm-up, then a cosine to 0 or a constant.

    Attributes:
        rate: the highest rate, for one sample.
        steps: all training steps.
        warmup: share of the steps in which the rate rises.
        cosine: whether it falls afterwards.
        head_factor: the classifier's rate is this many times as high.
    """

    rate: float
    steps: int
    warmup: float = 0.1
    cosine: bool = True
    head_factor: float = 1.0

    def __post_init__(self) -> None:
        hint = "usual rates are 0.001 to 0.1"
        for name, value in (("rate", self.rate), ("head-factor", self.head_factor)):
            if not (math.isfinite(value) and value >= 0):
                raise InputError(
                    "must be finite and not negative", where=name, why=f"got {value}", hint=hint
                )
        for name, value in (("rate", self.rate), ("head-factor", self.rate * self.head_factor)):
            if value > _MAX_RATE:
                raise InputError(
                    "the learning rate is too large for a device",
                    where=name,
                    why=f"{value:g} is no float32",
                    hint=hint,
                )
        if not 0 <= self.warmup <= 1:
            raise InputError(
                "the warm-up is a share of the steps",
                where="warmup",
                why=f"got {self.warmup}",
                hint="0 to 1, for example 0.1",
            )
        if not 0 <= self.steps <= MAX_STEPS:
            raise InputError(
                f"the number of steps must lie between 0 and {MAX_STEPS}",
                where="steps",
                why=f"got {self.steps}",
                hint="--steps N, or fewer --epochs",
            )

    def at(self, step: int) -> float:
        """The rate of step 0, 1, ..., steps - 1."""
        rising = round(self.warmup * self.steps)
        if step < rising:
            return self.rate * (step + 1) / rising
        if not self.cosine:
            return self.rate
        return self.rate * 0.5 * (1 + math.cos(math.pi * (step - rising) / (self.steps - rising)))


def order_of(samples: int, seed: int) -> Iterator[int]:
    """Which sample each step trains on, without end: a fresh shuffle an epoch."""
    rng = np.random.Generator(np.random.PCG64(seed))
    while True:
        yield from map(int, rng.permutation(samples))


def visits(samples: int, seed: int, views: int = 1) -> Iterator[tuple[int, int]]:
    """Sample and view of each step, without end: samples as `order_of` has them.

    A sample's views come in turn, from one epoch to the next, from a start of its own on.
    """
    first = np.random.Generator(np.random.PCG64([seed, 1])).integers(views, size=samples)
    for step, index in enumerate(order_of(samples, seed)):
        yield index, (int(first[index]) + step // samples) % views
