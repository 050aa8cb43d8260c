"""ir/arith.py against the specification: golden vectors, and oracles in unbounded integers."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcutrain.errors import InputError, UnsupportedError
from mcutrain.ir import arith, vectors

GOLDEN = Path(__file__).parents[1] / "golden" / "arithmetic.json"
INT32 = st.integers(-(2**31) + 1, 2**31 - 1)
DETERMINISTIC = settings(max_examples=300, derandomize=True, deadline=None)


def test_golden_file_is_what_numpy_computes() -> None:
    assert json.loads(GOLDEN.read_text()) == json.loads(vectors.text())


def test_hand_made_vectors_of_the_specification() -> None:
    assert [int(v) for v in arith.multiplier(0.3)] == [1288490189, 0]
    assert [int(v) for v in arith.multiplier(1.0)] == [1073741824, 2]
    assert arith.requantize(-5, 2**31 - 1, 0, 3) == 1
    assert [int(arith.requantize(a, 2**30, 0, 0)) for a in (5, 6, -6)] == [1, 2, -1]
    assert [int(v) for v in arith.fixed(1.0)] == [2**30, 30]
    assert [int(v) for v in arith.fixed(0.75)] == [1610612736, 31]
    assert [arith.lb(a) for a in (127, 64, 1, 256)] == [1788, 1536, 0, 2048]
    assert arith.mix32([0, 1, 0xDEADBEEF]).tolist() == [0, 0x688990C0, 0xE628C683]
    assert arith.rate(1.0) == (2**30, 30)


@DETERMINISTIC
@given(st.floats(2.0**-60, 2.0**60))
def test_fixed_is_the_nearest_mantissa(v: float) -> None:
    mant, e = (int(x) for x in arith.fixed(v))
    assert 2**30 <= mant < 2**31
    assert abs(Fraction(v) - Fraction(mant) / Fraction(2) ** e) <= Fraction(1, 2) / Fraction(2) ** e


@DETERMINISTIC
@given(st.floats(0, 16000))
def test_multiplier_has_the_smallest_shift(m: float) -> None:
    mult, k = (int(x) for x in arith.multiplier(m))
    exact = Fraction(m) * 2**32 / 2**k
    assert abs(exact - mult) <= Fraction(1, 2)
    assert 0 <= mult < 2**31
    assert k == 0 or round(Fraction(m) * 2**32 / 2 ** (k - 1)) >= 2**31


@DETERMINISTIC
@given(INT32, st.integers(0, 2**31 - 1), st.integers(0, 15), st.integers(-128, 127))
def test_requantize_rounds_once_half_up(acc: int, mult: int, k: int, z: int) -> None:
    acc >>= k
    expected = z + math.floor(Fraction((acc << k) * mult, 2**32) + Fraction(1, 2))
    assert int(arith.requantize(acc, mult, k, z)) == expected


def test_t43_requantize_rounds_negative_halves_up() -> None:
    """-2.5 becomes -2, and 2.5 becomes 3: one rule for both signs."""
    assert [int(arith.requantize(a, 2**30, 0, 0)) for a in (-10, 10, -2, 2)] == [-2, 3, 0, 1]


@DETERMINISTIC
@given(
    INT32,
    st.one_of(st.just(0), st.integers(2**30, 2**31 - 1)),
    st.integers(-96, 96),
    st.floats(0, 2.0**127, width=32),
    st.integers(-130, 121),
    st.sampled_from([0, 4, 8]),
    st.integers(0, 65535),
)
def test_update_step(d: int, mc: int, ec: int, lr: float, e_y: int, bits: int, r: int) -> None:
    """Section 8 in integers without a bound."""
    ml, el = arith.rate(lr)
    m, s = (mc * ml + 2**30) >> 31, ec + el - 31 - e_y - bits
    v = d * m
    if m == 0 or s >= 63:
        expected = 0
    elif s <= 0:
        expected = v << -s
    else:
        expected = (v + ((r << (s - 16)) if s >= 16 else (r >> (16 - s)))) >> s
    expected = min(max(expected, -(2**31) + 1), 2**31 - 1)
    assert int(arith.update_step(d, mc, ec, (ml, el), e_y, bits, r)) == expected


@DETERMINISTIC
@given(st.floats(2.0**-126, 2.0**127, width=32))
def test_rate_is_the_learning_rate(lr: float) -> None:
    ml, el = arith.rate(lr)
    assert Fraction(ml) / Fraction(2) ** el == Fraction(float(np.float32(lr)))


@pytest.mark.parametrize("lr", [0.0, -0.0, 1e-45, float(np.float32(1.17549e-38))])
def test_rates_below_the_normal_numbers_are_zero(lr: float) -> None:
    assert arith.rate(lr)[0] == 0


@pytest.mark.parametrize("lr", [-1.0, math.inf, math.nan, 1e39])
def test_rates_that_are_refused(lr: float) -> None:
    with pytest.raises(InputError, match="learning rate"):
        arith.rate(lr)


@DETERMINISTIC
@given(st.integers(0, 2**31 - 1).filter(lambda m: m == 0 or m >= 2**30), st.integers(0, 80))
def test_group_multiplier(mant: int, n: int) -> None:
    rounded = 0 if n > 31 else math.floor(Fraction(mant, 2**n) + (Fraction(1, 2) if n else 0))
    assert int(arith.group_multiplier(np.array([mant]), np.array([n]))[0]) == rounded


def test_top_exponent_puts_the_largest_error_below_the_rail() -> None:
    for a in np.float32([2.0**-126, 1e-20, 0.3, 0.5, 1.0, 1.99, 3.4e38]):
        e, l_top = arith.top_exponent(a)
        assert 64 <= float(a) / 2.0**e < 128
        assert abs(l_top / 256 - math.log2(float(a))) < 0.1  # linear between powers of two
    assert arith.top_exponent(np.float32(1e-40)) == (-126, -32256)


def test_predictor_rises_at_once_and_falls_slowly() -> None:
    assert arith.next_predictor(-500, -9, 127, -900) == -9 * 256 + 1788 + 900
    assert arith.next_predictor(1000, -9, 127, -900) == 1000 + ((384 - 1000) >> 4)
    assert arith.next_predictor(77, -9, 0, -900) == 77


def test_error_scale() -> None:
    scale = np.array([0.5, 0.25, 3.0, 1e-9])
    table = arith.error_scale(scale, [False, False, True, False], groups=2, taps=9)
    assert table.f == 8
    assert table.r.tolist() == [256, 128, 0, 256]
    real = table.mant.astype(float) * 2.0 ** -table.exp.astype(float)
    np.testing.assert_allclose(real, [0.5, 1e-9], rtol=2**-30)
    assert arith.error_scale(scale, np.ones(4), 1, 1).mant.tolist() == [0]


@pytest.mark.parametrize("k", [1, 9, 520, 521, 4608, 133144])
def test_t41_error_accumulator_stays_in_int32(k: int) -> None:
    assert 127**2 * k * 2 ** arith.error_fraction(k) <= 2**31 - 1


def test_constants_that_cannot_exist_name_the_layer() -> None:
    cases = [
        lambda: arith.error_fraction(133145, "conv7"),
        lambda: arith.multiplier([0.3, 16384.0], "conv7"),
        lambda: arith.multiplier(math.nan, "conv7"),
        lambda: arith.fixed(1e-30, "conv7"),
        lambda: arith.fixed(-1.0, "conv7"),
        lambda: arith.add_constants(1e7, 1.0, 1.0, "conv7"),
        lambda: arith.bias_bound(np.array([0, 15]), np.array([0, 76800]), "conv7"),
    ]
    for case in cases:
        with pytest.raises(UnsupportedError) as caught:
            case()
        assert caught.value.where == "conv7"


def test_bias_bound_and_fold() -> None:
    reach = arith.reach(np.array([1000, 10]), np.array([4, 0]))
    bound = arith.bias_bound(np.array([0, 3]), reach)
    assert bound.tolist() == [2**31 - 1 - 128 * (1000 + 508), (2**31 - 1) // 8 - 1280]
    folded = arith.fold_bias(np.array([7, -(2**31)]), -5, np.array([100, 3]), bound)
    assert folded.tolist() == [507, -bound[1]]


def test_random_bits_are_uniform_and_independent_of_order() -> None:
    key = arith.random_key(1, 2, 3)
    r = arith.random_bits(key, np.arange(65536))
    assert r.min() >= 0
    assert r.max() <= 65535
    assert abs(r.mean() - 32767.5) < 4 * 65536 / math.sqrt(12 * r.size)
    assert arith.random_bits(key, np.array([9, 8, 3])).tolist() == r[[9, 8, 3]].tolist()
    assert (arith.random_bits(arith.random_key(1, 3, 3), np.arange(64)) != r[:64]).any()


def test_exp_and_log_are_close_to_the_real_ones() -> None:
    x = np.linspace(-80, 0, 4001, dtype=np.float32)
    exact = np.exp(x.astype(np.float64))
    # Reduction and the Taylor remainder (0.35^7 / 5040) leave less than 4 units in the last place.
    assert np.max(np.abs(arith.exp_f32(x) / exact - 1)) < 4 * 2.0**-24
    for v in (1.0, 1.4142135, 1.5, 2.0, 7.25, 1000.0):
        assert abs(float(arith.log_f32(v)) - math.log(v)) < 4 * 2.0**-24 * max(1.0, math.log(v))
