"""mct_arith.h and the float functions against tests/golden/arithmetic.json."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden" / "arithmetic.json").read_text()
)


def _float(bits: int) -> float:
    return float(np.uint32(bits).view(np.float32))


def _bits(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


def _step(lib: Any, d: int, mc: int, ec: int, lr: int, e_y: int, bits: int, r: int) -> int:
    m = lib.mct_step_mult(mc, lib.mct_rate_mant(lr))
    return int(lib.mct_step(d, m, lib.mct_step_shift(ec, lib.mct_rate_exp(lr), e_y, bits), r))


# The rules that C computes; the others make constants, which only the host does.
RULES: dict[str, Callable[..., Any]] = {
    "requantize": lambda lib, *a: lib.mct_requantize(*a),
    "mix32": lambda lib, h: lib.mct_mix32(h),
    "random": lambda lib, s, t, n, i: lib.mct_random16(lib.mct_random_key(s, t, n), i),
    "lb": lambda lib, a: lib.mct_lb(a),
    "predicted_exponent": lambda lib, l_top, p: lib.mct_error_exponent(l_top, p, -(2**31)),
    "next_predictor": lambda lib, *a: lib.mct_predictor_update(*a),
    # With F = 0, E = 32 and E_y = 0 the shift n is the group's exponent.
    "group_multiplier": lambda lib, mant, n: lib.mct_error_multiplier(mant, n, 0, 32, 0),
    "align": lambda lib, q, d: lib.mct_align(q, d, 32),
    "rate": lambda lib, b: (lib.mct_rate_mant(b), lib.mct_rate_exp(b)),
    "step": _step,
    "exp": lambda lib, b: _bits(lib.mct_exp_f32(_float(b))),
    "log": lambda lib, b: _bits(lib.mct_log_f32(_float(b))),
}
ONLY_HOST = {"multiplier", "fixed", "add_constants", "error_fraction"}
ELSEWHERE = {"top_exponent"}  # part of mct_head_dx_s8, below


def test_every_rule_is_checked() -> None:
    assert set(GOLDEN) == set(RULES) | ONLY_HOST | ELSEWHERE


@pytest.mark.parametrize("rule", RULES)
def test_rule(kernel_module: ModuleType, rule: str) -> None:
    for row in GOLDEN[rule]:
        got = RULES[rule](kernel_module.lib, *row["in"])
        got = list(got) if isinstance(got, tuple) else [got]
        if rule == "rate" and row["out"][0] == 0:
            got, row = got[:1], {**row, "out": [0]}  # no mantissa: the exponent means nothing
        assert got == row["out"], f"{rule}{row['in']}"


def test_top_exponent(kernel_module: ModuleType) -> None:
    """One class with weight 1: the error is df itself."""
    ffi, lib = kernel_module.ffi, kernel_module.lib
    one = ffi.new("float[]", [1.0])
    for row in GOLDEN["top_exponent"]:
        params = ffi.new("mct_head_dx *", {"features": 1, "classes": 1})
        top, df = ffi.new("mct_top_error *"), ffi.new("float[]", [_float(row["in"][0])])
        e_x, scratch = ffi.new("int8_t[1]"), ffi.new("float[1]")
        assert lib.mct_head_dx_s8(params, df, one, scratch, e_x, top) == 0
        assert [top.e, top.l_top] == row["out"]
