"""The host's kernels for vector units: equal to the plain ones to the bit, for every shape."""

from __future__ import annotations

import os
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels import conv_cases as conv
from tests.kernels import fast, other_cases
from tests.kernels.bridge import KERNEL, Call, rows_of_conv2d
from tests.kernels.cases import Case, Run, distinct, outcome
from tests.kernels.conv_cases import Conv

from mcutrain.ir.program import Instr
from mcutrain.ir.reference.runtime import Memory, Runtime

DETERMINISTIC = settings(max_examples=150, derandomize=True, deadline=None)

# Every number of channels up to four blocks and a bit; more pixels, and windows, than one tile.
CHANNELS = [Conv((2, 3, c), 68 - c) for c in range(1, 68)]
LARGE = [
    Conv((17, 19, 16), 24),
    Conv((16, 17, 5), 9, (3, 3), (2, 1), (1, 0, 1, 2)),
    Conv((5, 5, 60), 200, (3, 3), pad=(1, 1, 1, 1)),
    Conv((6, 7, 300), 70, trained=11),
    Conv((5, 7, 500), 90, trained=30),
    Conv((3, 3, 200), 20, (3, 3), pad=(1, 1, 1, 1), trained=100),
    Conv((2, 2, 1500), 40),
    Conv((3, 2, 40), 1500),
]
# Gradients of depthwise weights: from some rows of the output at a time, and not by vectors.
MAPS = [
    Conv((40, 33, 18), 18, (3, 3), (1, 1), (1, 1, 1, 1), groups=18),
    Conv((33, 40, 5), 5, (7, 7), (2, 2), (3, 3, 3, 3), groups=5, trained=-1),
    Conv((64, 64, 20), 20, (5, 3), (1, 2), (2, 1, 2, 0), groups=20, trained=17),
    Conv((2, 600, 2), 2, (1, 3), groups=2),
    Conv((17, 18, 3), 3, (17, 17), (1, 1), (8, 8, 8, 8), groups=3),
]
SHAPES = [*CHANNELS, *LARGE, *fast.DENSE, *fast.DEPTHWISE]
CASES = [
    *(conv.forward(s, mask=m) for s in SHAPES for m in (True, False)),
    *(conv.forward(s, -100, 90) for s in SHAPES[::3]),
    *(conv.forward(s, rails=r) for s in SHAPES[::3] for r in ("high", "low")),
    *(conv.dx(s) for s in SHAPES),
    *(conv.dx(s, skip=e) for s in SHAPES[::3] for e in (-90, -46, -14, -12, 10, 30)),
    *(conv.dx(s, masked=False, predictor=p) for s in SHAPES[::3] for p in (-30000, -300, 2500)),
    *(conv.dx(s, rails=True, dead="none") for s in SHAPES[::4]),
    *(conv.dx(s, dead="all") for s in SHAPES[::9]),
    *(conv.dw(s, bits) for s in SHAPES[::2] for bits in (0, 4, 8)),
    *(conv.dw(s, rails=True, e_y=-10) for s in SHAPES[::4]),
    *(conv.dw(s, bits) for s in MAPS for bits in (0, 4, 8)),
]
GRID = distinct([*conv.FORWARD, *conv.DX, *conv.DW, *conv.DB])
OTHERS = [case for cases in other_cases.CASES.values() for case in cases]


def rows_at_a_time(module: Any, rows: int | None = None) -> Run:
    """A convolution by the function that the executor calls; any other kernel as it is."""

    def kernel(instr: Instr, memory: Memory, runtime: Runtime) -> None:
        call = Call(module, instr, memory, runtime)
        if instr.op == "conv2d":
            rows_of_conv2d(call, rows or call.shape("y")[0])
        else:
            KERNEL[instr.op](call)

    return kernel


def check(case: Case, plain: ModuleType, simd: ModuleType, rows: int | None = None) -> None:
    for alias in case.aliases():
        got = outcome(case, rows_at_a_time(simd, rows), alias)
        fast.assert_same(outcome(case, fast.plain(plain), alias), got, (case.op, case.key, alias))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.op}-{CASES.index(case)}")
def test_shapes_around_the_blocks(
    case: Case, kernel_module: ModuleType, simd_module: ModuleType
) -> None:
    check(case, kernel_module, simd_module)


