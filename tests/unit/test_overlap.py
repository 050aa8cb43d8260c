"""The line and the device at the same time: virtual seconds a step, and bytes in the receive ring.

The app is real; its compute and the line take virtual time. Nothing here depends on the machine.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cache

import pytest
from tests.link_helpers import PATIENCE, samples
from tests.networks import NetworkBuilder

from mcutrain.compile import compile_program
from mcutrain.engine.loopback import Loopback
from mcutrain.image.pack import pack
from mcutrain.link import wire
from mcutrain.link.framing import Deframer, Frame
from mcutrain.link.session import Session
from mcutrain.link.throughput import frame_bytes, step_bytes, steps_per_second
from mcutrain.plan.scheme import resolve_scheme

RING_BYTES = 2048  # firmware/hal/cortexm/rx_ring.c
SAMPLE = 3072
BAUD = 115_200
CHARACTER_S = 10 / BAUD


@cache
def image() -> bytes:
    b = NetworkBuilder((32, 32, 3), 1, "timed")
    x = b.conv("c1", "x", 8, 3, 2, 1, relu=True)
    graph = b.head(b.global_pool("p", b.conv("c2", x, 8, 3, 2, 1, relu=True)), 4)
    return pack(compile_program(graph, resolve_scheme(graph, "full"), seed=1))


@dataclass
class Arrival:
    """A frame on its way: the time of its first and last byte, and when the device takes it."""

    first_s: float
    last_s: float
    taken_s: float
    size: int

    def waiting(self, now: float) -> float:
        """Bytes of it that lie in the ring at that time."""
        if self.taken_s < now or self.first_s >= now:
            return 0.0
        share = (now - self.first_s) / (self.last_s - self.first_s)
        return self.size * min(1.0, share)


class TimedLine:
    """A line at BAUD, and a device that computes `frame_s` with each DATA frame of a sample (the
    rows that are complete) and `step_s` with each STEP; the host takes no time."""

    def __init__(self, frame_s: float, step_s: float) -> None:
        self.inner = Loopback(pool_bytes=1 << 18, flash_bytes=0)
        self.costs = {wire.DATA.type: frame_s, wire.STEP.type: step_s}
        self.now = self.line_free = self.device_free = self.answer_free = 0.0
        self.most_in_ring = 0.0
        self._arrivals: deque[Arrival] = deque(maxlen=16)
        self._answers: deque[tuple[float, bytes]] = deque()

    def set_baud(self, baud: int) -> None:
        raise AssertionError(baud)

    def write(self, data: bytes) -> None:
        (frame,) = Deframer().feed(data)
        assert isinstance(frame, Frame)
        first = max(self.now, self.line_free)
        self.line_free = first + len(data) * CHARACTER_S
        cost = self.costs.get(frame.type, 0.0)
        if frame.type == wire.DATA.type and frame.payload[0] != wire.Target.SAMPLE:
            cost = 0.0
        taken = max(self.line_free, self.device_free)
        self._arrivals.append(Arrival(first, self.line_free, taken, len(data)))
        self._look()
        self.device_free = taken + cost
        self.inner.write(data)
        answer = self.inner.read(0)
        if answer:
            start = max(self.device_free, self.answer_free)
            self.answer_free = start + len(answer) * CHARACTER_S
            self._answers.append((self.answer_free, answer))

    def read(self, timeout_s: float) -> bytes:
        if not self._answers:
            self.now += timeout_s
            return b""
        when, answer = self._answers.popleft()
        self.now = max(self.now, when)
        return answer

    def close(self) -> None:
        pass

    def _look(self) -> None:
        # The ring is fullest when the device comes back to it.
        for back in self._arrivals:
            in_ring = sum(arrival.waiting(back.taken_s) for arrival in self._arrivals)
            self.most_in_ring = max(self.most_in_ring, in_ring)


def seconds_a_step(line: TimedLine, way: str, steps: int = 20) -> float:
    session = Session(line, "port", PATIENCE)
    session.open(image())
    xs = list(samples(steps, SAMPLE))
    began = line.now
    for n, (sample, label) in enumerate(xs):
        if way == "waiting":
            session.set_sample(sample)
            session.step(label, 0.01, 0.01)
            continue
        if way == "ahead" and n + 1 < steps:
            session.announce(xs[n + 1][0])
        session.train_step(sample, label, 0.01, 0.01)
    assert session.stats().host_resent == 0
    return (line.now - began) / steps


LINE_S = step_bytes(SAMPLE) * CHARACTER_S
FRAMES = -(-SAMPLE // wire.DATA_CHUNK)


@pytest.mark.parametrize(
    ("frame_s", "step_s"), [(0.0, 0.0), (0.005, 0.1), (0.02, 0.15), (0.08, 0.3), (0.3, 1.0)]
)
def test_the_line_and_the_device_work_at_the_same_time(frame_s: float, step_s: float) -> None:
    times = {}
    for way in ("waiting", "behind", "ahead"):
        line = TimedLine(frame_s, step_s)
        times[way] = seconds_a_step(line, way)
        assert line.most_in_ring <= RING_BYTES
    assert line.most_in_ring > 1500 or step_s < 0.15
    compute = FRAMES * frame_s + step_s
    assert times["ahead"] <= times["behind"] <= times["waiting"]
    assert times["ahead"] >= 0.97 * max(LINE_S, compute)  # the bound; a step's answer is small
    # Forward compute and sending overlap in all of them, by the frames that may be under way.
    one = frame_bytes(wire.DATA.request.fixed.size + wire.DATA_CHUNK) * CHARACTER_S
    assert times["waiting"] <= max(LINE_S, FRAMES * frame_s) + step_s + frame_s + 2 * one
    # And the step with the next sample, by as many, unless the bound is reached before.
    saved = min(step_s, wire.WINDOW * one)
    bound = max(LINE_S, compute)
    assert times["ahead"] <= max(1.03 * bound, times["waiting"] - 0.8 * saved)


def test_what_the_line_bounds() -> None:
    """Without compute a step takes what its bytes take, and one answer."""
    assert pytest.approx(1 / steps_per_second(SAMPLE, BAUD)) == LINE_S
    assert LINE_S <= seconds_a_step(TimedLine(0.0, 0.0), "ahead") <= 1.02 * LINE_S
