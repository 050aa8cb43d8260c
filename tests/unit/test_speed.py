"""The rate of the line: raised by agreement, given up where it does not work, found again."""

from __future__ import annotations

import random

import pytest
from tests.link_helpers import PATIENCE, POOL, samples, small_image

from mcutrain.engine.loopback import Loopback
from mcutrain.errors import LinkError
from mcutrain.link.channel import RATES, START_BAUD
from mcutrain.link.session import Session
from mcutrain.link.speed import FASTEST


class RatedLine:
    """The app behind a line with a rate: where the ends differ, each byte is another one.

    limits: the highest rates at which the two directions work, to the device and from it.
    """

    def __init__(self, board: Loopback, limits: tuple[int, int] = (10**9, 10**9)) -> None:
        self.board = board
        self.limits = limits
        self.baud = START_BAUD
        self.rates: list[int] = []
        self.lost_writes: set[int] = set()
        self.writes = 0
        self._rng = random.Random(0)

    def set_baud(self, baud: int) -> None:
        self.baud = baud
        self.rates.append(baud)

    def write(self, data: bytes) -> None:
        self.writes += 1
        if self.writes not in self.lost_writes:
            for byte in data:  # the rate may change in the middle
                self.board.write(self._heard(bytes([byte]), self.limits[0]))

    def read(self, timeout_s: float) -> bytes:
        return self._heard(self.board.read(timeout_s), self.limits[1])

    def close(self) -> None:
        pass

    def _heard(self, data: bytes, limit: int) -> bytes:
        if self.baud == self.board.baud and self.baud <= limit:
            return data
        return self._rng.randbytes(len(data))


def train(session: Session) -> bytes:
    session.open(small_image())
    for sample, label in samples(3, 192):
        session.train_step(sample, label, 0.01, 0.01)
    return session.read_state()


@pytest.fixture(scope="module")
def right() -> bytes:
    return train(Session(Loopback(pool_bytes=POOL), "host", PATIENCE))


@pytest.mark.parametrize("baud", [230_400, 1_000_000, 2_000_000])
def test_both_ends_change_to_the_wanted_rate(baud: int, right: bytes) -> None:
    board = Loopback(pool_bytes=POOL)
    line = RatedLine(board)
    session = Session(line, "port", PATIENCE, baud=baud)
    assert session.baud == line.baud == board.baud == baud
    assert train(session) == right
    session.close()
    assert board.baud == START_BAUD


def test_the_fastest_is_the_highest_that_the_device_has(right: bytes) -> None:
    board = Loopback(pool_bytes=POOL, max_baud=1_000_000)
    session = Session(RatedLine(board), "port", PATIENCE, baud=FASTEST)
    assert session.baud == board.baud == 1_000_000
    assert train(session) == right


def test_without_a_wish_the_rate_stays(right: bytes) -> None:
    line = RatedLine(Loopback(pool_bytes=POOL))
    session = Session(line, "port", PATIENCE)
    assert train(session) == right
    session.close()
    assert line.rates == []


@pytest.mark.parametrize("limits", [(921_600, 10**9), (10**9, 921_600), (921_600, 921_600)])
def test_a_rate_at_which_no_frame_gets_through_is_given_up(
    limits: tuple[int, int], right: bytes
) -> None:
    """Whichever direction fails: the ends meet at the old rate, and then at the next lower one."""
    board = Loopback(pool_bytes=POOL)
    line = RatedLine(board, limits)
    session = Session(line, "port", PATIENCE, baud=FASTEST)
    assert session.baud == board.baud == 921_600
    assert line.rates[:2] == [2_000_000, START_BAUD]
    assert train(session) == right


def test_no_rate_works_but_the_first(right: bytes) -> None:
    board = Loopback(pool_bytes=POOL)
    session = Session(RatedLine(board, (START_BAUD, START_BAUD)), "port", PATIENCE, baud=FASTEST)
    assert session.baud == board.baud == START_BAUD
    assert train(session) == right


def test_a_wanted_rate_that_cannot_be_says_why() -> None:
    board = Loopback(pool_bytes=POOL, max_baud=500_000)
    with pytest.raises(LinkError, match="cannot work at 921,600 baud") as caught:
        Session(RatedLine(board), "port", PATIENCE, baud=921_600)
    assert "UART cannot make" in str(caught.value.why)
    assert "works at 115,200" in str(caught.value.why)
    board = Loopback(pool_bytes=POOL)
    with pytest.raises(LinkError, match="cannot work") as caught:
        Session(RatedLine(board, (START_BAUD, START_BAUD)), "port", PATIENCE, baud=921_600)
    assert "no frame gets through" in str(caught.value.why)


@pytest.mark.parametrize("lost", range(1, 8))
def test_a_lost_request_ends_at_a_common_rate(lost: int, right: bytes) -> None:
    board = Loopback(pool_bytes=POOL)
    line = RatedLine(board)
    line.lost_writes = {lost}
    session = Session(line, "port", PATIENCE, baud=FASTEST)
    assert session.baud == line.baud == board.baud
    assert session.baud in RATES
    assert train(session) == right


@pytest.mark.parametrize("rate", [*RATES, START_BAUD])
def test_a_device_that_was_left_at_another_rate_is_found(rate: int, right: bytes) -> None:
    """A program that was killed cannot lower it."""
    board = Loopback(pool_bytes=POOL)
    Session(RatedLine(board), "port", PATIENCE, baud=rate)
    assert board.baud == rate
    line = RatedLine(board)
    session = Session(line, "port", PATIENCE)
    assert session.baud == rate
    assert train(session) == right
    session.close()
    assert board.baud == START_BAUD


@pytest.mark.parametrize("raised", [1_000_000, FASTEST])
def test_a_device_that_is_reset_is_met_at_its_first_rate(raised: int) -> None:
    board = Loopback(pool_bytes=POOL)
    line = RatedLine(board)
    session = Session(line, "port", PATIENCE, baud=raised)
    session.open(small_image())
    board.restart()
    with pytest.raises(LinkError, match="device restarted"):
        session.train_step(next(samples(1, 192))[0], 1, 0.01, 0.01)
    assert line.baud == board.baud == START_BAUD
    session.open(small_image())


def test_reboot_keeps_the_wish(right: bytes) -> None:
    board = Loopback(pool_bytes=POOL)
    session = Session(RatedLine(board), "port", PATIENCE, baud=1_000_000)
    session.reboot()
    assert session.baud == board.baud == 1_000_000
    assert train(session) == right


class Babbler:
    """A port at which something else talks."""

    def __init__(self) -> None:
        self.rates: list[int] = []

    def set_baud(self, baud: int) -> None:
        self.rates.append(baud)

    def write(self, data: bytes) -> None:
        pass

    def read(self, _: float) -> bytes:
        return b"accel 0.1 0.2 9.8\r\n\0"

    def close(self) -> None:
        pass


def test_bytes_without_frames_at_any_rate_say_so() -> None:
    line = Babbler()
    with pytest.raises(LinkError) as caught:
        Session(line, "/dev/ttyX", PATIENCE)
    assert "no frames" in str(caught.value.why)
    assert "115,200" in str(caught.value.why)
    assert "the text 'accel 0.1 0.2 9.8" in str(caught.value.why)
    assert "mcutrain's firmware" in str(caught.value.hint)
    assert set(RATES) <= set(line.rates)
