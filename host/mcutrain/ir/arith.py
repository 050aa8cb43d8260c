"""The arithmetic of docs/SPEC-arithmetic.md in numpy int64 and float32, exact to the bit.

The first half makes the constants that an image holds, the second half applies them. Section
numbers in the docstrings are those of the specification. Integer results are int64 unless said
otherwise.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mcutrain.errors import InputError, UnsupportedError

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
IntLike = int | npt.NDArray[Any]

INT32_MAX = 2**31 - 1
DEGENERATE = 2**15
MAX_SHIFT = 15
EXP_RANGE = 96
ERROR_MAX = 127
SMALLEST_NORMAL = np.float32(2.0**-126)


class ErrorScale(NamedTuple):
    """Constants of conv2d_dx (section 6): r (C_out,), mant and exp (groups,), F."""

    r: npt.NDArray[np.int16]
    mant: npt.NDArray[np.int32]
    exp: npt.NDArray[np.int8]
    f: int


# --- constants ---------------------------------------------------------------------------------


def fixed(
    value: npt.ArrayLike, layer: str = ""
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int8]]:
    """Non-negative reals as (mant, e), value = mant * 2^-e (section 1); 0 is (0, 0).

    Raises:
        UnsupportedError: a value is not finite, or its exponent leaves [-96, 96].
    """
    v = np.asarray(value, np.float64)
    if not (np.isfinite(v).all() and (v >= 0).all()):
        raise UnsupportedError("a scale is negative or not finite", where=layer or None)
    f, x = np.frexp(v)
    mant = np.rint(f * 2.0**31).astype(np.int64)
    carried = mant == 2**31
    mant = np.where(carried, 2**30, mant)
    e = np.where(mant == 0, 0, 31 - x - carried)
    if np.any(np.abs(e) > EXP_RANGE):
        worst = v.flat[int(np.argmax(np.abs(e)))]
        raise UnsupportedError(
            "a scale is too large or too small for the image",
            where=layer or None,
            why=f"{worst:.3g} needs an exponent outside [-{EXP_RANGE}, {EXP_RANGE}]",
            hint="calibrate with data of the range that the network was trained with",
        )
    return mant.astype(np.int32), e.astype(np.int8)


def multiplier(
    m: npt.ArrayLike, layer: str = ""
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Requantization constants (M, k) of real multipliers m >= 0 (section 2).

    Raises:
        UnsupportedError: m is negative, not finite, or needs k > 15.
    """
    v = np.asarray(m, np.float64)
    if not (np.isfinite(v).all() and (v >= 0).all()):
        raise UnsupportedError(
            "an output multiplier is negative or not finite", where=layer or None
        )
    # frexp gives m = f * 2^x with f in [0.5, 1), so m * 2^-k < 0.5 from k = x + 1 on.
    k = np.maximum(np.frexp(v)[1] + 1, 0)
    k = np.where(v == 0, 0, k)
    k = k + (np.rint(np.ldexp(v, 32 - k)) == 2.0**31)
    if np.any(k > MAX_SHIFT):
        raise UnsupportedError(
            "the output scale is too small for the accumulator",
            where=layer or None,
            why=f"s_x * s_w / s_y = {v.max():.3g} is not below {2 ** (MAX_SHIFT - 1)}",
            hint="calibrate with data that excites this layer",
        )
    return np.rint(np.ldexp(v, 32 - k)).astype(np.int32), k.astype(np.uint8)


def add_constants(s1: float, s2: float, sy: float, layer: str = "") -> tuple[int, int, int]:
    """(M1, M2, n) of an addition (section 3).

    Raises:
        UnsupportedError: no n >= 1 fits.
    """
    for n in range(24, 0, -1):
        m1, m2 = (round(math.ldexp(s / sy, n)) for s in (s1, s2))
        if 255 * (m1 + m2) + 2 ** (n - 1) < 2**31:
            return m1, m2, n
    raise UnsupportedError(
        "the output scale of an addition is too small for its inputs",
        where=layer or None,
        why=f"input scales {s1:.3g} and {s2:.3g}, output scale {sy:.3g}",
        hint="calibrate with data that excites this layer",
    )


