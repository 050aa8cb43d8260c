"""Training runs on the host engine alone: no files, no link, many of them from one cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from itertools import islice
from typing import Any

import numpy as np

from mcutrain.engine.cached import CachedEngine
from mcutrain.trainer.prefix import PrefixCache, PrefixPart
from mcutrain.trainer.schedule import Schedule, visits
from mcutrain.trainer.steps import Evaluation

Log = Callable[[dict[str, Any]], None]
Prefixes = PrefixCache | PrefixPart


class HostRun:
    """Trains and evaluates; order, views and random bits are those of `mcutrain train`.

    Args:
        engine: the network; its state is what trains.
        training: samples to train on.
        test: samples to evaluate with.
    """

    def __init__(
        self, engine: CachedEngine, training: Prefixes, test: Prefixes | None = None
    ) -> None:
        self.engine = engine
        self._training, self._test = training, test

    def train(self, schedule: Schedule, seed: int = 0, log: Log | None = None) -> None:
        """Start from the image's initial state and take all steps of the schedule.

        Args:
            schedule: rates and number of steps.
            seed: of the order, the views and the random bits.
            log: called with a record of each step.

        Raises:
            DivergedError: a logit or an error is not finite.
        """
        samples = self._training
        self.engine.reset(seed)
        order = islice(visits(len(samples), seed, samples.views), schedule.steps)
        for step, (index, view) in enumerate(order):
            rate, label = schedule.at(step), int(samples.labels[index])
            prefix = samples(index, view)
            result = self.engine.train(prefix, label, rate, rate * schedule.head_factor)
            if log is not None:
                where = {"number": step, "sample": index, "view": view, "label": label}
                log({**where, "rate": rate, **asdict(result)})

    def evaluate(self, samples: Prefixes | None = None) -> Evaluation:
        """How often the present state is right, on the test samples or on others."""
        samples = samples or self._test
        assert samples is not None, "a run without test samples needs some to evaluate with"
        labels = samples.labels
        classes = int(self.engine.image.header["classes"])
        confusion = np.zeros((classes, classes), np.int64)
        for index, label in enumerate(labels.tolist()):
            confusion[label, int(self.engine.forward(samples(index)).argmax())] += 1
        return Evaluation(int(np.trace(confusion)), len(labels), confusion)

    def accuracy(self, samples: Prefixes | None = None) -> float:
        """Share of right predictions, as `evaluate`."""
        return self.evaluate(samples).accuracy
