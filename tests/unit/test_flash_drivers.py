"""The flash drivers against models of the controllers, written from the reference manuals.

A model refuses what the chip would: a control register written while locked or busy, a wrong
width, a unit programmed twice, a key out of order.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
from tests.unit.stm32_model import FLASH_BASE, Drivers

from mcutrain.boards.table import REAL_BOARDS

KIB = 1024
KEYS = (0x4567_0123, 0xCDEF_89AB)
BUSY_READS = 3
F4_SECTORS = [16] * 4 + [64] + [128] * 7  # RM0090 (KB); the F446 has the first 8
F7_SECTORS = [32] * 4 + [128] + [256] * 3  # RM0385


class Controller:
    """What the controllers have in common: a lock, a busy time, flash that only loses ones."""

    def __init__(self, drivers: Drivers) -> None:
        self.flash = drivers.flash
        self.keys: list[int] = []
        self.locked = True
        self.busy = 0
        self.errors = 0
        self.inject = 0  # errors that the next operation reports
        self.events: list[str] = []
        self.erased: list[int] = []  # addresses of erased sectors

    def event(self, what: str) -> None:
        self.events.append(what)

    def faults(self, _address: int, _n: int) -> bool:
        return False

    def key(self, value: int) -> None:
        assert self.locked, "the key comes when the controller is locked"
        self.keys.append(value)
        assert tuple(self.keys) == KEYS[: len(self.keys)], "a wrong key locks until the reset"
        if len(self.keys) == 2:
            self.locked, self.keys = False, []

    def tick(self, bit: int) -> int:
        self.busy -= self.busy > 0
        return bit if self.busy else 0

    def start(self) -> None:
        assert not self.locked
        assert not self.busy
        self.busy = BUSY_READS
        self.errors |= self.inject

    def erase(self, address: int, size: int) -> None:
        self.start()
        if not self.inject:
            at = address - FLASH_BASE
            self.flash[at : at + size] = b"\xff" * size
            self.erased.append(address)

    def program(self, address: int, data: bytes) -> None:
        self.start()
        at = address - FLASH_BASE
        assert address % len(data) == 0
        assert self.flash[at : at + len(data)] == b"\xff" * len(data), "programmed before"
        if not self.inject:
            self.flash[at : at + len(data)] = data

    def locked_again(self) -> bool:
        return self.locked and not self.busy


class F4F7(Controller):
    """RM0090 and RM0385."""

    BASE = 0x4002_3C00
    LOCK, STRT, PG, SER, BSY = 1 << 31, 1 << 16, 1, 2, 1 << 16

    def __init__(self, drivers: Drivers, sectors: list[int]) -> None:
        super().__init__(drivers)
        self.sectors = sectors
        self.cr = self.LOCK
        self.acr = 0

    def read(self, address: int) -> int:
        at = address - self.BASE
        if at == 0x0C:
            return self.errors | self.tick(self.BSY)
        return {0x00: self.acr, 0x10: self.cr}[at]

    def write(self, address: int, value: int, nbytes: int) -> None:
        if address < FLASH_BASE + (1 << 20) and address >= FLASH_BASE:
            assert self.cr == 0x200 | self.PG, "one word at a time, PG alone"
            assert nbytes == 4
            return self.program(address, struct.pack("<I", value))
        at = address - self.BASE
        if at == 0x04:
            self.key(value)
        elif at == 0x0C:
            assert not value & self.BSY
            self.errors &= ~value
        elif at == 0x10:
            self._control(value)
        else:
            assert at == 0x00, hex(address)
            self.acr = value
        return None

    def _control(self, value: int) -> None:
        assert not self.locked, "CR is written while it is locked"
        assert not self.busy, "CR is written while BSY"
        self.cr = value
        self.locked = bool(value & self.LOCK)
        if value & self.STRT:
            assert value & ~(0xF << 3) == self.STRT | self.SER | 0x200
            number = value >> 3 & 0xF
            size = self.sectors[number] * KIB
            self.erase(FLASH_BASE + sum(self.sectors[:number]) * KIB, size)
            self.cr &= ~self.STRT


class H7(Controller):
    """RM0433: two banks, each with its registers."""

    BASE = 0x5200_2000
    LOCK, PG, SER, START = 1, 2, 4, 1 << 7
    QW, DBECCERR = 1 << 2, 1 << 26

    def __init__(self, drivers: Drivers) -> None:
        super().__init__(drivers)
        self.cr = [self.LOCK, self.LOCK]
        self.words: list[tuple[int, int]] = []
        self.masked = False
        self.torn: set[int] = set()  # addresses of flash words that do not read

    def event(self, what: str) -> None:
        super().event(what)
        self.masked = what == "mask" or (self.masked and what != "unmask")
        assert not (what == "unmask" and self.words), "an interrupt may split a flash word"

    def faults(self, address: int, n: int) -> bool:
        hit = any(address < word + 32 and word < address + n for word in self.torn)
        self.errors |= self.DBECCERR if hit else 0
        return hit

    def read(self, address: int) -> int:
        bank, at = divmod(address - self.BASE, 0x100)
        return {0x0C: self.cr[bank], 0x10: self.errors | self.tick(self.QW)}[at]

    def write(self, address: int, value: int, nbytes: int) -> None:
        assert nbytes == 4
        if address < FLASH_BASE + (2 << 20):
            return self._word(address, value)
        bank, at = divmod(address - self.BASE, 0x100)
        self.bank = bank
        if at == 0x04:
            self.key(value)
        elif at == 0x14:
            self.errors &= ~value
        else:
            assert at == 0x0C, hex(address)
            self._control(bank, value)
        return None

    def _word(self, address: int, value: int) -> None:
        assert self.cr[(address - FLASH_BASE) >> 20] == self.PG | 3 << 4
        assert self.masked
        self.words.append((address, value))
        assert [a for a, _ in self.words] == [
            self.words[0][0] + 4 * i for i in range(len(self.words))
        ]
        if len(self.words) == 8:
            self.program(self.words[0][0], struct.pack("<8I", *(v for _, v in self.words)))
            self.words = []

    def _control(self, bank: int, value: int) -> None:
        assert not self.locked
        assert not self.busy
        self.cr[bank] = value
        self.locked = bool(value & self.LOCK)
        if value & self.START:
            assert value & ~(7 << 8) == self.START | self.SER | 3 << 4
            self.erase(FLASH_BASE + bank * (1 << 20) + (value >> 8 & 7) * 128 * KIB, 128 * KIB)
            self.cr[bank] &= ~self.START


class F1(Controller):
    """PM0075: pages and half-words."""

    BASE = 0x4002_2000
    PG, PER, STRT, LOCK = 1, 2, 1 << 6, 1 << 7

    def __init__(self, drivers: Drivers) -> None:
        super().__init__(drivers)
        self.cr, self.ar = self.LOCK, 0

    def read(self, address: int) -> int:
        at = address - self.BASE
        return self.errors | self.tick(1) if at == 0x0C else {0x10: self.cr}[at]

    def write(self, address: int, value: int, nbytes: int) -> None:
        if address >= FLASH_BASE and address < FLASH_BASE + (512 << 10):
            assert (self.cr, nbytes) == (self.PG, 2)
            return self.program(address, struct.pack("<H", value))
        at = address - self.BASE
        if at == 0x04:
            self.key(value)
        elif at == 0x0C:
            self.errors &= ~value
        elif at == 0x14:
            assert self.cr == self.PER
            self.ar = value
        else:
            assert at == 0x10, hex(address)
            assert not self.locked
            assert not self.busy
            self.cr = value
            self.locked = bool(value & self.LOCK)
            if value & self.STRT:
                assert value == self.PER | self.STRT
                self.erase(self.ar & ~0x7FF, 0x800)
                self.cr &= ~self.STRT
        return None


def _model(drivers: Drivers) -> Controller:
    if drivers.board.hal[-1] == "stm32h7":
        return H7(drivers)
    if drivers.board.hal[-1] == "stm32f1":
        return F1(drivers)
    return F4F7(drivers, F7_SECTORS if drivers.board.hal[-1] == "stm32f7" else F4_SECTORS)


WITH_STORE = [board for board in REAL_BOARDS.values() if board.store is not None]
WRITE_ERROR = {"stm32f4": 1 << 4, "stm32f7": 1 << 4, "stm32h7": 1 << 17, "stm32f1": 1 << 4}


@pytest.fixture(scope="module", params=WITH_STORE, ids=lambda board: board.id)
def drivers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Drivers:
    return Drivers(request.param, tmp_path_factory.mktemp("drivers"))


@pytest.fixture
def model(drivers: Drivers) -> Controller:
    made = _model(drivers)
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


def test_an_image_over_the_link_fills_the_partition(drivers: Drivers, model: Controller) -> None:
    """In frames of 504 bytes from the first one on, the last one of any length."""
    image = _state(3, 3 * 504 + 77)
    frames = range(0, len(image), 504)
    written = [
        drivers.call("mct_hal_flash_write", at, image[at : at + 504], len(image[at : at + 504]))
        for at in frames
    ]
    if not drivers.board.image_writable:
        assert set(written) == {-1}
        assert not model.erased
        return
    at = drivers.board.image.base - FLASH_BASE
    assert set(written) == {0}
    assert drivers.flash[at : at + len(image)] == image
    assert model.erased == [drivers.board.image.base]
    size = drivers.board.image.size
    assert drivers.call("mct_hal_flash_write", size - 4, bytes(8), 8) == -1
    assert drivers.call("mct_hal_flash_write", 1, bytes(8), 8) == -1


def test_caches_do_not_keep_what_was_there(drivers: Drivers, model: Controller) -> None:
    slot = drivers.board.store
    assert slot is not None
    assert drivers.call("mct_flash_erase", slot[0].base) == 0
    if drivers.board.cpu.startswith("Cortex-M7"):
        assert model.events[-1] == "cache flushed"
    elif isinstance(model, F4F7):
        assert model.acr & (3 << 11) == 0, "the resets of the caches are over"


def test_a_flash_word_that_does_not_read_is_no_record(tmp_path: Path) -> None:
    drivers = Drivers(REAL_BOARDS["nucleo_h743zi"], tmp_path)
    model = H7(drivers)
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
