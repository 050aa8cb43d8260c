"""The host as a device that takes prefixes (`mcutrain.trainer.prefix`) instead of samples."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from mcutrain.engine.cached import CachedEngine
from mcutrain.errors import InternalError
from mcutrain.link import Device, DeviceInfo, Prediction, Stats, StepResult


class CachedDevice:
    """A `Device` whose steps and evaluations run on a `CachedEngine`, to the same bytes.

    Opening, resetting and states go through the device behind it, which is the firmware's app in
    this process: it refuses what a board would refuse, and `check` holds a step of it against one
    from a prefix.

    Args:
        behind: the device `host`.
        image: the bytes of the image.
        where: the image's file, for messages.
    """

    def __init__(self, behind: Device, image: bytes, where: str = "image") -> None:
        self._behind = behind
        self.engine = CachedEngine(image, where)
        self._steps = self._evals = 0
        self._saturated = self._clamped = self._skipped = self._learnt = 0

    def open(self, image: bytes) -> DeviceInfo:
        """As `Device.open`; it must be the image given above."""
        return self._behind.open(image)

    def check(self, sample: bytes, label: int, rate: float) -> None:
        """Let the firmware take a step on a sample, and compare; the state stays as it is.

        Raises:
            InternalError: the step from the sample's prefix ends in other bytes.
        """
        state = self.read_state()
        self._behind.write_state(state)
        self._behind.train_step(sample, label, rate, rate)
        self.engine.train(self.engine.prefix(sample), label, rate, rate)
        same = self._behind.read_state() == self.engine.state
        self.write_state(state)
        if not same:
            raise InternalError(
                "a step from a kept prefix differs from the firmware's",
                hint="please report it; --no-cache trains without",
            )

    def train_step(
        self, sample: bytes, label: int, lr: float, lr_head: float, learnt: float = 0.0
    ) -> StepResult:
        """As `Device.train_step`; sample: bytes of a prefix."""
        r, forward, backward = self.engine.suffix_engine.train_timed(
            sample, label, lr, lr_head, learnt
        )
        self._steps += 1
        self._saturated += r.saturated
        self._clamped += r.clamped
        self._skipped += r.skipped
        self._learnt += int(r.loss < np.float32(learnt))
        telemetry = (r.predicted, r.saturated, r.clamped, r.skipped)
        return StepResult(r.step, r.loss, r.loss_bits, *telemetry, forward, backward)

    def predict(self, sample: bytes) -> Prediction:
        """As `Device.predict`; sample: bytes of a prefix."""
        began = time.perf_counter_ns()
        logits = self.engine.forward(sample)
        self._evals += 1
        ticks = time.perf_counter_ns() - began
        return Prediction(int(logits.argmax()), tuple(logits.tolist()), ticks)

    def read_state(self) -> bytes:
        """Everything that is kept between steps."""
        return self.engine.state

    def write_state(self, state: bytes) -> None:
        """As `Device.write_state`."""
        self._behind.write_state(state)
        self.engine.state = state

    def reset(self, seed: int | None = None) -> None:
        """As `Device.reset`."""
        self._behind.reset(seed)
        self.engine.reset(seed)

    def stats(self) -> Stats:
        """High-water marks of the firmware, counts of steps and evaluations from here."""
        return replace(
            self._behind.stats(),
            steps=self._steps,
            evals=self._evals,
            saturated=self._saturated,
            clamped=self._clamped,
            skipped=self._skipped,
            learnt=self._learnt,
        )

    def close(self) -> None:
        """Lets go of the device behind it."""
        self._behind.close()
