"""Random cases of convolutions, of shapes, multipliers and exponents that no network has.

The number of a case is all that is needed to repeat it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tests.kernels import conv_cases as conv
from tests.kernels import fast
from tests.kernels.bridge import KERNEL, Call, rows_of_conv2d
from tests.kernels.cases import Case

from mcutrain.ir import arith

MAX_SHIFT = 15


@dataclass(frozen=True)
class Random:
    """A case, how many bytes of scratch memory it gets, and how many rows a forward makes."""

    case: Case
    nbytes: int
    rows: int

    def run(self, call: Call) -> None:
        if call.instr.op == "conv2d":
            rows_of_conv2d(call, self.rows)
        else:
            KERNEL[call.instr.op](call)


def _channels(rng: np.random.Generator) -> tuple[int, int, int]:
    """c_in, c_out, groups."""
    if rng.random() < 0.5:
        c = int(rng.choice((4, 4, 8, 12, 16, rng.integers(2, 10))))
        return c, c, c
    small, large = rng.integers(1, 10, 2), rng.integers(1, 45, 2)
    c, outs = (int(rng.choice((1, 3, a, b, b))) for a, b in zip(small, large, strict=True))
    two = c % 2 == outs % 2 == 0 and rng.random() < 0.1
    return c, outs, 2 if two else 1


def _shape(rng: np.random.Generator) -> conv.Conv:
    """Maps down to 1 x 1, kernels larger than the map, a padding for each side."""
    kh = int(rng.choice((1, 1, 2, 3, 3, 4, 5, 6, 7)))
    kw = kh if rng.random() < 0.7 else int(rng.integers(1, 8))
    sh = int(rng.choice((1, 1, 2, 2, 3)))
    sw = sh if rng.random() < 0.6 else int(rng.integers(1, 4))
    top, left, bottom, right = (int(rng.integers(0, k)) for k in (kh, kw, kh, kw))
    h = int(rng.integers(max(1, kh - top - bottom), kh + rng.choice((2, 4, 9, 14))))
    w = int(rng.integers(max(1, kw - left - right), kw + rng.choice((2, 4, 9, 14))))
    c, outs, groups = _channels(rng)
    splits = groups == 1 or groups == c == outs
    trained = int(rng.integers(-1, c)) if splits and rng.random() < 0.6 else 0
    zero = int(rng.choice((-128, 0, 127, rng.integers(-128, 128))))
    pad = (top, left, bottom, right)
    return conv.Conv((h, w, c), outs, (kh, kw), (sh, sw), pad, groups, trained, zero)


def _any_multipliers(case: Case) -> None:
    """As large as the accumulators allow, and biases up to their bounds."""
    weights = [case.values[s].data for s in ("w_trained", "w_frozen") if s in case.values]
    channels = case.values["bias"].count
    blocks = [np.abs(np.asarray(w).astype(np.int64)) for w in weights]
    if len(blocks) == 2 and len(blocks[0]) < channels:  # depthwise: the channels are in two blocks
        blocks = [np.full((channels, blocks[0].shape[1], 1), 127)]
    reach = arith.reach(sum(b.sum(axis=(1, 2)) for b in blocks), 0)
    most = [max(s for s in range(MAX_SHIFT + 1) if arith.INT32_MAX >> s >= r) for r in reach]
    shift = case.rng.integers(0, np.array(most) + 1)
    bound = arith.bias_bound(shift, reach).astype(np.int64)
    bias = np.clip(case.rng.integers(-(2**31) + 1, 2**31 - 1, channels), -bound, bound)
    case.put("bias", "s32", bias.astype(np.int32))
    case.put("mult", "s32", case.rng.integers(0, 2**31, channels).astype(np.int32))
    case.put("shift", "u8", shift.astype(np.uint8))


def _forward(rng: np.random.Generator, shape: conv.Conv) -> Case:
    lo, hi = sorted(rng.integers(-128, 128, 2)) if rng.random() < 0.3 else (-128, 127)
    rails = str(rng.choice(("", "", "", "high", "low")))
    masked, shifted, wild = rng.random(3) < (0.6, 0.4, 0.25)
    case = conv.forward(shape, int(lo), int(hi), rails, bool(masked), bool(shifted))
    if wild:
        _any_multipliers(case)
    return case


def _no_errors(case: Case, shape: conv.Conv) -> None:
    case.put("e_y", "s8", np.zeros(shape.y, np.int8), shape.y, error=0)


def _dx(rng: np.random.Generator, shape: conv.Conv) -> Case:
    predictors = (300, 300, -300, 900, 2500, -30000, 30000, rng.integers(-4000, 4000))
    with_skip, masked, rails, zeros, other_r, far = rng.random(6) < (0.4, 0.6, 0.15, 0.1, 0.1, 0.2)
    case = conv.dx(
        shape,
        predictor=int(rng.choice(predictors)),
        skip=int(rng.choice((rng.integers(-126, 122), rng.integers(-50, 10))))
        if with_skip
        else None,
        masked=bool(masked),
        rails=bool(rails),
        dead=str(rng.choice(("some", "none", "all"), p=(0.65, 0.3, 0.05))),
    )
    if zeros:
        _no_errors(case, shape)
    if far:
        case.exponents[0] = int(rng.integers(-126, 122))
    return fast.other_r(case) if shape.depthwise and other_r else case


def _dw(rng: np.random.Generator, shape: conv.Conv) -> Case:
    rate = float(rng.choice((*conv.RATES, 0.002, 0.002, 0.002)))
    e_y = int(rng.choice((-20, -20, -10, -126, -60, 30, 121)))
    case = conv.dw(shape, int(rng.choice((0, 4, 8))), rate, bool(rng.random() < 0.2), e_y)
    if rng.random() < 0.1:
        _no_errors(case, shape)
    return case


def random_case(number: int) -> Random:
    rng = np.random.default_rng(number)
    shape = _shape(rng)
    make = (_forward, _dx, _dw)[int(rng.integers(0, 3))]
    case = make(rng, shape)
    if shape.depthwise and "perm" in case.values and rng.random() < 0.15:
        case = fast.falling(case)
    full = fast.wanted(case)
    nbytes = int(rng.integers(0, full + 9)) if rng.random() < 0.6 else full
    return Random(case, nbytes, int(rng.integers(1, shape.y[0] + 1)))
