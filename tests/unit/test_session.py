"""Sessions with the firmware app in this process: what a user can do, and do wrong."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest
from tests.link_helpers import PATIENCE, POOL, open_session, samples, small_image

from mcutrain.engine.loopback import Loopback
from mcutrain.errors import FitError, ImageError, InputError, LinkError, UsageError
from mcutrain.image.status import DivergedError
from mcutrain.image.unpack import unpack
from mcutrain.link import Device, wire
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
    assert start == unpack(small_image()).initial_state
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
    pool = 12288
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
    assert session.read_state() == unpack(small_image()).initial_state
    session.write_state(state)
    assert session.read_state() == state
