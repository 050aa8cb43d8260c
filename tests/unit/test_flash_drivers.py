"""The flash drivers against models of the controllers (stm32_model/flash.py)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.unit.stm32_model import FLASH_BASE, Drivers
from tests.unit.stm32_model.flash import (
    F4_SECTORS,
    F4F7,
    F7_SECTORS,
    H7,
    KIB,
    L4,
    Controller,
    model_of,
)

from mcutrain.boards.table import REAL_BOARDS

WITH_STORE = [board for board in REAL_BOARDS.values() if board.store is not None]
WRITE_ERROR = {"stm32f4": 1 << 4, "stm32f7": 1 << 4, "stm32h7": 1 << 17, "stm32f1": 1 << 4}
WRITE_ERROR["stm32l4"] = 1 << 4


@pytest.fixture(scope="module", params=WITH_STORE, ids=lambda board: board.id)
def drivers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Drivers:
    return Drivers(request.param, tmp_path_factory.mktemp("drivers"))


@pytest.fixture
def model(drivers: Drivers) -> Controller:
    made = model_of(drivers)
    drivers.attach(made)
    return made


def _state(seed: int, n: int = 700) -> bytes:
    return random.Random(seed).randbytes(n)


def test_a_save_erases_its_slot_alone_and_reads_back(drivers: Drivers, model: Controller) -> None:
    store = drivers.ffi.new("mct_store *")
    drivers.call("mct_store_open", store, drivers.call("mct_hal_store"))
    slots = drivers.board.store
    assert slots is not None
    assert drivers.call("mct_store_capacity", store) == min(s.region.size for s in slots) - 32
    for number in range(4):
        model.erased.clear()
        state = _state(number)
        assert drivers.call("mct_store_save", store, 9, state, len(state)) == 0
        assert model.erased == [slots[number % 2].base], "one sector is enough for this state"
        assert model.locked_again()
        drivers.call("mct_store_open", store, drivers.call("mct_hal_store"))
        got = drivers.ffi.new("uint8_t[]", len(state))
        assert drivers.call("mct_store_load", store, 9, got, len(state)) == 0
        assert bytes(drivers.ffi.buffer(got)) == state


def test_a_large_state_erases_as_many_sectors_as_it_needs(
    drivers: Drivers, model: Controller
) -> None:
    store = drivers.ffi.new("mct_store *")
    slots = drivers.board.store
    assert slots is not None
    drivers.call("mct_store_open", store, drivers.call("mct_hal_store"))
    state = _state(5, min(slots[0].region.size, 40 * KIB) - 32)
    assert drivers.call("mct_store_save", store, 9, state, len(state)) == 0
    count = -(-(len(state) + 32) // slots[0].sector)
    assert model.erased == [slots[0].base + i * slots[0].sector for i in range(count)]


def test_errors_of_the_controller_reach_the_caller(drivers: Drivers, model: Controller) -> None:
    store = drivers.ffi.new("mct_store *")
    slots = drivers.board.store
    assert slots is not None
    drivers.call("mct_store_open", store, drivers.call("mct_hal_store"))
    assert drivers.call("mct_store_save", store, 9, b"kept", 4) == 0
    model.inject = WRITE_ERROR[drivers.board.hal[-1]]
    assert drivers.call("mct_flash_erase", slots[1].base) == -1
    assert model.locked_again()
    assert drivers.call("mct_flash_program", slots[1].base, bytes(32)) == -1
    assert drivers.call("mct_store_save", store, 9, b"lost", 4) == -3
    model.inject = 0
    # Errors of before are cleared, so that the next operation is judged by its own.
    assert drivers.call("mct_store_save", store, 9, b"next", 4) == 0
    got = drivers.ffi.new("uint8_t[4]")
    assert drivers.call("mct_store_load", store, 9, got, 4) == 0
    assert bytes(drivers.ffi.buffer(got)) == b"next"


def test_every_sector_is_found_by_its_first_address(drivers: Drivers, model: Controller) -> None:
    sizes = {
        "stm32f4": [s * KIB for s in F4_SECTORS],
        "stm32f7": [s * KIB for s in F7_SECTORS],
        "stm32h7": [128 * KIB] * 16,
        "stm32f1": [2 * KIB] * 256,
        "stm32l4": [2 * KIB] * 512,
    }[drivers.board.hal[-1]]
    starts = {FLASH_BASE + sum(sizes[:i]): size for i, size in enumerate(sizes)}
    for address, size in starts.items():
        assert drivers.call("mct_flash_sector", address) == size
        assert drivers.call("mct_flash_sector", address + size // 2) == 0
        model.erased.clear()
        assert drivers.call("mct_flash_erase", address) == 0
        assert model.erased == [address]
    for slot in drivers.board.store or ():
        for i in range(slot.sectors):
            assert starts[slot.base + i * slot.sector] == slot.sector
    assert drivers.board.image.base in starts


@pytest.mark.parametrize("frame", [504, 248, 13])
def test_an_image_over_the_link_fills_the_partition(
    drivers: Drivers, model: Controller, frame: int
) -> None:
    """In frames of any size from the first byte on; an unfinished image is begun anew."""
    assert drivers.board.image_writable
    image = _state(3, 3 * 504 + 77)

    def send(data: bytes) -> set[int]:
        parts = [(at, data[at : at + frame]) for at in range(0, len(data), frame)]
        write, end = "mct_hal_flash_write", len(image)
        return {drivers.call(write, at, p, len(p), at + len(p) == end) for at, p in parts}

    assert send(image[: 3 * frame]) == {0}
    assert send(image) == {0}
    at = drivers.board.image.base - FLASH_BASE
    assert drivers.flash[at : at + len(image)] == image
    assert model.erased == [drivers.board.image.base] * 2
    assert model.locked_again()


def test_an_image_is_written_in_order_and_inside_the_partition(
    drivers: Drivers, model: Controller
) -> None:
    size = drivers.board.image.size
    assert drivers.call("mct_hal_flash_write", size - 4, bytes(8), 8, True) == -1
    assert drivers.call("mct_hal_flash_write", 1, bytes(8), 8, True) == -1
    model.inject = WRITE_ERROR[drivers.board.hal[-1]]
    assert drivers.call("mct_hal_flash_write", 0, bytes(64), 64, True) == -1
    assert model.locked_again()


def test_caches_do_not_keep_what_was_there(drivers: Drivers, model: Controller) -> None:
    slot = drivers.board.store
    assert slot is not None
    assert drivers.call("mct_flash_erase", slot[0].base) == 0
    if drivers.board.cpu.startswith("Cortex-M7"):
        assert model.events[-1] == "cache flushed"
    elif isinstance(model, F4F7 | L4):
        assert model.acr & (3 << 11) == 0, "the resets of the caches are over"


@pytest.mark.parametrize(("board", "kind"), [("nucleo_h743zi", H7), ("nucleo_l476rg", L4)])
def test_a_flash_word_that_does_not_read_is_no_record(
    board: str, kind: type[H7 | L4], tmp_path: Path
) -> None:
    drivers = Drivers(REAL_BOARDS[board], tmp_path)
    model = kind(drivers)
    drivers.attach(model)
    store = drivers.ffi.new("mct_store *")
    slots = drivers.board.store
    assert slots is not None
    drivers.call("mct_store_open", store, drivers.call("mct_hal_store"))
    for state in (b"old", b"new"):
        assert drivers.call("mct_store_save", store, 9, state, 3) == 0
    for torn in (slots[1].base, slots[1].base + 32):
        model.torn = {torn}
        drivers.call("mct_store_open", store, drivers.call("mct_hal_store"))
        got = drivers.ffi.new("uint8_t[3]")
        assert drivers.call("mct_store_load", store, 9, got, 3) == 0
        assert bytes(drivers.ffi.buffer(got)) == b"old"
        assert not model.errors, "the next read is judged by its own error"
