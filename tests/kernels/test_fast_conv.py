"""Fast kernels of convolutions: equal to the plain ones to the bit, whatever scratch they get."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels import conv_cases as conv
from tests.kernels import fast
from tests.kernels.bridge import Call, rows_of_conv2d, scratch_of
from tests.kernels.cases import Case, distinct, outcome

from mcutrain.ir.program import Instr
from mcutrain.ir.reference.runtime import Memory, Runtime
from mcutrain.ir.scratch import scratch_bytes

DETERMINISTIC = settings(max_examples=80, derandomize=True, deadline=None)


@pytest.fixture(scope="module", params=["dsp_module", "kernel_module"])
def fast_module(request: pytest.FixtureRequest) -> ModuleType:
    """The kernels for cores with the DSP extension, and those for cores without."""
    module: ModuleType = request.getfixturevalue(request.param)
    return module


def _id(case: Case) -> str:
    return f"{case.op}-{fast.CASES.index(case)}"


@pytest.mark.parametrize("case", fast.CASES, ids=_id)
def test_every_size_of_scratch_gives_the_same(
    case: Case, kernel_module: ModuleType, fast_module: ModuleType
) -> None:
    for nbytes in fast.sizes(case):
        fast.check_fast(case, kernel_module, fast_module, nbytes)


GRID = distinct([*conv.FORWARD, *conv.DX, *conv.DW[::2], *conv.DB])


@pytest.mark.parametrize("case", GRID, ids=lambda case: f"{case.op}-{GRID.index(case)}")
def test_the_grid_of_all_shapes(
    case: Case, kernel_module: ModuleType, fast_module: ModuleType
) -> None:
    fast.check_fast(case, kernel_module, fast_module, fast.wanted(case))


@st.composite
def _shapes(draw: st.DrawFn) -> conv.Conv:
    k = draw(st.sampled_from((1, 3, 5, 7)))
    pad = draw(st.tuples(*(st.integers(0, k - 1) for _ in range(4))))
    h, w = (draw(st.integers(max(1, k - a - b), 12)) for a, b in (pad[::2], pad[1::2]))
    depthwise = k > 1 and draw(st.booleans())
    channels = 4 * draw(st.integers(1, 3)) if depthwise else draw(st.integers(1, 20))
    c_out = channels if depthwise else draw(st.integers(1, 17))
    trained = draw(st.integers(-1, channels - 1))
    stride = draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
    groups = channels if depthwise else 1
    zero = draw(st.integers(-128, 127))
    return conv.Conv((h, w, channels), c_out, (k, k), stride, pad, groups, trained, zero)


@DETERMINISTIC
@given(_shapes(), st.integers(-128, 127), st.integers(-128, 127), st.floats(0, 1.2))
def test_any_shape(
    kernel_module: ModuleType,
    fast_module: ModuleType,
    shape: conv.Conv,
    a: int,
    b: int,
    share: float,
) -> None:
    plain = conv.forward(shape, shifted=a > 0, mask=b > 0)
    clamped = conv.forward(shape, min(a, b), max(a, b))
    for case in (plain, clamped, conv.dx(shape), conv.dw(shape, 4)):
        nbytes = int(share * fast.wanted(case)) // 4 * 4
        fast.check_fast(case, kernel_module, fast_module, nbytes)


@pytest.mark.parametrize("case", fast.CASES, ids=_id)
def test_the_compiler_asks_for_what_the_kernel_uses(case: Case, kernel_module: ModuleType) -> None:
    found: list[int] = []

    def ask(instr: Instr, memory: Memory, runtime: Runtime) -> None:
        found.append(scratch_of(Call(kernel_module, instr, memory, runtime)))

    outcome(case, ask)
    assert found == [fast.wanted(case)]


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("shape", [*fast.DENSE[::2], *fast.DEPTHWISE[::2]], ids=str)
def test_some_rows_at_a_time(
    shape: conv.Conv, rows: int, kernel_module: ModuleType, fast_module: ModuleType
) -> None:
    """A segment makes its rows one by one, with scratch for just these."""
    case = conv.forward(shape, mask=rows != 2)
    program = case.program()
    nbytes = scratch_bytes(program.values, program.instrs[0], rows)

    def kernel(call: Call) -> None:
        rows_of_conv2d(call, rows)

    got: Any = outcome(case, fast.with_scratch(kernel, fast_module, nbytes))
    fast.assert_same(outcome(case, fast.plain(kernel_module)), got, (case.key, rows))
