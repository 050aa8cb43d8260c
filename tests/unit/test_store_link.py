"""SAVE and LOAD over the link: a device that was reset goes on as if it had not been."""

from __future__ import annotations

import zlib

import pytest
from tests.link_helpers import PATIENCE, POOL, fixed_id, samples, small_image, tiny_image

from mcutrain.engine.loopback import Loopback
from mcutrain.errors import FitError, LinkError
from mcutrain.link import wire
from mcutrain.link.session import Session

LR, LR_HEAD = 0.05, 0.05


def _train(session: Session, start: int, end: int) -> None:
    assert session.info.image is not None
    size = session.info.image.sample_bytes
    for sample, label in list(samples(end, size))[start:]:
        session.train_step(sample, label, LR, LR_HEAD)


def _uninterrupted(image: bytes, steps: int) -> bytes:
    session = Session(Loopback(pool_bytes=POOL), "host", PATIENCE)
    session.open(image)
    _train(session, 0, steps)
    return session.read_state()


@pytest.mark.parametrize("image", [small_image(), tiny_image()], ids=["residual", "tiny"])
def test_t16_train_save_reset_resume_is_the_uninterrupted_run(image: bytes) -> None:
    line = Loopback(pool_bytes=POOL, flash=image)
    session = Session(line, "host", PATIENCE)
    session.open_loaded(wire.Place.FLASH, image)
    _train(session, 0, 10)
    saved = session.save()
    assert saved.step == 10
    assert saved.erasures_0 + saved.erasures_1 == 1
    _train(session, 10, 13)  # power fails: these three are lost

    line.restart()
    session = Session(line, "host", PATIENCE)
    assert session.info.step == 10
    assert session.info.image_crc == int.from_bytes(image[12:16], "little")
    session.attach()
    _train(session, 10, 20)
    assert session.read_state() == _uninterrupted(image, 20)
    assert session.stats().pool_used == session.stats().pool_planned


def test_t16_an_image_in_sram_is_sent_again_and_its_state_loaded() -> None:
    image = small_image()
    line = Loopback(pool_bytes=1 << 20)
    session = Session(line, "host", PATIENCE)
    session.open(image)
    _train(session, 0, 10)
    session.save()
    info = session.reboot()
    assert (info.step, info.image_crc) == (0, None)
    session.open(image)
    fresh = session.read_state()
    assert session.load_saved().step == 10
    assert session.read_state() != fresh
    _train(session, 10, 20)
    assert session.read_state() == _uninterrupted(image, 20)
    # Opening an image always starts it anew; the saved state stays where it is.
    session.open(image)
    assert session.read_state() == fresh
    assert session.load_saved().step == 10


def test_only_the_newest_state_is_loaded_and_wear_alternates() -> None:
    image = tiny_image()
    line = Loopback(pool_bytes=POOL, flash=image)
    session = Session(line, "host", PATIENCE)
    session.open_loaded(wire.Place.FLASH, image)
    for step in range(1, 8):
        _train(session, step - 1, step)
        saved = session.save()
        assert (saved.step, saved.erasures_0, saved.erasures_1) == (
            step,
            (step + 1) // 2,
            step // 2,
        )
    line.restart()
    assert Session(line, "host", PATIENCE).info.step == 7


def test_another_image_in_flash_does_not_take_the_state() -> None:
    line = Loopback(pool_bytes=POOL, flash=small_image(1))
    session = Session(line, "host", PATIENCE)
    session.open(tiny_image())
    session.save()
    line.restart()
    session = Session(line, "host", PATIENCE)
    assert session.info.image_crc is None
    session.open_loaded(wire.Place.FLASH)
    with pytest.raises(LinkError, match="no state of the open image is saved"):
        session.load_saved()


def test_a_damaged_image_in_flash_is_not_opened_at_the_start() -> None:
    image = bytearray(tiny_image())
    line = Loopback(pool_bytes=POOL, flash=bytes(image))
    session = Session(line, "host", PATIENCE)
    session.open_loaded(wire.Place.FLASH, bytes(image))
    session.save()
    image[-1] ^= 1
    session.upload(bytes(image), wire.Place.FLASH)
    line.restart()
    assert Session(line, "host", PATIENCE).info.image_crc is None


def test_save_is_carried_out_once_however_often_it_is_sent() -> None:
    line = Loopback(pool_bytes=POOL)
    session = Session(line, "host", PATIENCE, fixed_id)
    session.open(tiny_image())
    first = session.save()
    answers = []
    # The last request once more, as a host does that has not heard the answer.
    channel = session._channel
    frame = wire.HEADER.pack(wire.VERSION, wire.SAVE.type, fixed_id(), channel._seq, 0)
    crc = zlib.crc32(frame).to_bytes(4, "little")
    from cobs import cobs

    for _ in range(3):
        line.write(b"\0" + cobs.encode(frame + crc) + b"\0")
        answers.append(line.read(0))
    assert answers[0]
    assert len(set(answers)) == 1
    assert session.save().erasures_1 == first.erasures_1 + 1


def test_a_board_without_a_store_says_so() -> None:
    session = Session(Loopback(pool_bytes=POOL, store_bytes=0), "host", PATIENCE)
    session.open(tiny_image())
    for request in (session.save, session.load_saved):
        with pytest.raises(LinkError, match="no flash for trained states") as caught:
            request()
        assert "--resume" in (caught.value.hint or "")


def test_a_state_larger_than_a_slot_does_not_fit() -> None:
    session = Session(Loopback(pool_bytes=1 << 20, store_bytes=4096), "host", PATIENCE)
    session.open(small_image())
    with pytest.raises(FitError, match="too little memory"):
        session.save()


def test_nothing_is_saved_without_an_image() -> None:
    session = Session(Loopback(pool_bytes=POOL), "host", PATIENCE)
    for request in (session.save, session.load_saved):
        with pytest.raises(LinkError, match="no image is open"):
            request()
