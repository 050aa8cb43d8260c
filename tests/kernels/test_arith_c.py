"""The integer arithmetic of mct_arith.h against Python's unbounded integers.

The expectations are written from the specification's formulas, in numbers that cannot overflow.
"""

from __future__ import annotations

import itertools
import random
import struct
from typing import Any

import pytest

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
EDGES = [0, 1, -1, 2, -2, 127, -127, 255, 2**15, -(2**15), 2**30, -(2**30), INT32_MAX, -INT32_MAX]


def sat(v: int, lo: int, hi: int) -> int:
    return max(lo, min(hi, v))


def float_bits(x: float) -> int:
    return int.from_bytes(struct.pack("<f", x), "little")


@pytest.mark.parametrize(
    ("acc", "mult", "shift", "z", "expected"),
    [
        (-5, 2**31 - 1, 0, 3, 1),
        (5, 2**30, 0, 0, 1),
        (6, 2**30, 0, 0, 2),
        (-6, 2**30, 0, 0, -1),
        (INT32_MAX, INT32_MAX, 0, 0, 2**30 - 1),
        (-INT32_MAX, INT32_MAX, 0, 0, -(2**30) + 1),
        (3, 1073741824, 2, -128, -125),  # m = 1.0
    ],
)
def test_requantize_of_the_specification(
    kernels: Any, acc: int, mult: int, shift: int, z: int, expected: int
) -> None:
    assert kernels.lib.mct_requantize(acc, mult, shift, z) == expected


def test_requantize_is_one_rounding_half_up(kernels: Any) -> None:
    rng = random.Random(1)
    for _ in range(20000):
        shift = rng.randrange(16)
        acc = rng.choice([rng.randint(-(2**31 >> shift), INT32_MAX >> shift), rng.choice(EDGES)])
        if abs(acc) > INT32_MAX >> shift:
            continue
        mult = rng.choice([rng.randint(0, INT32_MAX), 1 << rng.randrange(31), INT32_MAX])
        z = rng.randint(-128, 127)
        expected = z + (((acc << shift) * mult + 2**31) >> 32)
        assert kernels.lib.mct_requantize(acc, mult, shift, z) == expected, (acc, mult, shift)


@pytest.mark.parametrize(("h", "expected"), [(0, 0), (1, 0x688990C0), (0xDEADBEEF, 0xE628C683)])
def test_mix32(kernels: Any, h: int, expected: int) -> None:
    assert kernels.lib.mct_mix32(h) == expected


def test_random_bits_are_halves_of_a_mixed_counter(kernels: Any) -> None:
    mix = kernels.lib.mct_mix32
    key = kernels.lib.mct_random_key(7, 1000, 3)
    assert key == mix(mix(mix(7) ^ 1000) ^ 3)
    for i in (0, 1, 2, 3, 1000, 2**31 - 1, 2**32 - 1):
        pair = mix((key + 0x9E3779B9 * (i >> 1)) % 2**32)
        assert kernels.lib.mct_random16(key, i) == (pair >> 16 if i & 1 else pair & 0xFFFF)


def test_lb(kernels: Any) -> None:
    assert [kernels.lib.mct_lb(a) for a in (1, 64, 127, 256)] == [0, 1536, 1788, 2048]
    for a in range(1, 257):
        msb = a.bit_length() - 1
        assert kernels.lib.mct_lb(a) == 256 * msb + int((a / 2**msb - 1) * 256)


def test_mask_bits_do_not_touch_their_neighbours(kernels: Any) -> None:
    for i, on, before in itertools.product(range(24), (0, 1), (0, 0xA5, 0xFF)):
        mask = kernels.ffi.new("uint8_t[3]", [before] * 3)
        kernels.lib.mct_mask_put(mask, i, on)
        value = int.from_bytes(bytes(mask), "little")
        untouched = before * 0x010101 & ~(1 << i)
        assert value == untouched | on << i
        assert kernels.lib.mct_mask_get(mask, i) == on
    assert kernels.lib.mct_mask_get(kernels.ffi.NULL, 5) == 1


@pytest.mark.parametrize("mant", [0, 2**30, 2**30 + 1, 1610612736, INT32_MAX])
def test_error_multiplier(kernels: Any, mant: int) -> None:
    for n in range(41):
        e_out = n + 32 - 8 - 31 + (-20)
        expected = 0 if n > 31 else mant if n == 0 else (mant + 2 ** (n - 1)) >> n
        assert kernels.lib.mct_error_multiplier(mant, 31, 8, e_out, -20) == expected, n


def test_align(kernels: Any) -> None:
    for q, d in itertools.product((-128, -127, -1, 0, 1, 127), range(-80, 80)):
        expected = q << min(d, 54) if d >= 0 else q >> min(-d, 31)
        assert kernels.lib.mct_align(q, d - 32 + 5, 5) == expected, (q, d)


def test_exponent_floor_is_of_the_smallest_live_group(kernels: Any) -> None:
    mant = kernels.ffi.new("int32_t[]", [0, 2**30, 2**30])
    exp = kernels.ffi.new("int8_t[]", [-90, 40, 37])
    assert kernels.lib.mct_exponent_floor(mant, exp, 3, 7, -12) == -12 + 32 - 7 - 37
    assert kernels.lib.mct_exponent_floor(mant, exp, 1, 7, -12) == INT32_MIN


