"""Clocks of the real boards, read back from what the firmware writes into the registers.

The firmware's clock code runs on this machine over a model in which oscillators, regulators and the
PLL become ready a little after they are switched on. At the moment of the switch to the PLL every
frequency, wait state and supply setting must be inside the limits of the reference manuals below.
The limits were written from memory of those manuals, and no board here has run (docs/boards.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.unit.stm32_model import CLOCK_TURNS, Drivers
from tests.unit.test_baud import USART_HZ

from mcutrain.boards.table import BOARDS, REAL_BOARDS, Board

MHZ = 1_000_000


@dataclass(frozen=True)
class Limits:
    """What a chip allows, in MHz, at 2.7 to 3.6 V; `waits`: core (AXI for H7) up to, wait states.

    pll_in, vco: of the PLL; ahb: of memory and bus; apb1, apb2: of the peripherals.
    """

    source: str
    pll_in: tuple[float, float]
    vco: tuple[float, float]
    core: float
    ahb: float
    apb1: float
    apb2: float
    waits: tuple[tuple[float, int], ...]


def _steps(step: float, count: int) -> tuple[tuple[float, int], ...]:
    return tuple((step * (i + 1), i) for i in range(count))


LIMITS = {
    "STM32F405": Limits("RM0090", (1, 2), (100, 432), 168, 168, 42, 84, _steps(30, 6)),
    "STM32F446": Limits("RM0390", (1, 2), (100, 432), 180, 180, 45, 90, _steps(30, 6)),
    "STM32F746": Limits(
        "RM0385",
        (1, 2),
        (100, 432),
        216,
        216,
        54,
        108,
        _steps(30, 8),
    ),
    "STM32H743": Limits(
        "RM0433, voltage scale 1",
        (4, 8),
        (192, 836),
        400,
        200,
        100,
        100,
        ((70, 0), (140, 1), (210, 2)),
    ),
    "STM32L476": Limits("RM0351, range 1", (4, 16), (64, 344), 80, 80, 80, 80, _steps(16, 5)),
    "STM32F103": Limits(
        "RM0008, PM0075", (1, 25), (16, 72), 72, 72, 36, 72, ((24, 0), (48, 1), (72, 2))
    ),
}


@dataclass
class Clock:
    """Frequencies in MHz at the switch, and the settings that go with them."""

    pll_in: float
    vco: float
    core: float
    ahb: float
    apb1: float
    apb2: float
    waits: int


@dataclass
class Chip:
    """Registers that remember; bits that become ready a few reads after they are wanted."""

    board: Board
    dead: frozenset[str] = frozenset()  # what never starts
    regs: dict[int, int] = field(default_factory=dict)
    reads: int = 0
    switched: Clock | None = None
    pending: dict[tuple[int, int], int] = field(default_factory=dict)

    # (register, wanted bits, what must be in them) -> (register, ready bits, value), by name.
    def rules(self) -> dict[str, tuple[tuple[int, int, int], tuple[int, int, int]]]:
        raise NotImplementedError

    def switch_of(self) -> tuple[int, int, int]:
        """Register, mask and value that switch to the PLL."""
        raise NotImplementedError

    def decode(self) -> Clock:
        raise NotImplementedError

    def get(self, address: int) -> int:
        return self.regs.get(address, 0)

    def read(self, address: int) -> int:
        self.reads += 1
        value = self.get(address)
        for name, (want, ready) in self.rules().items():
            if ready[0] == address and (self.get(want[0]) & want[1]) == want[2]:
                left = self.pending.setdefault((address, ready[1]), 3)
                self.pending[(address, ready[1])] = left - 1
                if left <= 0 and name not in self.dead:
                    value = (value & ~ready[1]) | ready[2]
        return value

    def write(self, address: int, value: int, nbytes: int) -> None:
        assert nbytes == 4
        self.check(address, value)
        self.regs[address] = value
        register, mask, on = self.switch_of()
        if address == register and (value & mask) == on and self.switched is None:
            assert self.is_ready("pll"), "the switch comes before the PLL runs"
            self.switched = self.decode()

    def check(self, address: int, value: int) -> None:
        """What the manual forbids to write now."""

    def is_ready(self, name: str) -> bool:
        (_, (register, bits, value)) = self.rules()[name]
        before, self.reads = self.reads, self.reads
        found = (self.read(register) & bits) == value
        self.reads = before
        return found

    def event(self, what: str) -> None: ...

    def faults(self, _address: int, _n: int) -> bool:
        return False


def _divider(field_value: int, top: int) -> int:
    """Of HPRE (top 8) and PPRE (top 4) where only powers of two up to 16 are used."""
    return 1 if field_value < top else 2 << (field_value - top)


class F4F7(Chip):
    RCC, PWR, ACR = 0x4002_3800, 0x4000_7000, 0x4002_3C00
    HSI = 16

    def rules(self) -> dict[str, tuple[tuple[int, int, int], tuple[int, int, int]]]:
        rcc, pwr = self.RCC, self.PWR
        return {
            "pll": ((rcc, 1 << 24, 1 << 24), (rcc, 1 << 25, 1 << 25)),
            "od": ((pwr, 1 << 16, 1 << 16), (pwr + 4, 1 << 16, 1 << 16)),
            "odsw": ((pwr, 1 << 17, 1 << 17), (pwr + 4, 1 << 17, 1 << 17)),
            "sws": ((rcc + 8, 3, 2), (rcc + 8, 3 << 2, 2 << 2)),
        }

    def switch_of(self) -> tuple[int, int, int]:
        return self.RCC + 8, 3, 2

    def check(self, address: int, value: int) -> None:
        if address == self.RCC + 4:
            assert not self.get(self.RCC) & 1 << 24, "the PLL is on"
            assert value >> 28 == 2, "reserved bits keep their reset value"
            assert not value >> 22 & 1, "the source is the internal oscillator"
        if address == self.PWR:
            assert self.get(self.RCC + 0x40) & 1 << 28, "PWR has no clock"
            assert not value & 1 << 17 or self.is_ready("od"), "ODSWEN comes before ODRDY"

    def decode(self) -> Clock:
        pllcfgr, cfgr = self.get(self.RCC + 4), self.get(self.RCC + 8)
        m, n, p = pllcfgr & 0x3F, pllcfgr >> 6 & 0x1FF, 2 * ((pllcfgr >> 16 & 3) + 1)
        core = self.HSI / m * n / p
        overdrive = self.is_ready("odsw") and self.is_ready("od")
        assert core <= {"STM32F746": 180}.get(self.board.chip[:9], 168) or overdrive
        ahb = core / _divider(cfgr >> 4 & 0xF, 8)
        apb1, apb2 = _divider(cfgr >> 10 & 7, 4), _divider(cfgr >> 13 & 7, 4)
        return Clock(
            self.HSI / m,
            self.HSI / m * n,
            core,
            ahb,
            ahb / apb1,
            ahb / apb2,
            self.get(self.ACR) & 15,
        )


class H7(Chip):
    RCC, PWR, ACR = 0x5802_4400, 0x5802_4800, 0x5200_2000

    def rules(self) -> dict[str, tuple[tuple[int, int, int], tuple[int, int, int]]]:
        rcc, pwr = self.RCC, self.PWR
        return {
            "supply": ((pwr + 0xC, 7, 2), (pwr + 4, 1 << 13, 1 << 13)),
            "vos": ((pwr + 0x18, 3 << 14, 3 << 14), (pwr + 0x18, 1 << 13, 1 << 13)),
            "pll": ((rcc, 1 << 24, 1 << 24), (rcc, 1 << 25, 1 << 25)),
            "sws": ((rcc + 0x10, 7, 3), (rcc + 0x10, 7 << 3, 3 << 3)),
        }

    def switch_of(self) -> tuple[int, int, int]:
        return self.RCC + 0x10, 7, 3

    def check(self, address: int, _value: int) -> None:
        if address in (self.RCC + 0x28, self.RCC + 0x2C, self.RCC + 0x30):
            assert not self.get(self.RCC) & 1 << 24, "the PLL is on"
        if address == self.PWR + 0x18:
            assert self.is_ready("supply"), "the voltage scale comes before the supply"

    def decode(self) -> Clock:
        assert self.is_ready("vos")
        assert self.get(self.RCC + 0x28) & 3 == 0, "the source is the internal oscillator"
        cfgr, divr = self.get(self.RCC + 0x2C), self.get(self.RCC + 0x30)
        assert cfgr & 1 << 16, "output P is on"
        assert not cfgr & 1 << 1, "the wide VCO"
        assert cfgr >> 2 & 3 == 2, "the range of the input is 4 to 8 MHz"
        pll_in = 64 / (self.get(self.RCC + 0x28) >> 4 & 0x3F)
        vco = pll_in * ((divr & 0x1FF) + 1)
        core = vco / ((divr >> 9 & 0x7F) + 1) / _divider(self.get(self.RCC + 0x18) >> 8 & 15, 8)
        ahb = core / _divider(self.get(self.RCC + 0x18) & 15, 8)
        d2 = self.get(self.RCC + 0x1C)
        buses = [ahb / _divider(d2 >> at & 7, 4) for at in (4, 8)]
        for register, at in ((0x18, 4), (0x20, 4)):  # APB3 and APB4
            assert ahb / _divider(self.get(self.RCC + register) >> at & 7, 4) <= 100
        assert self.get(self.ACR) >> 4 & 3 == 2, "WRHIGHFREQ for more than 185 MHz"
        return Clock(pll_in, vco, core, ahb, buses[0], buses[1], self.get(self.ACR) & 15)


class L4(Chip):
    RCC, ACR = 0x4002_1000, 0x4002_2000

    def rules(self) -> dict[str, tuple[tuple[int, int, int], tuple[int, int, int]]]:
        rcc = self.RCC
        return {
            "hsi": ((rcc, 1 << 8, 1 << 8), (rcc, 1 << 10, 1 << 10)),
            "pll": ((rcc, 1 << 24, 1 << 24), (rcc, 1 << 25, 1 << 25)),
            "sws": ((rcc + 8, 3, 3), (rcc + 8, 3 << 2, 3 << 2)),
        }

    def switch_of(self) -> tuple[int, int, int]:
        return self.RCC + 8, 3, 3

    def check(self, address: int, value: int) -> None:
        if address == self.RCC + 0xC:
            assert not self.get(self.RCC) & 1 << 24, "the PLL is on"
            assert self.is_ready("hsi")
            assert value & 3 == 2, "the source is the internal oscillator"
            assert value & 1 << 24, "output R is on"

    def decode(self) -> Clock:
        pllcfgr, cfgr = self.get(self.RCC + 0xC), self.get(self.RCC + 8)
        pll_in = 16 / ((pllcfgr >> 4 & 7) + 1)
        vco = pll_in * (pllcfgr >> 8 & 0x7F)
        core = vco / (2 * ((pllcfgr >> 25 & 3) + 1))
        ahb = core / _divider(cfgr >> 4 & 15, 8)
        apb = [ahb / _divider(cfgr >> at & 7, 4) for at in (8, 11)]
        return Clock(pll_in, vco, core, ahb, apb[0], apb[1], self.get(self.ACR) & 7)


class F1(Chip):
    RCC, ACR = 0x4002_1000, 0x4002_2000

    def rules(self) -> dict[str, tuple[tuple[int, int, int], tuple[int, int, int]]]:
        rcc = self.RCC
        return {
            "hse": ((rcc, 1 << 16, 1 << 16), (rcc, 1 << 17, 1 << 17)),
            "pll": ((rcc, 1 << 24, 1 << 24), (rcc, 1 << 25, 1 << 25)),
            "sws": ((rcc + 4, 3, 2), (rcc + 4, 3 << 2, 2 << 2)),
        }

    def switch_of(self) -> tuple[int, int, int]:
        return self.RCC + 4, 3, 2

    def check(self, address: int, value: int) -> None:
        if address == self.RCC + 4 and self.get(self.RCC) & 1 << 24:
            changed = value ^ self.get(address)
            assert not changed & 0x3F << 16, "source and factor change while the PLL is on"

    def decode(self) -> Clock:
        cfgr = self.get(self.RCC + 4)
        assert not cfgr >> 16 & 1 or self.is_ready("hse")
        pll_in = 8.0 if cfgr >> 16 & 1 else 4.0
        core = pll_in * ((cfgr >> 18 & 15) + 2)
        ahb = core / _divider(cfgr >> 4 & 15, 8)
        apb = [ahb / _divider(cfgr >> at & 7, 4) for at in (8, 11)]
        return Clock(pll_in, core, core, ahb, apb[0], apb[1], self.get(self.ACR) & 7)


CHIPS = {"stm32f4": F4F7, "stm32f7": F4F7, "stm32h7": H7, "stm32l4": L4, "stm32f1": F1}
RESET_MHZ = {"stm32f4": 16, "stm32f7": 16, "stm32h7": 64, "stm32l4": 4, "stm32f1": 8}
STM32 = [*REAL_BOARDS.values(), BOARDS["qemu:netduinoplus2"]]


@pytest.fixture(scope="module", params=STM32, ids=lambda board: board.id)
def drivers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Drivers:
    return Drivers(request.param, tmp_path_factory.mktemp("clock"))


def _start(drivers: Drivers, *dead: str) -> tuple[Chip, int]:
    chip = CHIPS[drivers.board.hal[-1]](drivers.board, frozenset(dead))
    drivers.attach(chip)
    return chip, drivers.call("mct_clock_start")


def _usart_mhz(board: Board, clock: Clock) -> float:
    return clock.apb2 if board.serial == "USART1" else clock.apb1


def test_every_clock_is_inside_the_limits_of_the_manual(drivers: Drivers) -> None:
    board = drivers.board
    chip, usart_hz = _start(drivers)
    clock, limits = chip.switched, LIMITS[board.chip[:9]]
    assert clock is not None
    assert limits.pll_in[0] <= clock.pll_in <= limits.pll_in[1]
    assert limits.vco[0] <= clock.vco <= limits.vco[1]
    assert clock.core == limits.core, "the rated speed"
    assert board.clock_hz in (clock.core * MHZ, 0)
    assert clock.ahb <= limits.ahb
    assert clock.apb1 <= limits.apb1
    assert clock.apb2 <= limits.apb2
    needed = next(waits for top, waits in limits.waits if clock.ahb <= top)
    assert clock.waits == needed
    assert usart_hz == pytest.approx(_usart_mhz(board, clock) * MHZ, abs=1)
    assert usart_hz == USART_HZ.get(board.id, usart_hz), "what test_baud takes for it"
    divider = round(usart_hz / board.baud)
    assert 16 <= divider < 65536
    assert abs(usart_hz / divider / board.baud - 1) < 0.005


@pytest.mark.parametrize("dead", ["pll", "sws"])
def test_a_pll_that_never_starts_leaves_a_clock_that_runs(drivers: Drivers, dead: str) -> None:
    chip, usart_hz = _start(drivers, dead)
    reset = RESET_MHZ[drivers.board.hal[-1]] * MHZ
    register, mask, on = chip.switch_of()
    assert chip.get(register) & mask != on, "the switch is taken back"
    # Where the dividers are set already they count.
    assert usart_hz in (reset, reset // 4)
    assert chip.reads < 2 * CLOCK_TURNS, "the wait is bounded"
    assert abs(usart_hz / round(usart_hz / 115200) / 115200 - 1) < 0.02


def test_an_f103_without_a_crystal_runs_from_its_own_oscillator(tmp_path: Path) -> None:
    drivers = Drivers(REAL_BOARDS["genericSTM32F103RE"], tmp_path)
    chip, usart_hz = _start(drivers, "hse")
    assert chip.switched is not None
    assert chip.switched.core == 64
    assert usart_hz == 64 * MHZ


NEEDS = {  # beside the PLL, for the rated speed
    "nucleo_f446re": ("od", "odsw"),
    "disco_f746ng": ("od", "odsw"),
    "nucleo_h743zi": ("supply", "vos"),
    "nucleo_l476rg": ("hsi",),
}


@pytest.mark.parametrize("board", NEEDS)
def test_what_the_rated_speed_needs_is_waited_for(board: str, tmp_path: Path) -> None:
    drivers = Drivers(REAL_BOARDS[board], tmp_path)
    for dead in NEEDS[board]:
        chip, usart_hz = _start(drivers, dead)
        assert chip.switched is None, dead
        assert usart_hz == RESET_MHZ[drivers.board.hal[-1]] * MHZ


def test_pins_of_the_usart_are_given_to_it(drivers: Drivers) -> None:
    """The two pins are in alternate mode; the port and the USART have a clock."""
    chip, _ = _start(drivers)
    drivers.call("mct_pins_start")
    written = {a: v for a, v in chip.regs.items() if v}
    if drivers.board.hal[-1] == "stm32f1":
        assert written[0x4001_0804] & 0xFF0 == 0x8B0  # CRH: PA10 pulled, PA9 alternate 50 MHz
        assert written[0x4001_080C] == 1 << 10
        assert written[0x4002_1018] == 1 | 1 << 2 | 1 << 14
        return
    gpio = {"stm32h7": 0x5802_0000, "stm32l4": 0x4800_0000}.get(drivers.board.hal[-1], 0x4002_0000)
    pins = {  # of the ST-Link's port by the boards' user manuals
        "disco_f746ng": ("A9", "B7"),
        "nucleo_h743zi": ("D8", "D9"),
        "nucleo_f446re": ("A2", "A3"),
        "nucleo_l476rg": ("A2", "A3"),
    }.get(drivers.board.id, ("A9", "A10"))
    for name in pins:
        base, pin = gpio + "ABCD".index(name[0]) * 0x400, int(name[1:])
        assert written[base] >> 2 * pin & 3 == 2
        assert written[base + 0x20 + 4 * (pin // 8)] >> 4 * (pin % 8) & 15 == 7
