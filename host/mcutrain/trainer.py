"""Train and evaluate: samples and a device in, trained state and telemetry out.

The device is anything with the methods of `mcutrain.link.device.Device`: the firmware app in this process, on an
emulator, or on a board. Order, rates and random bits follow from seeds alone, so that a run that was
interrupted and resumed ends with the bytes of one that was not.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mcutrain.data import Dataset
from mcutrain.errors import InputError
from mcutrain.files import write_atomic
from mcutrain.ir.graph import Array
from mcutrain.link import Device

Log = Callable[[Mapping[str, Any]], None]


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
        for name, value in (("rate", self.rate), ("head_factor", self.head_factor)):
            if not (math.isfinite(value) and value >= 0):
                raise InputError(f"{name} must be finite and not negative, got {value}", where=name)
        if not 0 <= self.warmup <= 1:
            raise InputError(f"warm-up is a share of the steps, got {self.warmup}", where="warmup")

    def at(self, step: int) -> float:
        """The rate of step 0, 1, ..., steps - 1."""
        rising = round(self.warmup * self.steps)
        if step < rising:
            return self.rate * (step + 1) / rising
        if not self.cosine:
            return self.rate
        return self.rate * 0.5 * (1 + math.cos(math.pi * (step - rising) / (self.steps - rising)))


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


def order_of(samples: int, steps: int, seed: int) -> Array:
    """Which sample each step trains on: a fresh shuffle an epoch."""
    rng = np.random.Generator(np.random.PCG64(seed))
    epochs = -(-steps // samples)
    order = np.concatenate([rng.permutation(samples) for _ in range(epochs)])
    return order[:steps]


def evaluate(
    device: Device, data: Dataset, encode: Callable[[Array], bytes], log: Log | None = None
) -> Evaluation:
    """Run a data set through the network on the device.

    Args:
        device: an open device.
        data: samples and labels.
        encode: one sample to the bytes of the network's input.
        log: called with a record after each sample.
    """
    classes = len(data.classes)
    confusion = np.zeros((classes, classes), np.int64)
    for index in range(len(data)):
        predicted = device.predict(encode(data.x[index])).predicted
        label = int(data.y[index])
        if predicted >= classes:
            raise InputError(
                f"the network has more classes than the data's {classes}", where=data.name
            )
        confusion[label, predicted] += 1
        if log is not None:
            log({"kind": "eval_sample", "index": index, "label": label, "predicted": predicted})
    return Evaluation(int(np.trace(confusion)), len(data), confusion)


def train(
    device: Device,
    data: Dataset,
    encode: Callable[[Array], bytes],
    schedule: Schedule,
    *,
    seed: int = 0,
    start: int = 0,
    log: Log | None = None,
) -> Iterator[int]:
    """Train step by step; yields the number of steps done, after each one.

    The caller may stop between steps, save the device's state, and go on later with `start`.
    """
    order = order_of(len(data), schedule.steps, seed)
    for step in range(start, schedule.steps):
        index = int(order[step])
        label = int(data.y[index])
        rate = schedule.at(step)
        began = time.monotonic()
        result = device.train_step(
            encode(data.x[index]), label, rate, rate * schedule.head_factor
        )
        if log is not None:
            record = {k: v for k, v in asdict(result).items() if isinstance(v, (int, float))}
            seconds = time.monotonic() - began
            log({"kind": "step", "index": step, "label": label, "rate": rate, "seconds": seconds}
                | record)
        yield step + 1


@dataclass(frozen=True)
class Checkpoint:
    """Where a run stands: steps done and the device's state after them."""

    step: int
    state: bytes

    def save(self, folder: Path) -> None:
        """Write state and step into a run folder, each whole or not at all."""
        name = f"state-{self.step}.bin"
        write_atomic(folder / name, self.state)
        write_atomic(folder / "checkpoint.json", json.dumps({"step": self.step, "state": name}))
        for old in folder.glob("state-*.bin"):
            if old.name != name:
                old.unlink()

    @classmethod
    def load(cls, folder: Path) -> Checkpoint:
        """The last checkpoint of a run folder.

        Raises:
            InputError: there is none, or it cannot be read.
        """
        path = folder / "checkpoint.json"
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            return cls(int(data["step"]), (folder / str(data["state"])).read_bytes())
        except (OSError, ValueError, KeyError) as error:
            raise InputError(
                "no checkpoint to resume from", where=str(path), why=str(error),
                hint="start the run without --resume",
            ) from error
