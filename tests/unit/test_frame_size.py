"""Frames shrink on a bad line and grow on a good one; READ and logits too."""

from __future__ import annotations

import pytest
from tests.link_helpers import PATIENCE, POOL, Fault, FaultyLine, open_session, samples

from mcutrain.engine.loopback import Loopback
from mcutrain.link import wire
from mcutrain.link.channel import Channel
from mcutrain.link.frame_size import FrameSize
from mcutrain.link.framing import Deframer, Frame
from mcutrain.link.session import Session


def test_two_losses_halve_down_to_the_least() -> None:
    size = FrameSize()
    seen = [size.bytes]
    for _ in range(12):
        size.lost()
        seen.append(size.bytes)
    assert seen == [504, 504, 256, 256, 128, 128, 64, 64, 32, 32, 32, 32, 32]
    assert all(n % 8 == 0 for n in seen)


def test_a_clean_stretch_doubles_up_to_the_default() -> None:
    size = FrameSize()
    for _ in range(8):
        size.lost()
    assert size.bytes == wire.MIN_CHUNK
    for expected in (32, 64, 128, 256, 504, 504):
        assert size.bytes == expected
        for _ in range(16):
            size.arrived()


def test_losses_far_apart_change_nothing() -> None:
    size = FrameSize()
    for _ in range(20):
        size.lost()
        for _ in range(4):
            size.arrived()
    assert size.bytes == wire.DATA_CHUNK


class Recorder(FaultyLine):
    """Keeps the requests that went out."""

    def write(self, data: bytes) -> None:
        self.frames = [
            *getattr(self, "frames", []),
            *(f for f in Deframer().feed(data) if isinstance(f, Frame)),
        ]
        super().write(data)


def test_a_copy_of_another_size_leaves_no_hole() -> None:
    """The device has 256 bytes of which the host does not know, and the host sends larger ones."""
    line = Recorder(Loopback(pool_bytes=POOL))
    session = open_session(line)  # type: ignore[arg-type]
    channel: Channel = session._channel
    sample, _ = next(samples(1, 192))
    channel.frame.bytes = 64
    # The device takes the first frame; its response is lost, and frames are larger since.
    line.faults = (Fault(False, "drop", line.counts[False] + 3),)
    real = channel.frame.lost
    channel.frame.lost = lambda: (real(), setattr(channel.frame, "bytes", 128))  # type: ignore[method-assign]
    session.set_sample(sample)
    session.step(1, 0.01, 0.01)
    clean = open_session()
    clean.set_sample(sample)
    clean.step(1, 0.01, 0.01)
    assert session.read_state() == clean.read_state()


@pytest.mark.parametrize("size", [wire.DATA_CHUNK, 64])
def test_the_state_is_read_in_frames_of_that_size(size: int) -> None:
    line = Recorder(Loopback(pool_bytes=POOL))
    session = open_session(line)  # type: ignore[arg-type]
    session._channel.frame.bytes = size
    before = len(line.frames)
    state = session.read_state()
    lengths = [
        wire.READ.request.unpack(f.payload)["length"]
        for f in line.frames[before:]
        if f.type == wire.READ.type
    ]
    assert lengths[0] == size
    assert sum(n for n in lengths if isinstance(n, int)) == len(state)


def test_logits_that_the_line_does_not_bear_are_read_in_parts() -> None:
    sample, _ = next(samples(1, 192))
    session = open_session()
    whole = session.predict(sample)
    session._channel.frame.bytes = 8  # the network has four classes: 16 bytes
    assert session.predict(sample).logits == whole.logits
    session.set_sample(sample)
    answer = session._channel.request(wire.EVAL, {"flags": int(wire.RunFlag.NO_LOGITS)})
    assert answer["logits"] == b""


def test_sessions_begin_with_the_default() -> None:
    assert Session(Loopback(pool_bytes=POOL), "host", PATIENCE)._channel.frame.bytes == 504
