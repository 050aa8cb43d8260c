"""Models of the flash controllers, written from what the reference manuals say.

A model refuses what the chip would: a control register written while locked or busy, a wrong
width, a unit programmed twice, a key out of order.
"""

from __future__ import annotations

import struct

from tests.unit.stm32_model import FLASH_BASE, Drivers

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


class L4(Controller):
    """RM0351: two banks of pages, double words with error correction."""

    BASE = 0x4002_2000
    PG, PER, BKER, STRT, LOCK, BSY = 1, 2, 1 << 11, 1 << 16, 1 << 31, 1 << 16
    ECCD = 1 << 31

    def __init__(self, drivers: Drivers) -> None:
        super().__init__(drivers)
        self.nmi = drivers.lib.mct_nmi_handler
        self.cr, self.eccr, self.acr = self.LOCK, 0, 3 << 9
        self.low: tuple[int, int] | None = None  # the first word of a double word
        self.torn: set[int] = set()  # addresses of double words that do not read

    def faults(self, address: int, n: int) -> bool:
        hit = any(address < word + 8 and word < address + n for word in self.torn)
        if hit:
            assert not self.eccr, "the flag of the last one is still there"
            self.eccr = self.ECCD
            self.nmi()
            assert not self.eccr, "the interrupt would come again and again"
        return hit

    def read(self, address: int) -> int:
        at = address - self.BASE
        if at == 0x10:
            return self.errors | self.tick(self.BSY)
        return {0x00: self.acr, 0x14: self.cr, 0x18: self.eccr}[at]

    def write(self, address: int, value: int, nbytes: int) -> None:
        assert nbytes == 4
        if FLASH_BASE <= address < FLASH_BASE + (1 << 20):
            return self._word(address, value)
        at = address - self.BASE
        if at == 0x08:
            self.key(value)
        elif at == 0x10:
            assert not value & self.BSY
            self.errors &= ~value
        elif at == 0x14:
            self._control(value)
        elif at == 0x18:
            self.eccr &= ~value
        else:
            assert at == 0x00, hex(address)
            assert not value & 3 << 11 or not value & 3 << 9, "reset while they are on"
            self.acr = value
        return None

    def _word(self, address: int, value: int) -> None:
        assert self.cr == self.PG
        if self.low is None:
            assert address % 8 == 0
            self.low = (address, value)
            return
        first, low = self.low
        assert address == first + 4
        self.low = None
        self.program(first, struct.pack("<II", low, value))

    def _control(self, value: int) -> None:
        assert not self.locked, "CR is written while it is locked"
        assert not self.busy, "CR is written while BSY"
        assert self.low is None, "half a double word"
        self.cr = value
        self.locked = bool(value & self.LOCK)
        if value & self.STRT:
            assert value & ~(0xFF << 3 | self.BKER) == self.STRT | self.PER
            bank = (value & self.BKER) // self.BKER
            self.erase(FLASH_BASE + bank * (512 << 10) + (value >> 3 & 0xFF) * 0x800, 0x800)
            self.cr &= ~self.STRT


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


def model_of(drivers: Drivers) -> Controller:
    if drivers.board.hal[-1] == "stm32h7":
        return H7(drivers)
    if drivers.board.hal[-1] == "stm32f1":
        return F1(drivers)
    if drivers.board.hal[-1] == "stm32l4":
        return L4(drivers)
    return F4F7(drivers, F7_SECTORS if drivers.board.hal[-1] == "stm32f7" else F4_SECTORS)
