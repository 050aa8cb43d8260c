"""The link to emulated boards: the same bytes as on the host, whatever the line does."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from tests.link_helpers import (
    Fault,
    FaultyLine,
    NoisyLine,
    random_fault,
    samples,
    small_image,
    tiny_image,
)

from mcutrain.boards.build import build_firmware
from mcutrain.boards.emulate import EmulatedBoard
from mcutrain.boards.table import BOARDS, get_board
from mcutrain.devices import open_device
from mcutrain.link.effort import Patience
from mcutrain.link.session import Session
from mcutrain.link.speed import FASTEST
from mcutrain.link.transport import Transport
from mcutrain.link.wire import RunFlag

pytestmark = pytest.mark.qemu

# A lost border costs a wait; the emulator answers within milliseconds.
IMPATIENT = Patience(first_s=0.25, waits=7)
PATIENT = Patience(first_s=10)
FAULTS = 20


@pytest.mark.parametrize("name", BOARDS)
def test_state_and_trace_are_those_of_the_host(name: str) -> None:
    found = []
    for device in (name, "host"):
        with open_device(device) as session:
            info = session.open(small_image()).image
            assert info is not None
            results: list[Any] = []
            for sample, label in samples(10, info.sample_bytes):
                session.set_sample(sample)
                step = session.step(label, 0.01, 0.02, RunFlag.TRACE)
                results += [step.loss_bits, step.predicted, step.saturated, step.clamped]
                results += [session.trace(info.instructions), session.read_state()]
            results += [session.predict(sample).logits]
            stats = session.stats()
            assert stats.pool_used == stats.pool_planned
            assert stats.guard_changed == 0
            assert stats.rx_overruns == 0
            assert stats.stack_used <= stats.stack_bytes
            found.append(results)
    assert found[0] == found[1]


# Without zero bytes, so that every run has as many bytes on the line.
session_ids = iter(range(0x1101, 0x11FF))


def run(line: Transport, patience: Patience = IMPATIENT) -> tuple[Any, ...]:
    """A whole run on a board that may have had others before."""
    session = Session(line, "board", patience, session_ids.__next__)
    info = session.open(tiny_image()).image
    assert info is not None
    before = session.stats().steps
    steps = [
        session.train_step(sample, label, 0.01, 0.02)
        for sample, label in samples(3, info.sample_bytes)
    ]
    state = session.read_state()
    session.write_state(state)
    done = session.stats().steps - before
    # The counter runs on with whatever the emulator does; everything else is exact.
    return [(s.step, s.loss_bits, s.predicted) for s in steps], state, session.read_state(), done


@pytest.fixture(scope="module")
def board() -> Iterator[EmulatedBoard]:
    row = get_board("qemu:netduinoplus2")
    with EmulatedBoard(row, build_firmware(row).elf) as running:
        yield running


def test_t53_one_fault_in_twenty_places(board: EmulatedBoard) -> None:
    clean = FaultyLine(board)
    run(FaultyLine(board))  # the first HELLO may come before the board has booted, and is repeated
    right = run(clean, PATIENT)  # nothing is sent twice while bytes are counted
    assert right[-1] == 3
    rng = random.Random(20)
    for _ in range(FAULTS):
        fault = random_fault(rng, clean.counts[True], clean.counts[False])
        line = FaultyLine(board, (fault,))
        assert run(line) == right, fault
        assert line.counts[fault.to_device] > fault.position


@pytest.mark.parametrize("rate", [0.001, 0.003])
def test_t53_a_noisy_line_gives_the_same_bytes(board: EmulatedBoard, rate: float) -> None:
    """A byte is lost, changed or doubled at that rate each."""
    right = run(FaultyLine(board), PATIENT)
    line = NoisyLine(board, rate, seed=1)
    assert run(line) == right
    assert line.faults > 5


class Limited(FaultyLine):
    """A line at which nothing gets through above a rate; the emulator itself has none."""

    limit = 10**9
    baud = 115_200

    def set_baud(self, baud: int) -> None:
        self.baud = baud

    def close(self) -> None:
        pass  # the board goes on

    def write(self, data: bytes) -> None:
        super().write(data if self.baud <= self.limit else b"\x55" * len(data))

    def read(self, timeout_s: float) -> bytes:
        data = super().read(timeout_s)
        return data if self.baud <= self.limit else b"\x55" * len(data)


@pytest.mark.parametrize("name", ["qemu:netduinoplus2", "qemu:mps2-an500"])
def test_the_rate_is_raised_and_given_up(name: str) -> None:
    """The UARTs of the emulator take any divider that their clocks allow."""
    row = get_board(name)
    with EmulatedBoard(row, build_firmware(row).elf) as running:
        right = run(FaultyLine(running))[:-1]
        # 25 MHz / 16, and 16 MHz / 16 of the chip whose PLL the emulator has not.
        fastest = 1_500_000 if "mps" in name else 1_000_000
        for limit, reached in ((10**9, fastest), (500_000, 460_800), (115_200, 115_200)):
            line = Limited(running)
            line.limit = limit
            with Session(line, "board", IMPATIENT, baud=FASTEST) as session:
                assert session.baud == reached
                session.open(tiny_image())
            assert run(Limited(running))[:-1] == right


@pytest.mark.parametrize("name", ["qemu:netduinoplus2", "qemu:mps2-an385"])
def test_the_next_sample_arrives_while_a_step_runs(name: str) -> None:
    """Through the receive interrupt, with no byte lost; the host has the same state."""
    row = get_board(name)
    steps = list(samples(6, 192))
    states = []
    with EmulatedBoard(row, build_firmware(row).elf) as running, open_device("host") as host:
        for session in (Session(Limited(running), "board", PATIENT), host):
            session.open(small_image())
            for n, (sample, label) in enumerate(steps):
                if n + 1 < len(steps):
                    session.announce(steps[n + 1][0])
                session.train_step(sample, label, 0.01, 0.02)
            states.append(session.read_state())
            stats = session.stats()
            assert (stats.rx_overruns, stats.rx_stalls, stats.host_resent) == (0, 0, 0)
    assert states[0] == states[1]


def test_a_fault_in_the_step_itself_does_not_step_twice(board: EmulatedBoard) -> None:
    line = FaultyLine(board)
    session = Session(line, "board", IMPATIENT)
    session.open(tiny_image())
    session.set_sample(next(samples(1, 72))[0])
    for to_device in (True, False):
        steps = session.stats().steps
        line.faults = (Fault(to_device, "drop", line.counts[to_device] + 5),)
        session.step(1, 0.01, 0.01)
        assert session.stats().steps == steps + 1
        session.set_sample(next(samples(1, 72))[0])


def test_reboot(board: EmulatedBoard) -> None:
    session = Session(board, "board", IMPATIENT)
    session.open(tiny_image())
    info = session.reboot()
    assert (info.image_crc, info.step, info.fault) == (None, 0, None)
    assert session.stats().frames == 2
