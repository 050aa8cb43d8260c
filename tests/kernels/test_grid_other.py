"""Every instruction but convolutions: C kernel equals numpy reference, to the bit."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels import other_cases as other
from tests.kernels.cases import Case, check

DETERMINISTIC = settings(max_examples=60, derandomize=True, deadline=None)
ALL = [case for cases in other.CASES.values() for case in cases]


def _id(case: Case) -> str:
    return f"{case.op}-{case.key}".replace(" ", "")


@pytest.mark.parametrize("case", ALL, ids=_id)
def test_kernel(kernel_module: ModuleType, case: Case) -> None:
    check(case, kernel_module)


@st.composite
def _windows(draw: st.DrawFn) -> object:
    kernel = draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    pad = draw(st.tuples(*(st.integers(0, k - 1) for k in (*kernel, *kernel))))
    h, w = (
        draw(st.integers(max(k - min(a, b), 1), k + 6))  # every window meets the map
        for k, a, b in zip(kernel, pad[:2], pad[2:], strict=True)
    )
    stride = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    return (h, w, draw(st.integers(1, 5))), kernel, stride, pad


@DETERMINISTIC
@given(spec=_windows(), zero=st.integers(-128, 127), predictor=st.integers(-2000, 3000))
def test_any_pool(kernel_module: ModuleType, spec: object, zero: int, predictor: int) -> None:
    for case in (
        other.avgpool(spec, zero),
        other.maxpool(spec),
        other.pool_dx("avgpool_dx", spec, predictor),
        other.pool_dx("maxpool_dx", spec, predictor),
    ):
        check(case, kernel_module)


SCALE = st.floats(1e-3, 10)
ZERO = st.integers(-128, 127)


@DETERMINISTIC
@given(scales=st.tuples(SCALE, SCALE, SCALE), zeros=st.tuples(ZERO, ZERO, ZERO))
def test_any_add_and_rescale(
    kernel_module: ModuleType, scales: tuple[float, float, float], zeros: tuple[int, int, int]
) -> None:
    check(other.add((3, 3, 3), scales, zeros), kernel_module)
    check(other.rescale((3, 3, 3), scales[0] / scales[1], zeros[:2], 2, 7), kernel_module)


@DETERMINISTIC
@given(
    exponents=st.lists(st.integers(-130, 121), min_size=1, max_size=4),
    predictor=st.integers(-32768, 32767),
)
def test_any_error_sum(kernel_module: ModuleType, exponents: list[int], predictor: int) -> None:
    check(other.error_sum((3, 3, 3), tuple(exponents), predictor), kernel_module)


def test_rescale_leaves_other_channels_alone(kernel_module: ModuleType) -> None:
    case = other.rescale((3, 5, 3), 0.7, (3, 5), 2, 11)
    before = np.asarray(case.values["y"].data).reshape(3, 5, 11)
    after = check(case, kernel_module)["y"]
    assert np.array_equal(np.delete(before, [2, 3, 4], 2), np.delete(after, [2, 3, 4], 2))


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_logits_that_are_not_finite_stop_the_step(kernel_module: ModuleType, value: float) -> None:
    logits = np.array([0, value, 1], np.float32)
    ffi = kernel_module.ffi
    params = ffi.new("mct_loss *", {"classes": 3, "label": 0})
    df = np.full(3, 7, np.float32)
    status = kernel_module.lib.mct_loss_f32(
        params,
        ffi.from_buffer("float[]", logits),
        ffi.from_buffer("float[]", df),
        ffi.new("mct_loss_result *"),
    )
    assert status == kernel_module.lib.MCT_ERR_NOT_FINITE
    assert (df == 7).all()
