"""Error kernels: by hand, and against the definition as plain loops in Python integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

I8 = npt.NDArray[np.int8]
KEY = 0x1234ABCD
ONE = (2**30, 30)  # (mant, exp) of 1


def shape(h: int, w: int, c: int) -> dict[str, int]:
    return {"h": h, "w": w, "c": c}


def window(kh: int, kw: int, s: int = 1, pad: int = 0) -> dict[str, int]:
    return {"kh": kh, "kw": kw, "sh": s, "sw": s, "pt": pad, "pl": pad}


def random16(k: Any, i: int) -> int:
    return int(k.lib.mct_random16(KEY, i))


def bits(flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    return np.packbits(flags.reshape(-1), bitorder="little")


def align(q: int, d: int) -> int:
    return q << min(d, 54) if d >= 0 else q >> min(-d, 31)


def error_element(k: Any, i: int, v: int) -> tuple[int, bool]:
    """q and whether it saturated, for v in units of 2^(E - 32)."""
    v = (v + (random16(k, i) << 16)) >> 32
    return max(-127, min(127, v)), abs(v) > 127


def scatter(e: I8, w: I8, r: list[int], x: tuple[int, ...], win: dict[str, int]) -> Any:
    """acc of conv2d_dx: every output's error goes to the inputs that its window saw."""
    acc = np.zeros(x, np.int64)
    c_out, kh, kw, cols = w.shape
    outs = c_out // (x[2] // cols)
    for oy, ox, o in np.ndindex(*e.shape):
        for ky, kx in np.ndindex(kh, kw):
            iy, ix = oy * win["sh"] - win["pt"] + ky, ox * win["sw"] - win["pl"] + kx
            if 0 <= iy < x[0] and 0 <= ix < x[1]:
                c0 = o // outs * cols
                acc[iy, ix, c0 : c0 + cols] += int(e[oy, ox, o]) * r[o] * w[o, ky, kx].astype(int)
    return acc


