"""Sessions with the firmware app in this process: what a user can do, and do wrong."""

from __future__ import annotations

import math
import random
import struct
import zlib
from typing import Any

import pytest
from tests.link_helpers import PATIENCE, POOL, open_session, samples, small_image

from mcutrain.engine.loopback import Loopback
from mcutrain.errors import FitError, ImageError, InputError, LinkError, UsageError
from mcutrain.image.status import DivergedError
from mcutrain.image.unpack import unpack
from mcutrain.link import Device, wire
from mcutrain.link.channel import Channel, DeviceRefusal, Patience
from mcutrain.link.framing import Deframer, Frame
from mcutrain.link.session import Session

SAMPLE = 192


@pytest.fixture
def session() -> Session:
    return open_session()


def first_sample() -> bytes:
    return next(samples(1, SAMPLE))[0]


def image_info(session: Session) -> Any:
    assert session.info.image is not None
    return session.info.image


def test_a_session_is_a_device(session: Session) -> None:
    device: Device = session
    header = unpack(small_image()).header
    info = image_info(session)
    assert session.info.board == "host"
    assert session.info.image_crc == header["crc"]
    assert info.model_hash == header["model_hash"].hex()
    assert (info.state_bytes, info.arena_bytes) == (header["state_bytes"], header["arena_bytes"])
    assert (info.forward, info.instructions) == (header["forward"], header["instructions"])
    assert info.sample_bytes == SAMPLE
    start = device.read_state()
    assert start == small_image()[header["initial_offset"] :][: header["state_bytes"]]
    before = device.predict(first_sample())
    assert before.predicted == max(range(4), key=lambda c: before.logits[c])
    for n in range(3):
        result = device.train_step(first_sample(), 2, 0.01, 0.05)
        assert result.step == n + 1
        assert struct.pack("<f", result.loss) == result.loss_bits.to_bytes(4, "little")
    trained = device.read_state()
    assert trained != start
    after = device.predict(first_sample())
    assert after.logits[2] > before.logits[2]
    device.reset()
    assert device.read_state() == start
    device.write_state(trained)
    assert device.predict(first_sample()).logits == after.logits
    device.close()
    device.close()
    with pytest.raises(LinkError, match="closed"):
        device.stats()


