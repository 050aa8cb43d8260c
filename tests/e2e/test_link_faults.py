"""One damaged byte anywhere in a run: the run ends with the same bytes (complaint T53).

The line loses, changes, doubles or invents one byte at seeded places, in either direction, while a
real image is uploaded, trains, predicts and gives its state back. A single fault must always be
repaired. Several at once may also end in a LinkError, but never in another result.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from tests.link_helpers import (
    FAULT_KINDS,
    PATIENCE,
    POOL,
    Fault,
    FaultyLine,
    NoisyLine,
    fixed_id,
    random_fault,
    samples,
    small_image,
)

from mcutrain.engine.loopback import Loopback
from mcutrain.errors import LinkError
from mcutrain.link import wire
from mcutrain.link.frame_size import FrameSize
from mcutrain.link.session import Session
from mcutrain.link.transport import Transport

STEPS = 4
SHARES = 10


def run(line: Transport, new_id: Callable[[], int] = fixed_id) -> tuple[Any, ...]:
    """Everything a run gives back, but for times."""
    session = Session(line, "host", PATIENCE, new_id)
    info = session.open(small_image()).image
    assert info is not None
    results: list[Any] = [info]
    for sample, label in samples(STEPS, info.sample_bytes):
        step = session.train_step(sample, label, 0.01, 0.02)
        results.append((step.step, step.loss_bits, step.predicted, step.saturated, step.clamped))
    sample, _ = next(samples(1, info.sample_bytes, seed=9))
    prediction = session.predict(sample)
    state = session.read_state()
    session.write_state(state)
    stats = session.stats()
    results += [prediction.predicted, prediction.logits, state, session.read_state()]
    results += [stats.steps, stats.evals, stats.saturated, stats.clamped, stats.pool_used]
    return tuple(results)


def faulty(*faults: Fault) -> FaultyLine:
    return FaultyLine(Loopback(pool_bytes=POOL, flash_bytes=0), faults)


@cache
def clean() -> tuple[tuple[Any, ...], int, int]:
    """The right result, and how many bytes go each way."""
    line = faulty()
    result = run(line)
    return result, line.counts[True], line.counts[False]


def test_the_clean_run_trains() -> None:
    result, sent, received = clean()
    assert result[1][0] == 1
    assert result[STEPS][0] == STEPS == result[-5]
    assert sent > len(small_image())
    assert received > 2 * len(result[-6])


@pytest.mark.parametrize("share", range(SHARES))
def test_t53_one_fault_in_a_thousand_places(share: int) -> None:
    right, sent, received = clean()
    rng = random.Random(53 + share)
    for _ in range(1000 // SHARES):
        fault = random_fault(rng, sent, received)
        assert run(faulty(fault)) == right, fault


def outcome(faults: tuple[Fault, ...]) -> tuple[Any, ...] | LinkError:
    try:
        return run(faulty(*faults))
    except LinkError as error:
        return error


def test_t53_many_faults_end_right_or_with_a_clear_error() -> None:
    right, sent, received = clean()
    repaired = gave_up = 0
    for seed in range(18):
        rng = random.Random(seed)
        # From a few, which are all repaired, to a line that cannot work.
        count = 2**seed
        ended = outcome(tuple(random_fault(rng, sent, received) for _ in range(count)))
        if isinstance(ended, LinkError):
            assert ended.where == "host"
            assert ended.why
            assert ended.hint
            gave_up += 1
        else:
            assert ended == right, seed
            repaired += 1
    assert repaired >= 10
    assert gave_up >= 1


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rate", [0.001, 0.01])
def test_t53_a_noisy_line_gives_the_same_bytes(
    rate: float, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte is lost, changed or doubled at that rate each; frames shrink as far as they must."""
    sizes: list[FrameSize] = []
    monkeypatch.setattr(
        "mcutrain.link.channel.FrameSize", lambda: sizes.append(FrameSize()) or sizes[-1]
    )
    line = NoisyLine(Loopback(pool_bytes=POOL, flash_bytes=0), rate, seed)
    assert run(line, iter(range(0x1101, 0x11FF)).__next__) == clean()[0]
    assert line.faults > 20
    (size,) = sizes
    assert size.least == wire.MIN_CHUNK if rate > 0.001 else size.least < wire.DATA_CHUNK


def test_t53_the_default_frame_size_bears_a_thousandth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FrameSize, "lost", lambda _: None)
    line = NoisyLine(Loopback(pool_bytes=POOL, flash_bytes=0), 0.001)
    assert run(line, iter(range(0x1101, 0x11FF)).__next__) == clean()[0]


def places(find: Callable[[Session, FaultyLine], None]) -> tuple[range, range]:
    """Where the bytes of one call lie in the two directions."""
    line = faulty()
    session = Session(line, "host", PATIENCE, fixed_id)
    info = session.open(small_image()).image
    assert info is not None
    session.set_sample(next(samples(1, info.sample_bytes))[0])
    before = dict(line.counts)
    find(session, line)
    return (
        range(before[True], line.counts[True]),
        range(before[False], line.counts[False]),
    )


def _one_step(session: Session, _: FaultyLine) -> None:
    session.step(1, 0.01, 0.01)


@pytest.mark.parametrize("kind", FAULT_KINDS)
@pytest.mark.parametrize("to_device", [True, False], ids=["request", "response"])
def test_t53_a_step_is_carried_out_exactly_once(kind: str, to_device: bool) -> None:
    requests, responses = places(_one_step)
    for position in requests if to_device else responses:
        for value in (0x01, 0xFF, 0x00) if kind == "insert" else (0x01, 0xFF):
            line = faulty(Fault(to_device, kind, position, value))
            session = Session(line, "host", PATIENCE, fixed_id)
            info = session.open(small_image()).image
            assert info is not None
            session.set_sample(next(samples(1, info.sample_bytes))[0])
            assert session.step(1, 0.01, 0.01).step == 1
            assert session.stats().steps == 1


def _one_sample(session: Session, _: FaultyLine) -> None:
    session.set_sample(bytes(192))


def test_t53_a_lost_byte_of_an_acknowledgement() -> None:
    _, responses = places(_one_sample)
    right, _, _ = clean()
    for position in responses:
        assert run(faulty(Fault(False, "drop", position))) == right


class RestartingLine(FaultyLine):
    """The device loses power before the n-th write of the host."""

    restart_at = -1
    writes = 0

    def write(self, data: bytes) -> None:
        if self.writes == self.restart_at:
            self.inner.restart()
        self.writes += 1
        super().write(data)


def test_a_device_that_restarts_is_noticed_at_every_place() -> None:
    line = RestartingLine(Loopback(pool_bytes=POOL))
    run(line)
    total = line.writes
    seen = set()
    for restart_at in range(1, total):
        line = RestartingLine(Loopback(pool_bytes=POOL))
        line.restart_at = restart_at
        with pytest.raises(LinkError, match="device restarted at step") as caught:
            run(line)
        assert caught.value.hint
        seen.add(caught.value.message)
    assert {f"the device restarted at step {n}" for n in range(STEPS + 1)} == seen
