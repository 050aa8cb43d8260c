"""The app and the session frame by frame: what no well-behaved host or device would send."""

from __future__ import annotations

import random
import zlib
from typing import Any

import pytest
from tests.link_helpers import PATIENCE, POOL, open_session, samples, small_image

from mcutrain.engine.loopback import Loopback
from mcutrain.errors import LinkError
from mcutrain.link import wire
from mcutrain.link.channel import Channel
from mcutrain.link.effort import DeviceRefusal, Patience
from mcutrain.link.framing import Deframer, Frame
from mcutrain.link.session import Session

SAMPLE = 192


class Raw:
    """A host without manners: sends any frame and reads what comes."""

    def __init__(self, flash: bytes = b"") -> None:
        self.line = Loopback(pool_bytes=POOL, flash=flash, flash_bytes=65536)
        self.deframer = Deframer()
        assert self.ask(Frame(wire.HELLO.type, 5, 100)).type == 0x81

    def send(self, frame: Frame) -> list[Any]:
        self.line.write(frame.encode())
        return list(self.deframer.feed(self.line.read(0)))

    def ask(self, frame: Frame) -> Frame:
        (answer,) = self.send(frame)
        assert isinstance(answer, Frame)
        return answer

    def refusal(self, frame: Frame) -> tuple[int, int, int]:
        answer = self.ask(frame)
        assert answer.type == wire.ERROR
        assert (answer.session, answer.seq) == (frame.session, frame.seq)
        code, a, b, _ = wire.ERROR_LAYOUT.fixed.unpack(answer.payload)
        return code, a, b


@pytest.mark.parametrize("kind", [0, 0x3F, 0x7F, 0x81, 0xC0, 0xFF])
def test_an_unknown_request_gets_an_error_not_silence(kind: int) -> None:
    assert Raw().refusal(Frame(kind, 5, 101)) == (wire.ErrorCode.UNKNOWN_TYPE, kind, 0)


def test_other_versions_sizes_and_sessions_get_an_error() -> None:
    raw = Raw()
    assert raw.refusal(Frame(11, 5, 101, version=2)) == (wire.ErrorCode.VERSION, 1, 2)
    assert raw.refusal(Frame(7, 5, 102, b"123")) == (
        wire.ErrorCode.LENGTH,
        3,
        wire.STEP.request.fixed.size,
    )
    assert raw.refusal(Frame(3, 5, 103, bytes(7))) == (wire.ErrorCode.LENGTH, 7, 8)
    assert raw.refusal(Frame(11, 6, 104))[0] == wire.ErrorCode.OTHER_SESSION
    assert raw.refusal(Frame(1, 0, 104))[0] == wire.ErrorCode.OTHER_SESSION
    raw.line.restart()
    assert raw.refusal(Frame(11, 5, 105))[0] == wire.ErrorCode.NO_SESSION


def test_requests_without_an_image_get_an_error() -> None:
    raw = Raw()
    for n, message in enumerate((wire.STEP, wire.EVAL, wire.READ, wire.RESET, wire.IMAGE_INFO)):
        payload = bytes(message.request.fixed.size)
        assert raw.refusal(Frame(message.type, 5, 101 + n, payload))[0] == wire.ErrorCode.NO_IMAGE


def test_sequence_numbers_decide_what_is_done() -> None:
    raw = Raw()
    stats = Frame(wire.STATS.type, 5, 101)
    first = raw.ask(stats)
    assert raw.ask(stats) == first
    assert raw.send(Frame(wire.STATS.type, 5, 100)) == []
    assert raw.send(Frame(wire.STATS.type, 5, (101 + 0x8000) & 0xFFFF)) == []
    second = wire.STATS.response.unpack(raw.ask(Frame(wire.STATS.type, 5, 101 + 0x7FFF)).payload)
    assert (second["resent"], second["stale"]) == (1, 2)


