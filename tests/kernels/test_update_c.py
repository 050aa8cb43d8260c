"""Update kernels: by hand, and against the definition as plain loops in Python integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

I8 = npt.NDArray[np.int8]
KEY = 0x0BADCAFE
RATE_ONE = {"mant": 2**30, "exp": 30}
# A constant of 1: with RATE_ONE and e_y = 0 a step is the gradient itself.
ONE = {"mant": 2**30, "exp": 30}


def shape(h: int, w: int, c: int) -> dict[str, int]:
    return {"h": h, "w": w, "c": c}


def window(kh: int, kw: int, s: int = 1, pad: int = 0) -> dict[str, int]:
    return {"kh": kh, "kw": kw, "sh": s, "sw": s, "pt": pad, "pl": pad}


def constants(c: int, mant: Any = ONE["mant"], exp: Any = ONE["exp"], bmax: int = 10**6) -> Any:
    full = {"mant": np.full(c, mant, np.int32), "exp": np.full(c, exp, np.int8)}
    bounds = {"shift": np.zeros(c, np.uint8), "reach": 2**31 - 1 - bmax}
    return full | bounds | {"rate": RATE_ONE, "e_y": 0, "key": KEY}


def pack(frac: npt.NDArray[Any], width: int) -> npt.NDArray[np.uint8] | None:
    """Fractions as the kernel keeps them."""
    flat = frac.reshape(-1).astype(np.uint8)
    if width == 0:
        return None
    if width == 8:
        return flat.copy()
    flat = np.append(flat, np.zeros(flat.size % 2, np.uint8))
    return flat[0::2] | flat[1::2] << 4


def step(k: Any, d: int, u: Any, o: int, width: int, i: int) -> int:
    lib, rate = k.lib, u["rate"]
    m = lib.mct_step_mult(int(u["mant"][o]), rate["mant"])
    s = lib.mct_step_shift(int(u["exp"][o]), rate["exp"], u["e_y"], width)
    return int(lib.mct_step(d, m, s, lib.mct_random16(u["key"], i)))


CASES = {  # c_in of x, c_out, groups, cols, stride, chan
    "dense": (6, 3, 1, 6, 1, None),
    "stride": (5, 2, 1, 5, 2, None),
    "groups": (4, 4, 2, 2, 1, None),
    "depthwise": (3, 3, 3, 1, 2, None),
    "some channels of a depthwise": (3, 7, 7, 1, 1, [6, 0, 3]),
}


@pytest.mark.parametrize("width", [0, 4, 8])
@pytest.mark.parametrize("name", CASES)
def test_conv2d_dw_equals_its_definition(kernels: Any, name: str, width: int) -> None:
    c_x, c_out, groups, cols, stride, chan = CASES[name]
    rng = np.random.default_rng(21)
    x = rng.integers(-128, 128, (6, 5, c_x), np.int8)
    y = (5 // stride + 1, 4 // stride + 1, c_out)
    e = rng.integers(-127, 128, y, np.int8)
    rows = len(chan) if chan else c_out
    w = rng.integers(-127, 128, (rows, 3, 3, cols), np.int8)
    w = np.where(rng.random(w.shape) < 0.5, w, np.int8(127) * np.sign(w))  # many at a rail
    frac = rng.integers(0, 1 << width, w.shape)
    u = constants(c_out)
    u["mant"][:] = rng.integers(2**30, 2**31, c_out)
    u["mant"][c_out - 1 if chan is None else 0] = 0  # a degenerate channel
    u["exp"][:] = rng.integers(37, 44, c_out)
    bias = rng.integers(-1000, 1000, c_out).astype(np.int32)
    z, win = 9, window(3, 3, stride, 1)

    w_c, bias_c, frac_c = w.copy(), bias.copy(), pack(frac, width)
    p = kernels.struct(
        "mct_conv2d_dw",
        x=shape(*x.shape),
        y=shape(*y),
        win=win,
        groups=groups,
        rows=rows,
        cols=cols,
        chan=None if chan is None else np.array(chan, np.uint16),
        z_x=z,
        bits=width,
        update=u,
    )
    stats = kernels.struct("mct_update_stats")
    kernels.lib.mct_conv2d_dw_s8(p, *map(kernels.array, (e, x, w_c, frac_c, bias_c)), stats)

    padded = np.pad(x.astype(int) - z, ((1, 2), (1, 2), (0, 0)))
    clamped = 0
    for i, (row, ky, kx, col) in enumerate(np.ndindex(*w.shape)):
        o = chan[row] if chan else row
        c = row if cols == 1 else row // (c_out // groups) * cols + col
        taps = padded[ky : ky + stride * y[0] : stride, kx : kx + stride * y[1] : stride, c]
        d = int((taps[: y[0], : y[1]] * e[:, :, o].astype(int)).sum())
        exact = (int(w[row, ky, kx, col]) << width) + int(frac[row, ky, kx, col])
        exact -= step(kernels, d, u, o, width, i)
        master = max(-127 << width, min((127 << width) + (1 << width) - 1, exact))
        clamped += master != exact
        old, new = int(w[row, ky, kx, col]), master >> width
        w[row, ky, kx, col], frac[row, ky, kx, col] = new, master - (new << width)
        bias[o] -= z * (new - old)
    np.testing.assert_array_equal(w_c, w)
    np.testing.assert_array_equal(bias_c, bias)
    if frac_c is not None:
        np.testing.assert_array_equal(frac_c, pack(frac, width))
    assert stats.clamped == clamped
    assert clamped > 0


def update_one(k: Any, w: int, e: int, x: int, **fields: Any) -> tuple[int, int, int, int]:
    """One 1 x 1 weight with 4 fractional bits: weight, fraction, bias, clamped after the update."""
    w_a, frac, bias = np.array([w], np.int8), np.array([8], np.uint8), np.array([100], np.int32)
    e_a, x_a = np.array([e], np.int8), np.array([x], np.int8)
    u = constants(1, exp=26) | fields  # steps in units of 2^-4
    one = shape(1, 1, 1)
    p = k.struct(
        "mct_conv2d_dw",
        x=one,
        y=one,
        win=window(1, 1),
        groups=1,
        rows=1,
        cols=1,
        z_x=2,
        bits=4,
        update=u,
    )
    stats = k.struct("mct_update_stats")
    k.lib.mct_conv2d_dw_s8(p, *map(k.array, (e_a, x_a, w_a, frac, bias)), stats)
    return int(w_a[0]), int(frac[0]), int(bias[0]), stats.clamped


def test_update_by_hand(kernels: Any) -> None:
    """dW = 3 * (7 - 2) = 15 is 15 * 2^4 * 2^4 = 3840 in units of 2^-4 at exp 26: to the rail."""
    assert update_one(kernels, 20, 3, 7) == (-127, 0, 100 + 2 * 147, 1)
    # at exp 34 it is 15 units: 20 + 8/16 - 15/16 = 19 + 9/16, and bf grows by z_x * 1
    u34 = {"exp": np.array([34], np.int8)}
    assert update_one(kernels, 20, 3, 7, **u34) == (19, 9, 102, 0)
    assert update_one(kernels, 20, -3, 7, **u34) == (21, 7, 98, 0)
    assert update_one(kernels, 127, -3, 7, **u34) == (127, 15, 100, 1)
    assert update_one(kernels, -127, 3, 7, **u34) == (-127, 0, 100, 1)
    assert update_one(kernels, 20, 0, 7) == (20, 8, 100, 0)
    assert update_one(kernels, 20, 3, 7, rate={"mant": 0, "exp": 157}) == (20, 8, 100, 0)


def test_the_folded_bias_saturates_at_its_bound(kernels: Any) -> None:
    assert update_one(kernels, 20, 3, 7, reach=2**31 - 1 - 101)[2] == 101
    shift, reach = np.array([3], np.uint8), 2**28 - 1 - 101
    assert update_one(kernels, 20, 3, 7, shift=shift, reach=reach)[2] == 101


def test_conv2d_db_by_hand(kernels: Any) -> None:
    e = np.array([[1, -2, 127], [3, -4, 127]], np.int8)  # two pixels, three channels
    bias = np.array([10, 20, -990], np.int32)
    u = constants(3, bmax=1000)
    u["mant"][1] = 0  # degenerate
    p = kernels.struct("mct_conv2d_db", y=shape(1, 2, 3), update=u)
    kernels.lib.mct_conv2d_db_s8(p, kernels.array(e), kernels.array(bias))
    assert bias.tolist() == [6, 20, -1000]


def test_gradient_at_its_bound_is_exact(kernels: Any) -> None:
    """65,536 pixels of 127 * (-128 - 127): the largest sum that section 4 allows."""
    e, x = np.full((256, 256, 1), 127, np.int8), np.full((256, 256, 1), -128, np.int8)
    w, bias = np.zeros(1, np.int8), np.zeros(1, np.int32)
    exp = 30 + 25  # 127 * 255 * 2^16 * 2^-25 = 63.25
    p = kernels.struct(
        "mct_conv2d_dw",
        x=shape(256, 256, 1),
        y=shape(256, 256, 1),
        win=window(1, 1),
        groups=1,
        rows=1,
        cols=1,
        z_x=127,
        bits=0,
        update=constants(1, exp=exp),
    )
    stats = kernels.struct("mct_update_stats")
    kernels.lib.mct_conv2d_dw_s8(p, *map(kernels.array, (e, x, w, None, bias)), stats)
    assert w[0] in (63, 64)
    assert bias[0] == -127 * int(w[0])
