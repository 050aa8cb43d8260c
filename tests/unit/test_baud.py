"""Dividers of the UARTs, in C, for every board's clock: within 2 %, or refused."""

from __future__ import annotations

import importlib.util
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import cffi
import pytest

from mcutrain.link.channel import RATES, START_BAUD

ROOT = Path(__file__).resolve().parents[2]
MHZ = 1_000_000

# The clock of the USART that the board table names, at the board's rated speed.
USART_HZ = {
    "disco_f746ng": 108 * MHZ,
    "nucleo_h743zi": 100 * MHZ,
    "nucleo_f446re": 45 * MHZ,
    "genericSTM32F405RG": 84 * MHZ,
    "nucleo_l476rg": 80 * MHZ,
    "genericSTM32F103RE": 72 * MHZ,
    "mps2": 25 * MHZ,
    "netduinoplus2 in QEMU": 16 * MHZ,
}


@pytest.fixture(scope="module")
def divider(tmp_path_factory: pytest.TempPathFactory) -> Any:
    ffi = cffi.FFI()
    ffi.cdef("uint32_t mct_baud_divider(uint32_t hz, uint32_t baud);")
    firmware = ROOT / "firmware"
    ffi.set_source(
        "_baud",
        '#include "cortexm.h"',
        sources=[str(firmware / "hal" / "cortexm" / "baud.c")],
        include_dirs=[str(firmware / name) for name in ("hal/cortexm", "hal", "store")],
    )
    path = ffi.compile(tmpdir=str(tmp_path_factory.mktemp("baud")))
    spec = importlib.util.spec_from_file_location("_baud", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.lib.mct_baud_divider


def error_of(hz: int, baud: int, divider: int) -> Fraction:
    return abs(Fraction(hz, divider) / baud - 1)


def test_a_divider_is_the_nearest_or_none_is_good_enough(divider: Any) -> None:
    rng = random.Random(0)
    refused = 0
    for _ in range(20_000):
        hz = rng.randrange(1, 250) * MHZ + rng.randrange(MHZ)
        baud = rng.choice((rng.randrange(1, 5_000_000), rng.randrange(1, 2**32), *RATES))
        nearest = (2 * hz + baud) // (2 * baud)
        good = 16 <= nearest <= 0xFFFF and error_of(hz, baud, nearest) <= Fraction(1, 50)
        got = divider(hz, baud)
        refused += not good
        assert got == (nearest if good else 0), (hz, baud)
    assert 1000 < refused < 19_000


@pytest.mark.parametrize("board", USART_HZ)
def test_what_each_board_can_make(divider: Any, board: str) -> None:
    hz = USART_HZ[board]
    made = {baud for baud in (*RATES, START_BAUD) if divider(hz, baud)}
    assert {START_BAUD, 230_400, 460_800, 1_000_000} <= made
    refused = {
        "nucleo_f446re": {2_000_000},  # 45 MHz / 22.5
        "mps2": {2_000_000},
        "netduinoplus2 in QEMU": {2_000_000, 1_500_000, 921_600},
    }
    assert set(RATES) - made == refused.get(board, set())
    for baud in made:
        assert error_of(hz, baud, divider(hz, baud)) <= Fraction(1, 50)
