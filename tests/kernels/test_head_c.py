"""Classifier, loss and top error: exact points by hand, order of sums, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

F32 = npt.NDArray[np.float32]
KEY = 0x5EED
OK, NOT_FINITE = 0, -1


def f32(*values: float) -> F32:
    return np.array(values, np.float32)


def test_exp_at_exact_points(kernels: Any) -> None:
    exp = kernels.lib.mct_exp_f32
    assert exp(0.0) == 1.0
    assert exp(-0.0) == 1.0
    assert exp(-80.0) > 0.0
    assert exp(float(np.nextafter(np.float32(-80), np.float32(-81)))) == 0.0
    assert exp(-3e38) == 0.0
    assert exp(-math.inf) == 0.0


def test_exp_is_close_and_normal(kernels: Any) -> None:
    """The series stops after r^6 with |r| <= ln 2 / 2: at most 1.2e-7 of e^r >= 0.7 is missing.

    The three last roundings add half a unit (6e-8) each.
    """
    for i in range(8001):
        x = float(np.float32(-i / 100))
        y = kernels.lib.mct_exp_f32(x)
        assert y >= 2.0**-126
        assert abs(y / math.exp(x) - 1) < 1.2e-7 / 0.7 + 3 * 6e-8


def test_log_at_exact_points(kernels: Any) -> None:
    log = kernels.lib.mct_log_f32
    assert log(1.0) == 0.0
    assert log(2.0) == float.fromhex("0x1.62e430p-1")
    assert log(65536.0) == 16 * float.fromhex("0x1.62e430p-1")


def test_log_is_close(kernels: Any) -> None:
    """|z| <= 0.1716 in the series of atanh: what follows z^9 is below 2 z^11 / 11 = 7e-10."""
    for i in range(4000):
        x = float(np.float32(1 + i * i / 250))
        assert abs(kernels.lib.mct_log_f32(x) - math.log(x)) <= 7e-10 + 2e-7 * max(1, math.log(x))


def loss(k: Any, logits: F32, label: int, df: F32 | None) -> tuple[int, float, int]:
    p = k.struct("mct_loss", classes=logits.size, label=label)
    result = k.struct("mct_loss_result", loss=-1.0, predicted=99)
    status = k.lib.mct_loss_f32(p, k.array(logits), k.array(df), result)
    return status, result.loss, result.predicted


def test_loss_by_hand_in_place(kernels: Any) -> None:
    logits = f32(3.5, 3.5)
    ln2 = float.fromhex("0x1.62e430p-1")
    assert loss(kernels, logits, 1, None) == (OK, ln2, 0)  # the first of two equal ones
    assert loss(kernels, logits, 1, logits) == (OK, ln2, 0)
    assert logits.tolist() == [0.5, -0.5]


def test_loss_of_far_logits(kernels: Any) -> None:
    df = f32(9, 9, 9)
    assert loss(kernels, f32(0, 100, -3e38), 0, df) == (OK, 100.0, 1)
    assert df.tolist() == [-1.0, 1.0, 0.0]


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("at", [0, 2])
def test_a_logit_that_is_not_finite_changes_nothing(kernels: Any, bad: float, at: int) -> None:
    logits, df = f32(1, 2, 3), f32(7, 7, 7)
    logits[at] = bad
    assert loss(kernels, logits, 1, df) == (NOT_FINITE, -1.0, 99)
    assert df.tolist() == [7, 7, 7]


def head(k: Any, features: int, classes: int, s_x: float = 0.5) -> Any:
    return k.struct("mct_head", features=features, classes=classes, z_x=-1, s_x=s_x)


def test_head_by_hand(kernels: Any) -> None:
    x, w, b = np.array([1, 3], np.int8), f32(1, 10, -2, 4), f32(0.25, -1)
    logits = f32(0, 0)
    kernels.lib.mct_head_f32(head(kernels, 2, 2), *map(kernels.array, (x, w, b, logits)))
    assert logits.tolist() == [0.25 + 1 + 20, -1 - 2 + 8]


def test_head_sums_from_the_bias_in_the_order_of_the_features(kernels: Any) -> None:
    x, w, b = np.array([0, 0], np.int8), f32(1, 1), f32(2**24)
    logits = f32(0)
    kernels.lib.mct_head_f32(head(kernels, 2, 1, 1.0), *map(kernels.array, (x, w, b, logits)))
    assert logits[0] == 2**24  # + 1 is lost twice; 1 + 1 first would not be


def test_head_update_by_hand(kernels: Any) -> None:
    x, df = np.array([1, 3], np.int8), f32(0.5, -0.5)
    w, b = f32(1, 1, 1, 1), f32(1, 1)
    kernels.lib.mct_head_dw_f32(head(kernels, 2, 2), 0.25, *map(kernels.array, (x, df, w, b)))
    assert w.tolist() == [1 - 0.125, 1 - 0.25, 1 + 0.125, 1 + 0.25]
    assert b.tolist() == [1 - 0.125, 1 + 0.125]


def head_dx(
    k: Any, df: F32, w: F32, features: int, mask: Any = None
) -> tuple[int, list[int], Any, F32]:
    p = k.struct("mct_head_dx", features=features, classes=df.size, mask=mask, key=KEY)
    scratch, q = np.zeros(features, np.float32), np.full(features, 99, np.int8)
    top = k.struct("mct_top_error")
    status = k.lib.mct_head_dx_s8(p, *map(k.array, (df, w, scratch, q)), top)
    return status, q.tolist(), top, scratch


def test_top_error_by_hand(kernels: Any) -> None:
    status, q, top, scratch = head_dx(kernels, f32(1, -1), f32(1, 0, 0.25, 0, 0.5, -0.25), 3)
    assert (status, scratch.tolist()) == (OK, [1.0, -0.5, 0.5])
    assert (q, top.e, top.l_top) == ([64, -32, 32], -6, 0)
    assert (top.stats.saturated, top.stats.amax) == (0, 64)


def test_top_error_is_masked_but_its_exponent_is_not(kernels: Any) -> None:
    mask = np.array([0b10], np.uint8)
    status, q, top, _ = head_dx(kernels, f32(1), f32(1.5, 0.25), 2, mask)
    assert (status, q, top.e, top.stats.amax) == (OK, [0, 16], -6, 16)


def test_top_error_rounds_stochastically(kernels: Any) -> None:
    features = 4096
    w = np.full(features, 0.3, np.float32)
    w[0] = 1.0
    _, q, top, _ = head_dx(kernels, f32(1), w, features)
    assert top.e == -6
    assert set(q[1:]) == {19, 20}  # 0.3 * 64 = 19.2
    share = sum(v == 20 for v in q[1:]) / (features - 1)
    assert abs(share - 0.2) < 4 * math.sqrt(0.2 * 0.8 / features)


@pytest.mark.parametrize("power", [-126, -125, -60, 0, 60, 126, 127])
@pytest.mark.parametrize("f", [1.0, 1.25, 1.9921875])
def test_top_error_of_every_size(kernels: Any, power: int, f: float) -> None:
    """The largest element lands in [64, 128), and exactly on f * 64 as that is an integer or .5."""
    _, q, top, _ = head_dx(kernels, f32(f), f32(2.0**power, -(2.0**power)), 2)
    assert top.e == power - 6
    assert top.l_top == 256 * power + int((f - 1) * 256)
    assert abs(q[0] - f * 64) <= 0.5
    assert abs(q[1] + f * 64) <= 0.5


@pytest.mark.parametrize("value", [0.0, 1e-39, 1e-45])
def test_top_error_below_the_normal_numbers_is_zero(kernels: Any, value: float) -> None:
    status, q, top, _ = head_dx(kernels, f32(1), f32(value, -value), 2)
    assert (status, q, top.e, top.l_top, top.stats.amax) == (OK, [0, 0], -126, -32256, 0)


@pytest.mark.parametrize("bad", [math.inf, math.nan, 3e38])
def test_a_top_error_that_is_not_finite_is_refused(kernels: Any, bad: float) -> None:
    status, q, _, _ = head_dx(kernels, f32(1, 1), f32(0, bad, 0, bad), 2)
    assert (status, q) == (NOT_FINITE, [99, 99])
