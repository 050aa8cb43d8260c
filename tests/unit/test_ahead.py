"""The next sample is sent while a step runs: the same bytes, whatever is lost on the way."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.link_helpers import PATIENCE, POOL, FaultyLine, random_fault, samples, small_image

from mcutrain.engine.loopback import Loopback
from mcutrain.errors import LinkError
from mcutrain.link import wire
from mcutrain.link.framing import Deframer, Frame
from mcutrain.link.session import Session

STEPS = 5
SAMPLES = list(samples(STEPS, 192, seed=3))


@dataclass
class Line(FaultyLine):
    """A line with a rate, on which looking ahead is worth it; keeps what was sent."""

    sent: list[Frame] = field(default_factory=list)

    def set_baud(self, baud: int) -> None:
        pass

    def write(self, data: bytes) -> None:
        self.sent += [f for f in Deframer().feed(data) if isinstance(f, Frame)]
        super().write(data)


def line_with(*faults: Any) -> Line:
    return Line(Loopback(pool_bytes=POOL, flash_bytes=0), faults)


def run(line: Any, ahead: bool = True) -> tuple[Any, ...]:
    session = Session(line, "port", PATIENCE, lambda: 0x5A17)
    session.open(small_image())
    results = []
    for n, (sample, label) in enumerate(SAMPLES):
        if ahead and n + 1 < STEPS:
            session.announce(SAMPLES[n + 1][0])
        step = session.train_step(sample, label, 0.01, 0.02)
        results.append((step.step, step.loss_bits, step.predicted, step.saturated, step.clamped))
    prediction = session.predict(SAMPLES[0][0])
    return results, prediction.logits, session.read_state(), session.stats().steps


@pytest.fixture(scope="module")
def right() -> tuple[Any, ...]:
    return run(Loopback(pool_bytes=POOL, flash_bytes=0), ahead=False)


def test_the_next_sample_goes_out_before_the_answer_to_the_step(right: tuple[Any, ...]) -> None:
    line = line_with()
    assert run(line) == right
    kinds = [f.type for f in line.sent]
    assert kinds.count(wire.STEP.type) == STEPS
    flags = [
        wire.STEP.request.unpack(f.payload)["flags"] for f in line.sent if f.type == wire.STEP.type
    ]
    assert flags == [wire.RunFlag.RECEIVE] * (STEPS - 1) + [0]
    # Each sample was sent once.
    transfers = [
        wire.DATA.request.unpack(f.payload)["transfer"]
        for f in line.sent
        if f.type == wire.DATA.type and f.payload[0] == wire.Target.SAMPLE
    ]
    assert len(transfers) == len(set(transfers)) == STEPS + 1


def test_one_fault_anywhere_changes_nothing(right: tuple[Any, ...]) -> None:
    clean = line_with()
    run(clean)
    rng = random.Random(8)
    for _ in range(300):
        fault = random_fault(rng, clean.counts[True], clean.counts[False])
        assert run(line_with(fault)) == right, fault


@pytest.mark.parametrize("lost", ["request", "response"])
def test_a_step_is_carried_out_once_whatever_is_lost(lost: str, right: tuple[Any, ...]) -> None:
    """A whole STEP, or its response, vanishes: without a NAK, after the next sample was sent."""

    class Losing(Line):
        gone = 0

        def write(self, data: bytes) -> None:
            frames = Deframer().feed(data)
            step = any(isinstance(f, Frame) and f.type == wire.STEP.type for f in frames)
            if lost == "request" and step and self.gone < 2:
                self.gone += 1
                return
            super().write(data)

        def read(self, timeout_s: float) -> bytes:
            data = super().read(timeout_s)
            kept = b""
            for frame in Deframer().feed(data):
                assert isinstance(frame, Frame)
                if lost == "response" and frame.type == wire.STEP.type | 0x80 and self.gone < 2:
                    self.gone += 1
                else:
                    kept += frame.encode()
            return kept

    line = Losing(Loopback(pool_bytes=POOL, flash_bytes=0))
    assert run(line) == right
    assert line.gone == 2


def test_the_announced_sample_need_not_come(right: tuple[Any, ...]) -> None:
    line = line_with()
    session = Session(line, "port", PATIENCE, lambda: 0x5A17)
    session.open(small_image())
    session.announce(SAMPLES[3][0])
    session.train_step(*SAMPLES[0], 0.01, 0.02)
    assert session.read_state() == state_after(1)
    session.announce(b"another size")
    session.train_step(*SAMPLES[1], 0.01, 0.02)
    assert session.read_state() == state_after(2)


def state_after(steps: int) -> bytes:
    session = Session(Loopback(pool_bytes=POOL, flash_bytes=0), "host", PATIENCE)
    session.open(small_image())
    for sample, label in SAMPLES[:steps]:
        session.train_step(sample, label, 0.01, 0.02)
    return session.read_state()


def test_a_device_that_restarts_is_noticed() -> None:
    line = line_with()
    session = Session(line, "port", PATIENCE)
    session.open(small_image())
    session.announce(SAMPLES[1][0])
    session.train_step(*SAMPLES[0], 0.01, 0.02)
    assert isinstance(line.inner, Loopback)
    line.inner.restart()
    session.announce(SAMPLES[2][0])
    with pytest.raises(LinkError, match="restarted at step 1"):
        session.train_step(*SAMPLES[1], 0.01, 0.02)


def test_on_a_bad_line_nothing_is_sent_ahead() -> None:
    line = line_with()
    session = Session(line, "port", PATIENCE)
    session.open(small_image())
    session._channel.frame.bytes = 256
    session.announce(SAMPLES[1][0])
    session.train_step(*SAMPLES[0], 0.01, 0.02)
    steps = [f for f in line.sent if f.type == wire.STEP.type]
    assert wire.STEP.request.unpack(steps[0].payload)["flags"] == 0
