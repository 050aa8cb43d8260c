"""Training and evaluation, sample by sample, on whatever device."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice, pairwise
from typing import Any

import numpy as np

from mcutrain.data import Dataset
from mcutrain.ir.graph import Array
from mcutrain.link import Device, LooksAhead
from mcutrain.trainer.encode import Encode
from mcutrain.trainer.schedule import Schedule, visits

# From the number of a sample and that of its view to the bytes that a device takes.
Inputs = Callable[[int, int], bytes]


@dataclass(frozen=True)
class Evaluation:
    """Accuracy on a data set; `confusion[label, predicted]` counts samples."""

    correct: int
    total: int
    confusion: Array

    @property
    def accuracy(self) -> float:
        """Share of right predictions, in [0, 1]."""
        return self.correct / self.total

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "accuracy": self.accuracy,
            "correct": self.correct,
            "total": self.total,
            "confusion": self.confusion.tolist(),
        }


def inputs_of(data: Dataset, encode: Encode) -> Inputs:
    """The bytes of the network's input, made anew each time."""
    return lambda index, view: encode(data.sample(index, view))


def evaluate(device: Device, data: Dataset, inputs: Inputs) -> Iterator[tuple[int, Evaluation]]:
    """Run a data set through the network on the device.

    Args:
        device: an open device.
        data: samples and labels.
        inputs: the bytes of each sample that the device takes.

    Yields:
        After each sample the number done, and the evaluation so far.
    """
    confusion = np.zeros((0, 0), np.int64)
    for index in range(len(data)):
        result = device.predict(inputs(index, 0))
        if not index:
            confusion = np.zeros((len(result.logits),) * 2, np.int64)
        confusion[int(data.y[index]), result.predicted] += 1
        yield index + 1, Evaluation(int(np.trace(confusion)), index + 1, confusion)


def train(
    device: Device,
    data: Dataset,
    inputs: Inputs,
    schedule: Schedule,
    *,
    seed: int = 0,
    start: int = 0,
    learnt: float = 0.0,
) -> Iterator[dict[str, Any]]:
    """Train step by step, on the views of the data in turn.

    The caller may stop between steps, save the device's state, and go on later with `start`.

    Args:
        device: an open device.
        data: labels, and how many samples and views there are.
        inputs: the bytes of each view of a sample that the device takes.
        schedule: rates and number of steps.
        seed: of the order.
        start: the first step.
        learnt: samples with a smaller loss change nothing but the count of steps.

    Yields:
        A record of each step: its number from 0, sample, view, label, rate, seconds, and what the
        device says of it.
    """
    order = islice(visits(len(data), seed, data.views), start, None)
    sample = b""
    for step, ((index, view), then) in zip(
        range(start, schedule.steps), pairwise(order), strict=False
    ):
        rate = schedule.at(step)
        label = int(data.y[index])
        began = time.monotonic()
        sample = sample or inputs(index, view)
        following = b""
        if isinstance(device, LooksAhead) and step + 1 < schedule.steps:
            following = inputs(*then)
            device.announce(following)
        rates = rate, rate * schedule.head_factor
        result = device.train_step(sample, label, *rates, learnt)
        sample = following
        yield {
            "kind": "step",
            "number": step,
            "sample": index,
            "view": view,
            "label": label,
            "rate": rate,
            "seconds": round(time.monotonic() - began, 6),
            **asdict(result),
        }