def degenerate(mult: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Channels whose requantization multiplier is too small to train (section 2)."""
    return np.asarray(np.asarray(mult) < DEGENERATE)


def error_fraction(k: int, layer: str = "") -> int:
    """F of a conv2d_dx that sums K = k products (section 6).

    Raises:
        UnsupportedError: F would be negative.
    """
    f = 8
    while f >= 0 and (ERROR_MAX**2 * k << f) > INT32_MAX:
        f -= 1
    if f < 0:
        raise UnsupportedError(
            "too many outputs meet in one input for errors to pass this layer",
            where=layer or None,
            why=f"C_out / groups * kh * kw = {k} exceeds {INT32_MAX // ERROR_MAX**2}",
            hint="train only layers after this one, or split it into groups",
        )
    return f


def error_scale(
    w_scale: npt.ArrayLike, dead: npt.ArrayLike, groups: int, taps: int, layer: str = ""
) -> ErrorScale:
    """Constants of conv2d_dx from s_w (C_out,), which channels are dead, and taps = kh * kw.

    Raises:
        UnsupportedError: as `error_fraction` and `fixed`.
    """
    s = np.where(np.asarray(dead, bool), 0.0, np.asarray(w_scale, np.float64)).reshape(groups, -1)
    f = error_fraction(s.shape[1] * taps, layer)
    smax = s.max(axis=1)
    mant, exp = fixed(smax, layer)
    ratio = s / np.where(smax == 0, 1.0, smax)[:, None]
    r = np.rint(ratio * 2.0**f).astype(np.int16).reshape(-1)
    return ErrorScale(r, mant, exp, f)


def update_constants(
    v: npt.ArrayLike, dead: npt.ArrayLike, layer: str = ""
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int8]]:
    """Channel constants c of section 8 (v is s_x / s_w or 1 / (s_x * s_w)), 0 where degenerate."""
    return fixed(np.where(np.asarray(dead, bool), 0.0, np.asarray(v, np.float64)), layer)


def reach(frozen_abs: npt.NDArray[Any], trained: IntLike) -> Ints:
    """S (section 4) of each channel from the sum of its frozen |w| and its trained weights."""
    return np.asarray(128 * (np.asarray(frozen_abs, np.int64) + 127 * np.asarray(trained)))


def bias_bound(shift: IntLike, s: IntLike, layer: str = "") -> npt.NDArray[np.int32]:
    """B_max (section 4) of each channel from its shift k and S, its own or the layer's.

    Raises:
        UnsupportedError: a channel has no room for a bias.
    """
    bound: Ints = np.asarray((INT32_MAX >> np.asarray(shift, np.int64)) - np.asarray(s, np.int64))
    if np.any(bound < 0):
        o = int(np.argmin(bound))
        raise UnsupportedError(
            "the accumulator of this layer can overflow",
            where=layer or None,
            why=f"channel {o}: weights reach {int(np.broadcast_to(s, bound.shape)[o])}, "
            f"the multiplier leaves {INT32_MAX >> int(np.broadcast_to(shift, bound.shape)[o])}",
            hint="train fewer input channels of this layer",
        )
    return bound.astype(np.int32)


def fold_bias(
    bias: npt.NDArray[Any], zero_point: int, w_sum: npt.NDArray[Any], bound: npt.NDArray[Any]
) -> npt.NDArray[np.int32]:
    """bf = b - z_x * sum(w), saturated at the bound of section 4."""
    folded = np.asarray(bias, np.int64) - zero_point * np.asarray(w_sum, np.int64)
    b = np.asarray(bound, np.int64)
    return np.asarray(np.clip(folded, -b, b), np.int32)


# --- forward -----------------------------------------------------------------------------------


def requantize(acc: IntLike, mult: IntLike, shift: IntLike, zero_point: int) -> Ints:
    """p of section 2, before saturation. |acc << shift| < 2^31."""
    a = np.asarray(acc, np.int64) << np.asarray(shift, np.int64)
    return np.asarray(zero_point + ((a * np.asarray(mult, np.int64) + 2**31) >> 32))


# --- random bits -------------------------------------------------------------------------------

_U32 = np.uint64(0xFFFFFFFF)


def mix32(h: npt.ArrayLike) -> npt.NDArray[np.uint64]:
    """The mixing function of section 5; values below 2^32 in uint64."""
    x = np.asarray(h, np.uint64) & _U32
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor) & _U32
    return np.asarray(x ^ (x >> np.uint64(16)))


def random_key(seed: int, step: int, ident: int) -> int:
    """The key of one instruction in one step (section 5)."""
    return int(mix32(int(mix32(int(mix32(seed)) ^ step)) ^ ident))


def random_bits(key: int, index: npt.ArrayLike) -> Ints:
    """r(i), 16 bits for each element index (section 5)."""
    i = np.asarray(index, np.uint64)
    pair = mix32((np.uint64(key) + np.uint64(0x9E3779B9) * (i >> np.uint64(1))) & _U32)
    return np.where(i & np.uint64(1), pair >> np.uint64(16), pair & np.uint64(0xFFFF)).astype(
        np.int64
    )


# --- errors and exponents ----------------------------------------------------------------------


def lb(a: int) -> int:
    """Base-2 logarithm of 1 <= a <= 256 in Q8 (section 7)."""
    msb = a.bit_length() - 1
    return 256 * msb + ((a << 8 >> msb) - 256)


def float_bits(x: float | np.float32) -> int:
    """The bit pattern of a binary32."""
    return int(np.float32(x).view(np.uint32))


def top_exponent(amax: np.float32) -> tuple[int, int]:
    """(E, L_top) of the top error from A = max |df|, which is finite (section 7)."""
    if amax < SMALLEST_NORMAL:
        return -126, -32256
    bits = float_bits(amax)
    return (bits >> 23) - 133, (bits >> 15) - 32512


def predicted_exponent(l_top: int, predictor: int) -> int:
    """E from the predictor, before the floor of `exponent_floor` (section 7)."""
    return (l_top + predictor + 85 - 1788 + 255) >> 8


def exponent_floor(e_y: int, f: int, mant: npt.NDArray[Any], exp: npt.NDArray[Any]) -> int | None:
    """The smallest E with n >= 0 in every group of mant > 0; None without one (section 7)."""
    live = np.asarray(exp, np.int64)[np.asarray(mant) > 0]
    return None if live.size == 0 else e_y + 32 - f - int(live.min())


def next_predictor(predictor: int, e: int, amax: int, l_top: int) -> int:
    """P after a tensor whose largest |q| is amax (256 where an element saturated) was written."""
    if amax == 0:
        return predictor
    o = min(max(256 * e + lb(amax) - l_top, -32768), 32767)
    return o if o > predictor else predictor + ((o - predictor) >> 4)


def group_multiplier(mant: npt.NDArray[Any], n: npt.NDArray[Any]) -> Ints:
    """M[g] of section 6; n is not used where mant is 0."""
    m, shift = np.asarray(mant, np.int64), np.clip(np.asarray(n, np.int64), 0, 32)
    half = np.where(shift > 0, np.int64(1) << np.maximum(shift - 1, 0), 0)
    return np.where((m == 0) | (shift > 31), 0, (m + half) >> shift)


def align(q: npt.NDArray[Any], d: int) -> Ints:
    """a(q_s) of a skip error, d = 32 + E_s - E (section 6)."""
    wide = np.asarray(q, np.int64)
    return wide << min(d, 54) if d >= 0 else wide >> min(-d, 31)


# --- updates -----------------------------------------------------------------------------------


def rate(lr: float | np.float32) -> tuple[int, int]:
    """(ml, el) of a learning rate (section 8); ml = 0 where every step is 0.

    Raises:
        InputError: the rate is negative or not finite.
    """
    if not (math.isfinite(lr) and 0 <= lr <= float(np.finfo(np.float32).max)):
        raise InputError(f"a learning rate must be finite and not negative, got {lr}")
    bits = float_bits(lr) & 0x7FFFFFFF
    if bits < 2**23:
        return 0, 0
    return ((bits & 0x7FFFFF) | 0x800000) << 7, 157 - (bits >> 23)


def update_step(
    d: IntLike, mc: IntLike, ec: IntLike, lr: tuple[int, int], e_y: int, bits: int, r: IntLike
) -> Ints:
    """The integer by which a master or bias falls (section 8), all arguments broadcast.

    Args:
        d: dW or dB, |d| < 2^31.
        mc, ec: channel constants.
        lr: result of `rate`.
        e_y: exponent of the error.
        bits: fraction bits B of the master.
        r: random bits.
    """
    ml, el = lr
    m = (np.asarray(mc, np.int64) * ml + 2**30) >> 31
    s = np.asarray(ec, np.int64) + (el - 31 - e_y - bits)
    v = np.asarray(d, np.int64) * m
    r = np.asarray(r, np.int64)
    # Beyond 31 places any v but 0 saturates; clipped to 2^31 first it stays within int64.
    left = np.clip(v, -(2**31), 2**31) << np.clip(-s, 0, 31)
    dither = np.where(s >= 16, r << np.clip(s - 16, 0, 46), r >> np.clip(16 - s, 0, 16))
    right = (v + dither) >> np.clip(s, 0, 62)
    step = np.clip(np.where(s <= 0, left, right), -INT32_MAX, INT32_MAX)
    return np.where((m == 0) | (s >= 63), 0, step)


# --- binary32 ----------------------------------------------------------------------------------

_LOG2E = np.float32(float.fromhex("0x1.715476p+0"))
_LN2_HIGH = np.float32(float.fromhex("0x1.62e400p-1"))
_LN2_LOW = np.float32(float.fromhex("0x1.7f7d1cp-20"))
_LN2 = np.float32(float.fromhex("0x1.62e430p-1"))
_SQRT2 = np.float32(float.fromhex("0x1.6a09e6p+0"))
_EXP = tuple(np.float32(1 / n) for n in (720, 120, 24, 6, 2, 1, 1))
_LOG = tuple(np.float32(1 / n) for n in (9, 7, 5, 3, 1))


def _horner(coefficients: tuple[np.float32, ...], x: Floats) -> Floats:
    p = np.full_like(x, coefficients[0])
    for c in coefficients[1:]:
        p = p * x + c
    return p


def exp_f32(x: npt.ArrayLike) -> Floats:
    """exp(x) for x <= 0 (section 9)."""
    v = np.asarray(x, np.float32)
    inside = np.where(v < np.float32(-80), np.float32(0), v)
    n = np.trunc(inside * _LOG2E - np.float32(0.5))
    reduced = (inside - n * _LN2_HIGH) - n * _LN2_LOW
    power = ((n.astype(np.int32) + 127) << 23).view(np.float32)
    return np.asarray(np.where(v < np.float32(-80), np.float32(0), _horner(_EXP, reduced) * power))


def log_f32(x: float | np.float32) -> np.float32:
    """log(x) for x >= 1 (section 9)."""
    bits = float_bits(x)
    k = (bits >> 23) - 127
    f = np.uint32((bits & 0x7FFFFF) | 0x3F800000).view(np.float32)
    if f > _SQRT2:
        f, k = f * np.float32(0.5), k + 1
    z = (f - np.float32(1)) / (f + np.float32(1))
    p = _horner(_LOG, np.asarray(z * z))
    return np.float32(np.float32(k) * _LN2 + (np.float32(2) * z) * p)