def test_memory_is_used_as_planned_to_the_byte(session: Session) -> None:
    for sample, label in samples(8, SAMPLE):
        session.train_step(sample, label, 0.01, 0.01)
    info, stats = image_info(session), session.stats()
    block = -(-info.state_bytes // 4) * 4 + info.arena_bytes
    image_at = (POOL - info.size) & ~15
    assert stats.pool_planned == block + POOL - image_at
    assert stats.pool_used == stats.pool_planned
    assert info.free_bytes == image_at - block
    assert stats.steps == 8


def test_another_seed_trains_otherwise(session: Session) -> None:
    finals = []
    for seed in (None, 5, 5, 6):
        session.reset(seed)
        for sample, label in samples(5, SAMPLE):
            session.train_step(sample, label, 0.01, 0.01)
        finals.append(session.read_state())
    assert finals[1] == finals[2]
    assert len(set(finals)) == 3


def test_ticks_and_trace_of_each_instruction(session: Session) -> None:
    count, forward = image_info(session).instructions, image_info(session).forward
    session.set_sample(first_sample())
    result = session.step(1, 0.01, 0.01, wire.RunFlag.PROFILE | wire.RunFlag.TRACE)
    ticks, trace = session.ticks(count), session.trace(count)
    assert sum(ticks[:forward]) == result.ticks_forward
    assert 0 <= result.ticks_backward - sum(ticks[forward:]) < result.ticks
    assert len(set(trace)) > count // 2
    session.reset()
    session.set_sample(first_sample())
    session.step(1, 0.01, 0.01, wire.RunFlag.TRACE)
    assert session.trace(count) == trace
    with pytest.raises(LinkError):
        session.ticks(count)
    session.set_sample(first_sample())
    session.evaluate(wire.RunFlag.TRACE)
    assert session.trace(forward) == session.trace(forward)
    with pytest.raises(LinkError):
        session.trace(forward + 1)
    assert session.stats().pool_used == session.stats().pool_planned


def test_no_room_for_ticks_says_how_much_is_missing() -> None:
    need = open_session().stats().pool_planned
    session = open_session(Loopback(pool_bytes=(need + 15) & ~15))
    session.set_sample(first_sample())
    with pytest.raises(FitError) as caught:
        session.step(1, 0.01, 0.01, wire.RunFlag.PROFILE)
    assert f"{image_info(session).instructions * 4} bytes needed" in str(caught.value)
    session.step(1, 0.01, 0.01)


def test_an_image_too_large_for_sram_goes_to_flash() -> None:
    image = small_image()
    pool = 16384
    session = open_session(Loopback(pool_bytes=pool, flash_bytes=65536))
    assert image_info(session).place == wire.Place.FLASH
    right = open_session()
    for s in (session, right):
        s.train_step(first_sample(), 1, 0.01, 0.01)
    assert session.read_state() == right.read_state()
    # The board of which only a flasher or emulator writes the flash.
    with pytest.raises(FitError, match="flash cannot take it") as caught:
        open_session(Loopback(pool_bytes=pool, flash_bytes=65536, flash_writable=False))
    assert f"the image {len(image)}" in str(caught.value)
    placed = Loopback(pool_bytes=pool, flash=image, flash_writable=False)
    assert image_info(open_session(placed)).place == wire.Place.FLASH
    with pytest.raises(FitError) as caught:
        open_session(Loopback(pool_bytes=1024, flash=image, flash_writable=False))
    assert "1024 available" in str(caught.value)


def test_samples_from_memory() -> None:
    image = small_image()
    offset = (len(image) + 15) & ~15
    flash = image + bytes(offset - len(image)) + first_sample()
    session = Session(Loopback(pool_bytes=POOL, flash=flash, flash_bytes=65536), "host", PATIENCE)
    session.open_loaded(wire.Place.FLASH)
    assert image_info(session).size == len(image)
    session.sample_from_memory(offset)
    from_memory = session.evaluate()
    assert from_memory.logits == session.predict(first_sample()).logits
    with pytest.raises(LinkError, match="outside its limit"):
        session.sample_from_memory(65536 - SAMPLE + 1)


def test_a_second_session_goes_on_where_the_first_was() -> None:
    line = Loopback(pool_bytes=POOL)
    first = open_session(line)
    first.train_step(first_sample(), 1, 0.01, 0.01)
    state = first.read_state()
    second = Session(line, "host", PATIENCE)
    assert second.info.step == 1
    assert second.info.image_crc == unpack(small_image()).header["crc"]
    with pytest.raises(LinkError, match="no image is open"):
        second.read_state()
    assert second.attach().step == 1
    assert second.read_state() == state
    with pytest.raises(LinkError, match="another program uses this device"):
        first.stats()


def test_reboot_forgets_the_image(session: Session) -> None:
    assert session.reboot().image_crc is None
    with pytest.raises(LinkError, match="no image is open"):
        session.predict(first_sample())
    with pytest.raises(LinkError, match="no image is open"):
        session.attach()
    session.open(small_image())
    session.predict(first_sample())


@pytest.mark.parametrize("size", [0, SAMPLE - 1, SAMPLE + 1])
def test_a_sample_of_another_size(session: Session, size: int) -> None:
    with pytest.raises(InputError) as caught:
        session.predict(bytes(size))
    assert f"{size} bytes given, {SAMPLE} wanted" in str(caught.value)


@pytest.mark.parametrize("label", [-1, 4, 70000])
def test_a_label_that_is_no_class(session: Session, label: int) -> None:
    with pytest.raises(UsageError, match="is not a class"):
        session.train_step(first_sample(), label, 0.01, 0.01)


@pytest.mark.parametrize("rate", [-1.0, math.nan, math.inf, 1e300])
def test_a_rate_that_cannot_be(session: Session, rate: float) -> None:
    before = session.read_state()
    with pytest.raises(UsageError, match="learning rate"):
        session.train_step(first_sample(), 1, rate, 0.01)
    assert session.read_state() == before
    assert session.train_step(first_sample(), 1, 0.01, 0.01).step == 1


def test_a_run_that_diverges(session: Session) -> None:
    session.train_step(first_sample(), 1, 0.01, 3e38)
    before = session.read_state()
    with pytest.raises(DivergedError):
        session.train_step(first_sample(), 1, 0.01, 3e38)
    assert session.read_state() == before


def test_a_sample_serves_one_run(session: Session) -> None:
    with pytest.raises(LinkError, match="missing"):
        session.step(1, 0.01, 0.01)
    session.set_sample(first_sample())
    session.evaluate()
    with pytest.raises(LinkError, match="missing"):
        session.evaluate()


def test_damaged_images_are_refused() -> None:
    image = small_image()
    session = Session(Loopback(pool_bytes=POOL), "host", PATIENCE)
    broken = bytearray(image)
    broken[500] ^= 1
    with pytest.raises(ImageError):
        session.open(bytes(broken))
    session.upload(bytes(broken), wire.Place.SRAM)
    with pytest.raises(ImageError, match="CRC"):
        session.open_loaded(wire.Place.SRAM, bytes(broken))
    with pytest.raises(ImageError, match="not the one that was sent"):
        session.open_loaded(wire.Place.SRAM, image)
    with pytest.raises(LinkError, match="no image is open"):
        session.read_state()
    with pytest.raises(FitError, match="too little memory"):
        session.upload(bytes(POOL + 1), wire.Place.SRAM)


def test_a_state_that_cannot_be_is_refused(session: Session) -> None:
    session.train_step(first_sample(), 1, 0.01, 0.01)
    state = session.read_state()
    with pytest.raises(InputError, match="another image"):
        session.write_state(state[:-1])
    with pytest.raises(ImageError):
        session.write_state(b"\x80" * len(state))
    header = unpack(small_image()).header
    initial = small_image()[header["initial_offset"] :][: len(state)]
    assert session.read_state() == initial
    session.write_state(state)
    assert session.read_state() == state


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
    assert raw.refusal(Frame(7, 5, 102, b"123")) == (wire.ErrorCode.LENGTH, 3, 11)
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
    open_session(raw.line).train_step(first_sample(), 1, 0.01, 0.01)


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


def test_refusals_name_the_request() -> None:
    channel = Channel(Loopback(pool_bytes=POOL), "host", PATIENCE)
    channel.open()
    with pytest.raises(DeviceRefusal, match="refused IMAGE_INFO: no image is open"):
        channel.request(wire.IMAGE_INFO, {})


def test_the_crc_is_the_one_of_the_spec() -> None:
    assert zlib.crc32(b"123456789") == 0xCBF43926
