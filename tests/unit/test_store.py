"""The store of trained states: power fails at every step of 50 saves, torn in six ways."""

from __future__ import annotations

import subprocess
import zlib
from pathlib import Path
from typing import Any

import cffi
import pytest

ROOT = Path(__file__).resolve().parents[2]
STORE = ROOT / "firmware" / "store"
KERNELS = ROOT / "kernels_c"
SAVES = 50
IMAGE = 7
OK, ABSENT, ROOM, FLASH = 0, -1, -2, -3

CDEF = """
typedef struct { uint32_t sector_bytes, sectors; } mct_block_slot;
typedef struct {
    void *context; mct_block_slot slots[2]; uint32_t unit; void *read, *program, *erase;
} mct_block_device;
typedef struct { uint32_t valid, sequence, image_crc, state_bytes, state_crc; } mct_store_record;
typedef struct {
    const mct_block_device *device; mct_store_record records[2]; uint32_t erasures[2];
} mct_store;
typedef struct {
    uint8_t bytes[2][8192], programmed[2][8192], unreadable[2][8192];
    uint32_t erasures[2], steps, cut_at, tear, random, misuse, fail_at;
} flash;
uint32_t flash_bytes(void);
void *flash_new(void *f);
void make_device(void *f, mct_block_device *device, uint32_t unit, const uint32_t *sector_bytes,
                 const uint32_t *sectors);
void state_of(uint32_t number, uint8_t *state, uint32_t n);
int save(void *f, mct_block_device *device, mct_store *store, uint32_t image,
         const uint8_t *state, uint32_t n);
int cut_everywhere(void *f, const mct_block_device *device, uint32_t number, uint32_t n,
                   uint32_t *counts);
void mct_store_open(mct_store *store, const mct_block_device *device);
uint32_t mct_store_capacity(const mct_store *store);
uint32_t mct_store_find(const mct_store *store, uint32_t image_crc);
int mct_store_load(const mct_store *store, uint32_t image_crc, uint8_t *state, uint32_t bytes);
"""

# Unit, sectors of the two slots: F4, F7 (slots of different sectors), L4, H7.
GEOMETRIES = {
    "f4": (4, (1024, 1), (1024, 1)),
    "f7": (4, (512, 2), (1024, 1)),
    "l4": (8, (256, 4), (256, 4)),
    "h7": (32, (1024, 1), (1024, 1)),
}


