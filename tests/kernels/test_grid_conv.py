"""conv2d and its gradient instructions: C kernel equals numpy reference, to the bit."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels import conv_cases as conv
from tests.kernels.cases import Case, check, distinct

DETERMINISTIC = settings(max_examples=60, derandomize=True, deadline=None)


def _id(case: Case) -> str:
    shape, *rest = case.key
    if not isinstance(shape, conv.Conv):
        return "-".join(str(k) for k in case.key)
    numbers = (shape.x, shape.c_out, shape.kernel, shape.stride, shape.pad)
    text = f"{numbers}g{shape.groups}t{shape.trained}z{shape.zero}-{rest}"
    return text.replace(" ", "").replace("'", "")


@pytest.mark.parametrize("case", distinct(conv.FORWARD), ids=_id)
def test_forward(case: Case, kernel_module: ModuleType) -> None:
    check(case, kernel_module)


@pytest.mark.parametrize("case", distinct(conv.DX), ids=_id)
def test_errors(case: Case, kernel_module: ModuleType) -> None:
    check(case, kernel_module)


@pytest.mark.parametrize("case", distinct(conv.DW), ids=_id)
def test_weight_updates(case: Case, kernel_module: ModuleType) -> None:
    check(case, kernel_module)


@pytest.mark.parametrize("case", distinct(conv.DB), ids=_id)
def test_bias_updates(case: Case, kernel_module: ModuleType) -> None:
    check(case, kernel_module)


@st.composite
def _shapes(draw: st.DrawFn) -> conv.Conv:
    kernel = draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    pad = draw(st.tuples(*(st.integers(0, k - 1) for k in (*kernel, *kernel))))
    h, w = (
        draw(st.integers(max(1, k - a - b), k + 6))
        for k, a, b in zip(kernel, pad[:2], pad[2:], strict=True)
    )
    groups, per_group, outs = draw(st.tuples(*(st.integers(1, 4) for _ in range(3))))
    channels, c_out = groups * per_group, groups * outs
    splits = groups == 1 or (per_group == outs == 1)
    trained = draw(st.integers(-1, channels - 1 if splits else 0))
    stride = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    zero = draw(st.integers(-128, 127))
    return conv.Conv((h, w, channels), c_out, kernel, stride, pad, groups, trained, zero)


@DETERMINISTIC
@given(_shapes(), st.integers(-128, 127), st.integers(-128, 127))
def test_any_forward(kernel_module: ModuleType, shape: conv.Conv, a: int, b: int) -> None:
    check(conv.forward(shape, min(a, b), max(a, b)), kernel_module)


@DETERMINISTIC
@given(_shapes(), st.integers(-2000, 3000), st.none() | st.integers(-40, 10))
def test_any_errors(
    kernel_module: ModuleType, shape: conv.Conv, predictor: int, skip: int | None
) -> None:
    check(conv.dx(shape, predictor=predictor, skip=skip), kernel_module)


@DETERMINISTIC
@given(_shapes(), st.sampled_from((0, 4, 8)), st.floats(0, 2.0**20, width=32), st.booleans())
def test_any_weight_updates(
    kernel_module: ModuleType, shape: conv.Conv, bits: int, lr: float, rails: bool
) -> None:
    check(conv.dw(shape, bits, lr, rails), kernel_module)


@pytest.mark.parametrize("zero", [-128, -5, 0, 13, 127])
def test_t31_padding_reads_the_zero_point(zero: int, kernel_module: ModuleType) -> None:
    """An input of nothing but zero points gives the same output on the border as inside."""
    shape = conv.Conv((6, 7, 3), 4, (3, 3), (1, 1), (1, 1, 1, 1), trained=1, zero=zero)
    case = conv.forward(shape)
    case.put("x", "s8", np.full(shape.x, zero, np.int8), shape.x, zero_point=zero)
    y = check(case, kernel_module)["y"]
    assert (y == y[3, 3]).all()


def test_the_grid_reaches_saturation_and_the_rails(kernel_module: ModuleType) -> None:
    """The cases above prove something only if these things happen in them."""
    saturated = [check(c, kernel_module)["saturated"] for c in conv.DX[::3]]
    assert 0 < sum(s > 0 for s in saturated) < len(saturated)
    clamped = [check(c, kernel_module)["clamped"] for c in conv.DW[::3]]
    assert 0 < sum(c > 0 for c in clamped) < len(clamped)
    masks = [check(c, kernel_module)["mask"] for c in conv.FORWARD[::3] if "mask" in c.values]
    assert 0.3 < np.mean([m.mean() for m in masks]) < 0.99