@pytest.mark.parametrize("case", GRID, ids=lambda case: f"{case.op}-{GRID.index(case)}")
def test_the_grid_of_all_shapes(
    case: Case, kernel_module: ModuleType, simd_module: ModuleType
) -> None:
    check(case, kernel_module, simd_module)


@pytest.mark.parametrize("case", OTHERS, ids=lambda case: f"{case.op}-{OTHERS.index(case)}")
def test_every_other_kernel(case: Case, kernel_module: ModuleType, simd_module: ModuleType) -> None:
    check(case, kernel_module, simd_module)


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("shape", [*fast.DENSE, *fast.DEPTHWISE, *LARGE[:2]], ids=str)
def test_some_rows_at_a_time(
    shape: Conv, rows: int, kernel_module: ModuleType, simd_module: ModuleType
) -> None:
    """A segment makes its rows one by one."""
    check(conv.forward(shape, mask=rows != 2), kernel_module, simd_module, rows)


@st.composite
def _shapes(draw: st.DrawFn) -> Conv:
    kh, kw = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    top, left, bottom, right = (draw(st.integers(0, k - 1)) for k in (kh, kw, kh, kw))
    h = draw(st.integers(max(1, kh - top - bottom), 12))
    w = draw(st.integers(max(1, kw - left - right), 12))
    channels, c_out = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    depthwise = draw(st.booleans()) and channels > 1
    trained = draw(st.integers(-1, channels - 1))
    stride = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    zero = draw(st.integers(-128, 127))
    pad = (top, left, bottom, right)
    groups = channels if depthwise else 1
    c_out = channels if depthwise else c_out
    return Conv((h, w, channels), c_out, (kh, kw), stride, pad, groups, trained, zero)


@DETERMINISTIC
@given(_shapes(), st.integers(-128, 127), st.integers(-128, 127), st.integers(1, 12))
def test_any_shape(
    kernel_module: ModuleType, simd_module: ModuleType, shape: Conv, a: int, b: int, rows: int
) -> None:
    check(conv.forward(shape, min(a, b), max(a, b)), kernel_module, simd_module, rows)
    for case in (conv.dx(shape), conv.dx(shape, skip=a // 8), conv.dw(shape, 4)):
        check(case, kernel_module, simd_module)


TRACE = """
import sys
from mcutrain.engine.build import load
from tests.traces import PROGRAMS, assert_is_the_reference, by_engine
module = load()
assert module.ffi.string(module.lib.mct_simd_name()).decode() == sys.argv[1]
for name in PROGRAMS:
    assert_is_the_reference(name, by_engine(name))
"""


def _python(code: str, unit: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, unit],
        env={**os.environ, "MCUTRAIN_SIMD": unit},
        capture_output=True,
        text=True,
        check=False,
    )


def test_ten_steps_are_those_of_the_reference_with_every_vector_unit(
    simd_module: ModuleType, request: pytest.FixtureRequest
) -> None:
    for unit in ("none", request.node.callspec.params["simd_module"]):
        done = _python(TRACE, unit)
        assert done.returncode == 0, done.stderr


PACKED = """
import sys
from mcutrain.engine import Engine
from mcutrain.image.pack import pack
from tests.image_cases import samples
from tests.traces import PROGRAMS, program
for name in PROGRAMS:
    compiled = program(name)
    engine = Engine(pack(compiled))
    for sample, label in samples(compiled, 2):
        engine.train(sample, label, 0.001)
    rooms = list(engine._packed.pointer)
    frozen = [i for i, room in enumerate(rooms) if room.bytes]
    assert frozen or name == "mlp" or "deep" in name, name
    assert all(rooms[i].ready for i in frozen), (name, [i for i in frozen if not rooms[i].ready])
"""


def test_frozen_weights_are_reordered_once_and_have_room(
    simd_module: ModuleType, request: pytest.FixtureRequest
) -> None:
    done = _python(PACKED, request.node.callspec.params["simd_module"])
    assert done.returncode == 0, done.stderr


def test_an_unknown_vector_unit_is_refused_by_name() -> None:
    done = _python("from mcutrain.engine.build import load\nload()", "avx7")
    assert "MCUTRAIN_SIMD=avx7" in done.stderr
    assert "UsageError" in done.stderr