@pytest.fixture(scope="module")
def lib(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """The store and the failing flash, compiled for this machine."""
    target = tmp_path_factory.mktemp("store") / "store.so"
    sources = [Path(__file__).with_name("store_flash.c"), *STORE.glob("*.c")]
    sources.append(KERNELS / "src" / "runtime" / "mct_crc32.c")
    flags = ["-std=c99", "-O2", "-shared", "-fPIC", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
    flags += [f"-I{STORE}", f"-I{KERNELS / 'include'}", "-fsanitize=undefined"]
    flags += ["-fno-sanitize-recover=undefined"]
    subprocess.run(["gcc", *flags, *map(str, sources), "-o", str(target)], check=True)
    ffi = cffi.FFI()
    ffi.cdef(CDEF)
    return ffi, ffi.dlopen(str(target))


class Board:
    """Flash, the device on it, and the store as the firmware has it between two starts."""

    def __init__(self, lib: tuple[Any, Any], geometry: str = "f4") -> None:
        self.ffi, self.lib = lib
        unit, first, second = GEOMETRIES[geometry]
        self._memory = self.ffi.new("char[]", self.lib.flash_bytes())
        self.flash = self.ffi.cast("flash *", self.lib.flash_new(self._memory))
        self.device = self.ffi.new("mct_block_device *")
        self.store = self.ffi.new("mct_store *")
        self.lib.make_device(
            self.flash, self.device, unit, [first[0], second[0]], [first[1], second[1]]
        )
        self.start()

    def start(self) -> None:
        self.lib.mct_store_open(self.store, self.device)

    def save(self, state: bytes, image: int = IMAGE) -> int:
        saved: int = self.lib.save(self.flash, self.device, self.store, image, state, len(state))
        return saved

    def load(self, n: int, image: int = IMAGE) -> bytes | int:
        state = self.ffi.new("uint8_t[]", n)
        status: int = self.lib.mct_store_load(self.store, image, state, n)
        return bytes(self.ffi.buffer(state)) if status == OK else status

    def state(self, number: int, n: int) -> bytes:
        state = self.ffi.new("uint8_t[]", n)
        self.lib.state_of(number, state, n)
        return bytes(self.ffi.buffer(state))


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_power_may_fail_at_every_step_of_fifty_saves(lib: tuple[Any, Any], geometry: str) -> None:
    board = Board(lib, geometry)
    n = 301  # no multiple of any unit
    counts = board.ffi.new("uint32_t[5]")
    unit = GEOMETRIES[geometry][0]
    for number in range(SAVES):
        steps = board.lib.cut_everywhere(board.flash, board.device, number, n, counts)
        used = board.device.slots[number % 2].sector_bytes
        assert steps == -(-n // unit) + 32 // unit + -(-(n + 32) // used)
        assert board.save(board.state(number, n)) == OK
        board.start()
    cuts, lost, wrong, stuck, switched = counts
    assert (lost, wrong, stuck) == (0, 0, 0), f"of {cuts} cuts"
    assert cuts > SAVES * 6 * n // unit
    # The new state is there only where power fails after, or torn into, the header's last unit.
    assert SAVES <= switched <= SAVES * 6
    assert board.flash.misuse == 0


def test_two_cuts_in_a_row_lose_nothing(lib: tuple[Any, Any]) -> None:
    """The save after an interrupted one is interrupted, too, at each step."""
    n, counts = 100, None
    for first in range(1, 35):
        for tear in range(6):
            board = Board(lib)
            for number in range(3):
                assert board.save(board.state(number, n)) == OK
            board.flash.steps, board.flash.cut_at, board.flash.tear = 0, first, tear
            board.save(board.state(3, n))
            board.flash.cut_at = 0
            board.start()
            kept = board.load(n)
            assert kept in (board.state(2, n), board.state(3, n))
            # Number so that "the state before" is the one that is kept now.
            number = 3 if kept == board.state(2, n) else 4
            counts = board.ffi.new("uint32_t[5]")
            board.lib.cut_everywhere(board.flash, board.device, number, n, counts)
            assert list(counts)[1:4] == [0, 0, 0]
            assert counts[0] > 150


def test_wear_is_counted_and_the_same_in_both_slots(lib: tuple[Any, Any]) -> None:
    board = Board(lib)
    for number in range(SAVES):
        assert board.save(board.state(number, 64)) == OK
        if number % 3 == 0:
            board.start()
        assert list(board.store.erasures) == list(board.flash.erasures)
    assert list(board.store.erasures) == [SAVES // 2, SAVES // 2]


def test_sequence_numbers_may_wrap(lib: tuple[Any, Any]) -> None:
    board = Board(lib)
    board.save(b"before")
    # The record of slot 0 as if 2^32 - 1 saves had been.
    header = bytearray(board.ffi.buffer(board.flash.bytes[0], 32))
    header[4:8] = b"\xff" * 4
    header[28:32] = zlib.crc32(header[:28]).to_bytes(4, "little")
    board.ffi.memmove(board.flash.bytes[0], bytes(header), 32)
    board.start()
    assert board.save(b"after!") == OK
    board.start()
    assert [r.sequence for r in board.store.records] == [0xFFFF_FFFF, 0]
    assert board.load(6) == b"after!"


def test_a_state_belongs_to_its_image(lib: tuple[Any, Any]) -> None:
    board = Board(lib)
    assert board.load(3) == ABSENT
    board.save(b"one", image=1)
    board.save(b"two", image=2)
    board.start()
    assert (board.load(3, image=1), board.load(3, image=2)) == (b"one", b"two")
    assert board.load(3, image=3) == ABSENT
    assert board.load(4, image=2) == ABSENT
    assert board.lib.mct_store_find(board.store, 2) == 3
    board.save(b"TWO", image=2)  # takes the slot of the older record
    board.start()
    assert (board.load(3, image=1), board.load(3, image=2)) == (ABSENT, b"TWO")


def test_any_damaged_byte_makes_the_record_before_the_newest(lib: tuple[Any, Any]) -> None:
    board = Board(lib)
    old, new = board.state(0, 50), board.state(1, 50)
    board.save(old)
    board.save(new)
    for at in range(32 + 50):
        board.flash.bytes[1][at] ^= 1 << at % 8
        board.start()
        assert board.load(50) == old, at
        board.flash.bytes[1][at] ^= 1 << at % 8
    board.start()
    assert board.load(50) == new
    board.flash.bytes[1][40] ^= 1  # after the start
    assert board.load(50) == FLASH


@pytest.mark.parametrize("step", range(1, 25))
def test_flash_that_reports_an_error_keeps_the_state_before(
    lib: tuple[Any, Any], step: int
) -> None:
    board = Board(lib)
    board.save(board.state(0, 60))
    board.flash.steps, board.flash.fail_at = 0, step
    assert board.save(board.state(1, 60)) == FLASH
    assert board.load(60) == board.state(0, 60)
    board.start()
    assert board.load(60) == board.state(0, 60)
    assert board.save(board.state(2, 60)) == OK
    assert board.load(60) == board.state(2, 60)


def test_a_state_larger_than_a_slot_is_refused(lib: tuple[Any, Any]) -> None:
    board = Board(lib)
    assert board.lib.mct_store_capacity(board.store) == 1024 - 32
    assert board.save(bytes(1024 - 31)) == ROOM
    assert board.flash.steps == 0
    assert board.save(bytes(1024 - 32)) == OK


def test_without_a_device_there_is_nothing(lib: tuple[Any, Any]) -> None:
    board = Board(lib)
    board.lib.mct_store_open(board.store, board.ffi.NULL)
    assert board.lib.mct_store_capacity(board.store) == 0
    assert board.load(3) == ABSENT