@pytest.mark.parametrize("seed", range(8))
def test_any_request_gets_exactly_one_answer(seed: int) -> None:
    """Whatever a good frame says; under ASan and UBSan, no byte outside is touched either."""
    rng = random.Random(seed)
    raw = Raw(flash=small_image())
    open_flash = wire.IMAGE_OPEN.request.pack({"place": wire.Place.FLASH, "size": 0, "crc": 0})
    numbers = (0, 1, 2, 3, 4, 191, 192, 504, 3304, 0x7FFFFFFF, 0xFFFFFF00, 0xFFFFFFFF)
    messages = [m for m in wire.MESSAGES if m is not wire.REBOOT]
    weights = [1 if m in (wire.IMAGE_BEGIN, wire.RESET) else 8 for m in messages]
    succeeded = set()
    for seq in range(101, 1500):
        (message,) = rng.choices(messages, weights)
        values: dict[str, wire.Value] = {}
        for f in message.request.fields:
            top = {"B": 0xFF, "H": 0xFFFF, "I": 0xFFFFFFFF}.get(f.code)
            number = rng.choice((0, 0, 1, 2, 3)) if rng.random() < 0.8 else rng.choice(numbers)
            length = rng.choice((1, 192, 504, rng.randrange(505)))
            values[f.name] = rng.randbytes(length) if top is None else number & top
        answer = raw.ask(Frame(message.type, 5, 2 * seq, message.request.pack(values)))
        assert answer.seq == 2 * seq
        assert answer.type in (message.type | wire.RESPONSE, wire.ERROR)
        if answer.type != wire.ERROR:
            succeeded.add(message.name)
        elif answer.payload[0] == wire.ErrorCode.NO_IMAGE:
            again = raw.ask(Frame(wire.IMAGE_OPEN.type, 5, 2 * seq + 1, open_flash))
            assert again.type == wire.IMAGE_OPEN.type | wire.RESPONSE
    assert succeeded == {m.name for m in messages}
    # It still works.
    raw.line.restart()
    open_session(raw.line).train_step(next(samples(1, SAMPLE))[0], 1, 0.01, 0.01)


def test_t54_attaching_in_the_middle_of_a_frame() -> None:
    whole = Frame(wire.STATS.type, 9, 9).encode()
    for cut in range(1, len(whole)):
        line = Loopback(pool_bytes=POOL)
        line.write(whole[cut:-1])  # what another program left unfinished
        assert Session(line, "host", PATIENCE).info.board == "host"


def test_t54_text_of_a_boot_loader_before_the_first_answer() -> None:
    line = Loopback(pool_bytes=POOL)
    line._received += b"boot 1.0\r\nok\0\x07half a fra"
    assert Session(line, "host", PATIENCE).info.board == "host"


class Silent:
    """A line without a device."""

    def __init__(self, answers: bytes = b"") -> None:
        self.answers = answers
        self.written = 0

    def write(self, _: bytes) -> None:
        self.written += 1

    def read(self, _: float) -> bytes:
        return self.answers

    def close(self) -> None:
        self.answers = b""


def test_a_silent_line_ends_in_an_error() -> None:
    line = Silent()
    with pytest.raises(LinkError, match="does not answer HELLO") as caught:
        Session(line, "/dev/ttyX", Patience(first_s=0.5, waits=4))
    assert line.written == 4
    assert caught.value.where == "/dev/ttyX"
    assert "7.5 s" in str(caught.value.why)
    assert caught.value.hint


def test_a_babbling_line_ends_in_an_error() -> None:
    with pytest.raises(LinkError, match="damages too much"):
        Session(Silent(b"\x55\x55\0"), "/dev/ttyX", Patience(first_s=5.0))
    # Another device's answers are no answers, however many there are.
    foreign = Frame(0x81, 1, 1).encode()
    with pytest.raises(LinkError, match="does not answer"):
        Channel(Silent(foreign), "x", Patience(first_s=0.01, waits=3), new_id=lambda: 2).open()


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (b"accel 0.1 0.2\r\n", "the text 'accel 0.1 0.2 accel 0.1 0.2"),
        (b"\x07\xffabc", "the bytes 07 ff 61 62 63 07 ff"),
        (b"\xe9t\xe9\n", "the bytes e9 74 e9 0a"),
    ],
)
def test_a_line_that_talks_without_frames_is_not_called_silent(said: bytes, shown: str) -> None:
    with pytest.raises(LinkError, match="does not speak mcutrain's protocol") as caught:
        Channel(Silent(said), "/dev/ttyX", Patience(first_s=0.01, waits=3)).open()
    assert shown in str(caught.value.why)
    assert len(str(caught.value.why)) < 120
    assert caught.value.where == "/dev/ttyX"
    assert "mcutrain flash" in str(caught.value.hint)


def test_refusals_name_the_request() -> None:
    channel = Channel(Loopback(pool_bytes=POOL), "host", PATIENCE)
    channel.open()
    with pytest.raises(DeviceRefusal, match="refused IMAGE_INFO: no image is open"):
        channel.request(wire.IMAGE_INFO, {})


def test_the_crc_is_the_one_of_the_spec() -> None:
    assert zlib.crc32(b"123456789") == 0xCBF43926