CASES = {  # c_in, c_out, groups, stride, trained places (0: one block)
    "pointwise-like": (5, 3, 1, 1, 0),
    "stride": (4, 2, 1, 2, 0),
    "blocks": (9, 3, 1, 2, 4),
    "groups": (6, 4, 2, 1, 0),
    "multiplier": (3, 6, 3, 1, 0),
    "depthwise": (5, 5, 5, 2, 0),
    "depthwise blocks": (7, 7, 7, 1, 3),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("extras", [False, True], ids=["plain", "skip and mask"])
def test_conv2d_dx_equals_its_definition(kernels: Any, name: str, extras: bool) -> None:
    c_in, c_out, groups, stride, trained = CASES[name]
    rng = np.random.default_rng(11)
    x, e_out, e_y, e_skip, f = (6, 5, c_in), -20, -23, -21, 8
    win = window(3, 3, stride, 1)
    y = ((x[0] - 1) // stride + 1, (x[1] - 1) // stride + 1, c_out)
    e = rng.integers(-127, 128, y, np.int8)
    w = rng.integers(-127, 128, (c_out, 3, 3, c_in // groups), np.int8)
    r = rng.integers(0, 257, c_out).astype(np.int16)
    mant = rng.integers(2**30, 2**31, groups).astype(np.int32)
    exp = rng.integers(34, 37, groups).astype(np.int8)
    skip = rng.integers(-127, 128, x, np.int8) if extras else None
    mask = rng.random(x) < 0.7 if extras else np.ones(x, bool)
    blocks: list[Any] = [None, w]
    perm = None
    if trained:
        perm = rng.permutation(c_in).astype(np.uint16)
        axis = 0 if groups > 1 else 3
        cut = np.split(np.take(w, perm, axis=axis), [trained], axis=axis)
        blocks = [np.ascontiguousarray(part) for part in cut]
    conv = {"x": shape(*x), "y": shape(*y), "win": win, "groups": groups, "trained": trained}
    conv |= {"w_trained": blocks[0], "w_frozen": blocks[1], "perm": perm}
    error = {"mask": bits(mask) if extras else None, "key": KEY, "e_out": e_out}
    q = np.zeros(x, np.int8) if skip is None else skip.copy()
    if extras:
        error |= {"skip": q, "e_skip": e_skip}  # in place
    scales = {"r": r, "mant": mant, "exp": exp, "f": f, "e_y": e_y}
    p = kernels.struct("mct_conv2d_dx", conv=conv, error=error, **scales)
    stats = kernels.struct("mct_error_stats")
    kernels.lib.mct_conv2d_dx_s8(p, kernels.array(e), kernels.array(q), stats)

    acc = scatter(e, w, r.tolist(), x, win)
    saturated, amax = 0, 0
    for i, at in enumerate(np.ndindex(*x)):
        g = at[2] // (c_in // groups)
        n = int(exp[g]) + f - 32 + e_out - e_y
        v = int(acc[at]) * ((int(mant[g]) + 2 ** (n - 1)) >> n)
        if skip is not None:
            v += align(int(skip[at]), 32 + e_skip - e_out)
        expected, beyond = error_element(kernels, i, v) if mask[at] else (0, False)
        assert q[at] == expected, at
        saturated += beyond
        amax = max(amax, 256 if beyond else abs(expected))
    assert (stats.saturated, stats.amax) == (saturated, amax)
    assert amax > 20


def test_conv2d_dx_by_hand(kernels: Any) -> None:
    """One output of weights (3, -2) and error 5 at 2^0: errors 15 and -10, exactly."""
    w = np.array([3, -2], np.int8)
    conv = {"x": shape(1, 2, 1), "y": shape(1, 1, 1), "win": window(1, 2), "groups": 1}
    scales = {"r": np.array([256], np.int16), "f": 8, "e_y": 0}
    scales |= {"mant": np.array([ONE[0]], np.int32), "exp": np.array([ONE[1]], np.int8)}
    p = kernels.struct(
        "mct_conv2d_dx", conv=conv | {"w_frozen": w}, error={"key": KEY, "e_out": 0}, **scales
    )
    q, stats = np.zeros(2, np.int8), kernels.struct("mct_error_stats")
    e = np.array([5], np.int8)
    kernels.lib.mct_conv2d_dx_s8(p, kernels.array(e), kernels.array(q), stats)
    assert q.tolist() == [15, -10]
    assert (stats.saturated, stats.amax) == (0, 15)
    e[0] = 127  # 381 and -254 do not fit
    kernels.lib.mct_conv2d_dx_s8(p, kernels.array(e), kernels.array(q), stats)
    assert q.tolist() == [127, -127]
    assert (stats.saturated, stats.amax) == (2, 256)


def pool_dx(
    k: Any, x: tuple[int, int, int], y: tuple[int, int], win: Any, mant: int, exp: int
) -> Any:
    shapes = {"x": shape(*x), "y": shape(*y, x[2]), "win": win}
    return k.struct(
        "mct_pool_dx", **shapes, mant=mant, exp=exp, e_y=0, error={"key": KEY, "e_out": 0}
    )


def test_avgpool_dx_spreads_over_overlapping_windows(kernels: Any) -> None:
    e = np.array([4, 8], np.int8)
    q, stats = np.zeros(3, np.int8), kernels.struct("mct_error_stats")
    p = pool_dx(kernels, (1, 3, 1), (1, 2), window(1, 2), 2**30, 31)  # half of each error
    kernels.lib.mct_avgpool_dx_s8(p, kernels.array(e), kernels.array(q), stats)
    assert q.tolist() == [2, 6, 4]


def test_maxpool_dx_goes_to_the_chosen_tap(kernels: Any) -> None:
    """Windows of 1 x 2 at columns 0, 1, 2; the first two chose column 1, the last one column 3."""
    e, index = np.array([4, 8, -3], np.int8), np.array([1, 0, 1], np.uint8)
    q, stats = np.full(4, 77, np.int8), kernels.struct("mct_error_stats")
    p = pool_dx(kernels, (1, 4, 1), (1, 3), window(1, 2), *ONE)
    kernels.lib.mct_maxpool_dx_s8(p, *map(kernels.array, (e, index, q)), stats)
    assert q.tolist() == [0, 12, 0, -3]
    assert stats.amax == 12


def error_sum(k: Any, errors: list[I8], c: int, c0: list[int], e_in: list[int], mask: Any) -> Any:
    p = k.struct(
        "mct_error_sum",
        pixels=errors[0].shape[0],
        c=c,
        n=len(errors),
        c_in=[a.shape[1] for a in errors],
        c0=c0,
        e_in=e_in,
        error={"key": KEY, "e_out": 0, "mask": mask},
    )
    q = np.zeros((errors[0].shape[0], c), np.int8)
    stats = k.struct("mct_error_stats")
    inputs = k.ffi.new("int8_t *[4]", [k.array(a) for a in errors])
    k.lib.mct_error_sum_s8(p, inputs, k.array(q), stats)
    return q, stats


def test_error_sum_aligns_before_it_rounds(kernels: Any) -> None:
    a, b = np.array([[1, 2, 3]], np.int8), np.array([[10, 20]], np.int8)
    # channels 1, 2 of a at 2^1 and both of b at 2^0
    q, stats = error_sum(kernels, [a, b], 2, [1, 0], [1, 0], None)
    assert q.tolist() == [[2 * 2 + 10, 3 * 2 + 20]]
    assert (stats.saturated, stats.amax) == (0, 26)
    half = np.full((1, 2), 1, np.int8)  # 1/2 + 1/2 is 1, whatever the random bits are
    q, _ = error_sum(kernels, [half, half], 2, [0, 0], [-1, -1], None)
    assert q.tolist() == [[1, 1]]


def test_error_sum_of_one_copies(kernels: Any) -> None:
    a = np.array([[1, -127, 127, 5]], np.int8)
    q, stats = error_sum(kernels, [a], 3, [1], [-9], np.array([0b101], np.uint8))
    assert q.tolist() == [[-127, 0, 5]]
    assert (stats.saturated, stats.amax) == (0, 127)


def test_error_sum_at_the_rails_does_not_overflow(kernels: Any) -> None:
    for value in (127, -127, -128):
        a = np.full((1, 1), value, np.int8)
        q, stats = error_sum(kernels, [a] * 4, 1, [0] * 4, [1000] * 4, None)
        assert q[0, 0] == (127 if value > 0 else -127)
        assert (stats.saturated, stats.amax) == (1, 256)