def test_error_exponent(kernels: Any) -> None:
    for l_top, p in itertools.product((-32256, -1000, 0, 1, 255, 32767), (-32768, -3, 0, 32767)):
        e = (l_top + p + 85 - 1788 + 255) >> 8
        assert kernels.lib.mct_error_exponent(l_top, p, INT32_MIN) == e
        assert kernels.lib.mct_error_exponent(l_top, p, e + 3) == e + 3
    assert kernels.lib.mct_error_exponent(0, 0, 2**20) == 2**15 - 1


def test_an_exponent_leaves_room_for_what_its_predictor_expects(kernels: Any) -> None:
    """amax as predicted lands at or below the rail, and above a quarter of it."""
    for expected in range(-4000, 4000, 7):
        e = kernels.lib.mct_error_exponent(1000, expected - 1000, INT32_MIN)
        amax = 2.0 ** (expected / 256 - e)
        assert 127 / 4 < amax <= 127


def test_predictor_rises_at_once_and_falls_by_a_sixteenth(kernels: Any) -> None:
    update = kernels.lib.mct_predictor_update
    assert update(-500, -10, 0, 0) == -500
    assert update(-500, 0, 64, 0) == 1536
    assert update(2000, 0, 64, 0) == 2000 + ((1536 - 2000) >> 4)
    assert update(1537, 0, 64, 0) == 1536  # a floor, not a truncation: it does arrive
    assert update(0, 32767, 256, 0) == 32767
    assert update(-32768, -32768, 1, 32767) == -32768


@pytest.mark.parametrize("lr", [0.0, 1.0, 0.1 / 256, 2.0**-126, 2.0**-127, 3.4e38, 1e-45])
def test_rate(kernels: Any, lr: float) -> None:
    bits = float_bits(lr)
    (value,) = struct.unpack("<f", struct.pack("<f", lr))
    mant, exp = kernels.lib.mct_rate_mant(bits), kernels.lib.mct_rate_exp(bits)
    if value < 2.0**-126:
        assert mant == 0
    else:
        assert mant * 2.0**-exp == value
        assert 2**30 <= mant < 2**31
    if lr == 1.0:
        assert (mant, exp) == (2**30, 30)


def test_step_multiplier(kernels: Any) -> None:
    rng = random.Random(2)
    edges = [0, 2**30, 2**30 + 1, INT32_MAX]
    random_pairs = [
        (rng.randint(2**30, INT32_MAX), rng.randint(2**30, INT32_MAX)) for _ in range(999)
    ]
    for mc, ml in [*itertools.product(edges, edges), *random_pairs]:
        assert kernels.lib.mct_step_mult(mc, ml) == (mc * ml + 2**30) >> 31
    assert kernels.lib.mct_step_shift(31, 30, -20, 8) == 31 + 30 - 31 + 20 - 8


def step(d: int, m: int, s: int, r: int) -> int:
    """Section 8 in unbounded integers."""
    v = d * m
    if m == 0 or s >= 63:
        return 0
    if s <= 0:
        return sat(v << -s, -INT32_MAX, INT32_MAX)
    return sat((v + (r << (s - 16) if s >= 16 else r >> (16 - s))) >> s, -INT32_MAX, INT32_MAX)


def test_t30_step_of_every_shift_equals_big_integers(kernels: Any) -> None:
    """Shifts of 31 and more, of both signs, are defined: they saturate or give 0."""
    for d, m, s, r in itertools.product(
        (INT32_MIN, *EDGES), (0, 1, 2**30, INT32_MAX), range(-70, 71), (0, 1, 0x8000, 0xFFFF)
    ):
        assert kernels.lib.mct_step(d, m, s, r) == step(d, m, s, r), (d, m, s, r)


def test_t30_step_of_extreme_shifts(kernels: Any) -> None:
    for s in (INT32_MIN, -1000, 1000, INT32_MAX):
        for d in (-3, 0, 3):
            expected = 0 if s > 0 or d == 0 else sat(d * 2**100, -INT32_MAX, INT32_MAX)
            assert kernels.lib.mct_step(d, 2**30, s, 5) == expected


def test_step_of_random_values_equals_big_integers(kernels: Any) -> None:
    rng = random.Random(3)
    for _ in range(50000):
        d = rng.randint(INT32_MIN, INT32_MAX) >> rng.randrange(32)
        m, s, r = rng.randint(2**29, INT32_MAX), rng.randint(-31, 63), rng.randrange(2**16)
        assert kernels.lib.mct_step(d, m, s, r) == step(d, m, s, r), (d, m, s, r)


def test_rounding_of_a_step_is_unbiased(kernels: Any) -> None:
    """Over all 65,536 random numbers, a step of 2.25 rounds up a quarter of the time."""
    for d in (9, -9):
        steps = [kernels.lib.mct_step(d, 2**30, 32, r) for r in range(2**16)]
        assert sum(steps) / 2**16 == d / 4
        assert set(steps) == ({2, 3} if d > 0 else {-3, -2})
