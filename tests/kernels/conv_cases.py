"""Cases of convolutions: forward, errors and updates over one grid of shapes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from tests.kernels.cases import Case

from mcutrain.ir import arith
from mcutrain.ir.inplace import inplace_scratch

Array = npt.NDArray[Any]
NO_PAD = (0, 0, 0, 0)


@dataclass(frozen=True)
class Conv:
    """Shape of a convolution. `trained` input channels (depthwise: channels), -1: all of them.

    The grid's names: kernel (kh, kw), stride (sh, sw), pad (top, left, bottom, right).
    """

    x: tuple[int, int, int]
    c_out: int
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    pad: tuple[int, int, int, int] = NO_PAD
    groups: int = 1
    trained: int = 0
    zero: int = -5

    @property
    def y(self) -> tuple[int, int, int]:
        (h, w, _), (kh, kw), (sh, sw), (t, left, b, r) = self.x, self.kernel, self.stride, self.pad
        return (h + t + b - kh) // sh + 1, (w + left + r - kw) // sw + 1, self.c_out

    @property
    def depthwise(self) -> bool:
        return 1 < self.groups == self.x[2] == self.c_out

    @property
    def params(self) -> dict[str, int]:
        numbers = (*self.kernel, *self.stride, *self.pad[:2], self.groups)
        return dict(zip(("kh", "kw", "sh", "sw", "pt", "pl", "groups"), numbers, strict=True))

    @property
    def taps(self) -> int:
        return self.kernel[0] * self.kernel[1]


def _windows() -> Iterator[Conv]:
    """T14, T35: every kernel, stride and padding on odd and even maps."""
    for k, stride in product((1, 2, 3, 5), ((1, 1), (2, 2), (2, 1))):
        for x, pad in product(((7, 5, 3), (6, 8, 2)), (0, k // 2, k - 1)):
            if min(x[:2]) + 2 * pad >= k:
                yield Conv(x, 5, (k, k), stride, (pad,) * 4)


SHAPES = [
    *_windows(),
    # T38: four different pads; T37: below and on the right only; kernels that are not square
    Conv((7, 6, 3), 4, (5, 5), (2, 1), (1, 2, 3, 4)),
    Conv((6, 7, 3), 4, (5, 5), (1, 2), (4, 0, 1, 3)),
    Conv((8, 8, 2), 3, (3, 3), (2, 2), (0, 0, 1, 1)),
    Conv((9, 1, 2), 3, (5, 1), (2, 1), (2, 0, 2, 0)),
    Conv((1, 9, 2), 3, (1, 4), (1, 3), (0, 3, 0, 1)),
    # T35: 3x3, stride 2, padding 1 on an odd and an even map
    Conv((15, 15, 2), 3, (3, 3), (2, 2), (1, 1, 1, 1)),
    Conv((16, 16, 2), 3, (3, 3), (2, 2), (1, 1, 1, 1)),
    # channel counts, linear layers
    *(Conv((3, 4, c), o, (1, 1)) for c, o in ((1, 1), (1, 257), (2, 3), (5, 2), (257, 5))),
    Conv((1, 1, 60), 7),
    Conv((3, 3, 257), 1, (3, 3), pad=(1, 1, 1, 1)),
    # groups
    Conv((5, 4, 4), 6, (3, 3), pad=(1, 1, 1, 1), groups=2),
    Conv((5, 4, 6), 3, (2, 2), (2, 2), groups=3, trained=-1),
    Conv((5, 4, 3), 6, (3, 3), pad=(1, 0, 1, 2), groups=3, trained=-1),
    Conv((4, 4, 2), 2, (3, 3), pad=(1, 1, 1, 1), groups=2, trained=-1),
    # depthwise, whole and in two blocks
    *(
        Conv((7, 6, 5), 5, (k, k), s, (k // 2,) * 4, groups=5, trained=t)
        for k, s, t in product((1, 3, 5), ((1, 1), (2, 2)), (0, 2, -1))
    ),
    Conv((4, 3, 257), 257, (3, 3), pad=(2, 1, 0, 1), groups=257, trained=100),
    Conv((4, 3, 2), 2, (3, 3), pad=(1, 1, 1, 1), groups=2, trained=1),
    # two blocks of weights
    *(Conv((5, 6, c), 5, (3, 3), (2, 1), (1, 1, 1, 1), trained=t) for c, t in ((5, 1), (5, 4))),
    Conv((3, 3, 257), 3, (1, 1), trained=130),
    Conv((5, 5, 3), 4, (3, 3), pad=(1, 1, 1, 1), trained=-1),
    # T31, T32: padding reads the zero point, whatever it is
    *(
        Conv((5, 4, 3), 3, (3, 3), pad=(1, 2, 2, 0), trained=2, zero=z)
        for z in (-128, -5, 0, 13, 127)
    ),
]


def split(shape: Conv, case: Case) -> npt.NDArray[np.intp]:
    """perm: the trained channels (ascending), then the others."""
    channels = shape.x[2]
    trained = np.sort(case.rng.permutation(channels)[: shape.trained])
    return np.concatenate([trained, np.setdiff1d(np.arange(channels), trained)])


def put_weights(shape: Conv, case: Case, weights: Array) -> None:
    """Weights (C_out, taps, C_in / groups) as one block or two, with perm."""
    if shape.trained in (0, -1):
        slot = "w_trained" if shape.trained else "w_frozen"
        case.put(slot, "s8", weights, weights.shape)
        return
    perm = split(shape, case)
    blocks = np.split(perm, [shape.trained])
    axis = 0 if shape.depthwise else 2
    for slot, channels in zip(("w_trained", "w_frozen"), blocks, strict=True):
        block = np.take(weights, channels, axis)
        case.put(slot, "s8", block, block.shape)
    case.put("perm", "u16", perm.astype(np.uint16))


def weights_of(shape: Conv, case: Case) -> Array:
    """Random weights; the second channel, if there is one, has none but zeros."""
    w = case.int8(shape.c_out, shape.taps, shape.x[2] // shape.groups, low=-127)
    if shape.c_out > 1:
        w[1] = 0
    return w


def forward(
    shape: Conv,
    lo: int = -128,
    hi: int = 127,
    rails: str = "",
    mask: bool = True,
    shifted: bool = True,
) -> Case:
    """conv2d; `rails` "high" or "low": inputs and weights at their rails (T11); shifted: a channel
    has a multiplier above 1/2, which is rare in real networks.
    """
    key = (shape, lo, hi, rails, mask, shifted)
    case = Case("conv2d", key, shape.params | {"lo": lo, "hi": hi})
    x, w = case.int8(*shape.x), weights_of(shape, case)
    if rails:
        x = np.full(shape.x, 127 if rails == "high" else -128, np.int8)
        w = np.where(w < 0, -127, 127).astype(np.int8)
    case.put("x", "s8", x, shape.x, zero_point=shape.zero)
    put_weights(shape, case, w)
    fan_in = w[0].size
    spread = 60 * 40 * np.sqrt(fan_in)
    m = case.rng.uniform(0.2, 3, shape.c_out) * 50 / spread
    m[case.rng.random(shape.c_out) < 0.1] = 2.0**-20  # degenerate: M below 2^15
    if shape.c_out > 2 and shifted:
        m[2] = 1.7  # needs a shift
    mult, shift = arith.multiplier(m)
    bound = arith.bias_bound(shift, arith.reach(np.abs(w.astype(np.int64)).sum(axis=(1, 2)), 0))
    bias = case.rng.normal(0, spread / 4, shape.c_out).astype(np.int64)
    bias[0] = bound[0] if rails == "high" else bias[0]
    case.put("bias", "s32", np.clip(bias, -bound, bound).astype(np.int32))
    case.put("mult", "s32", mult)
    case.put("shift", "u8", shift)
    case.out("y", "s8", shape.y, zero_point=int(case.rng.integers(-128, 128)))
    if mask:
        case.out("mask", "bits", shape.y)
    return case


def dx(
    shape: Conv,
    *,
    predictor: int = 300,
    skip: int | None = None,
    masked: bool = True,
    rails: bool = False,
    dead: str = "some",
) -> Case:
    """conv2d_dx; `skip` is the exponent of a skip error; dead: which channels are degenerate."""
    case = Case("conv2d_dx", (shape, predictor, skip, masked, rails, dead))
    q = case.int8(*shape.y, low=-127)
    w = weights_of(shape, case)
    if rails:
        q, w = np.full_like(q, 127), np.full_like(w, -127)
    case.error("e_y", q, -12)
    put_weights(shape, case, w)
    scale = np.exp(case.rng.normal(-4, 1.5, shape.c_out))
    is_dead = case.rng.random(shape.c_out) < {"some": 0.15, "none": 0, "all": 2}[dead]
    table = arith.error_scale(scale, is_dead, shape.groups, shape.taps)
    case.put("r", "s16", table.r)
    case.put("mant", "s32", table.mant)
    case.put("exp", "s8", table.exp)
    if skip is not None:
        case.error("skip", case.int8(*shape.x, low=-127), skip)
    if masked:
        case.mask(shape.x)
    case.error_out(shape.x, predictor)
    case.params = shape.params | {"f": table.f, "rng": 17}
    if nbytes := inplace_scratch(case.values, case.program().instrs[0]):
        case.out("scratch", "u8", (1, 1, nbytes))
    return case


def _trained_only(shape: Conv, case: Case) -> tuple[tuple[int, int, int], Array | None]:
    """Shape of x with just the trained channels, and which they are (None: all)."""
    if shape.trained in (0, -1):
        return shape.x, None
    return (*shape.x[:2], shape.trained), split(shape, case)[: shape.trained].astype(np.uint16)


def dw(shape: Conv, bits: int = 8, lr: float = 0.002, rails: bool = False, e_y: int = -20) -> Case:
    """conv2d_dw; rails: weights that start at their rails."""
    case = Case("conv2d_dw", (shape, bits, lr, rails, e_y))
    x, chan = _trained_only(shape, case)
    rows = shape.c_out if not shape.depthwise else x[2]
    cols = 1 if shape.depthwise else x[2] // shape.groups
    w_shape = (rows, shape.taps, cols)
    case.error("e_y", case.int8(*shape.y, low=-127), e_y)
    case.put("x", "s8", case.int8(*x), x, zero_point=shape.zero)
    w = case.int8(*w_shape, low=-127)
    if rails:
        w = np.where(w < 0, -127, 127).astype(np.int8)
    case.put("w", "s8", w, w_shape)
    if bits:
        size = w.size if bits == 8 else (w.size + 1) // 2
        dtype = "u8" if bits == 8 else "nibbles"
        case.put("frac", dtype, case.rng.integers(0, 256, size).astype(np.uint8), w_shape)
    _update_tables(case, shape.c_out)
    if chan is not None and shape.depthwise:
        case.put("chan", "u16", chan)
    case.params = shape.params | {"bits": bits, "reach": REACH, "rng": 23}
    case.lr = lr
    return case


REACH = 2**16 - 1001  # a bound of 1,000 where the shift is 15


def _update_tables(case: Case, c_out: int) -> None:
    """bias, mant, exp and shift; some channels degenerate, some biases at their bound."""
    shift = case.rng.integers(0, 16, c_out)
    bound = arith.bias_bound(shift, REACH).astype(np.int64)
    bias = np.clip(case.rng.integers(-(2**31) + 1, 2**31 - 1, c_out), -bound, bound)
    dead = case.rng.random(c_out) < 0.15
    mant, exp = arith.update_constants(np.exp(case.rng.normal(1, 3, c_out)), dead)
    case.put("bias", "s32", bias.astype(np.int32))
    case.put("mant", "s32", mant)
    case.put("exp", "s8", exp)
    case.put("shift", "u8", shift)


def db(y: tuple[int, int, int], lr: float = 0.002, e_y: int = -14) -> Case:
    """conv2d_db."""
    case = Case("conv2d_db", (y, lr, e_y), {"reach": REACH, "rng": 29})
    case.error("e_y", case.int8(*y, low=-127), e_y)
    _update_tables(case, y[2])
    case.lr = lr
    return case


# Every rate that has a branch of its own: none, below the normal numbers, tiny, usual, huge.
RATES = (0.0, 1e-45, 2.0**-126, 1e-12, 0.002, 30.0, 3e38)

FORWARD = [
    *(forward(s) for s in SHAPES),
    *(forward(s, rails=r) for s in SHAPES[::5] for r in ("high", "low")),
    *(forward(s, lo, hi) for s in SHAPES[::7] for lo, hi in ((-20, 30), (0, 0), (-128, -100))),
    *(forward(s, mask=False) for s in SHAPES[::9]),
]
DX = [
    *(dx(s) for s in SHAPES),
    *(dx(s, skip=e) for s in SHAPES[::4] for e in (-60, -14, -11, 10)),
    *(dx(s, skip=-12, masked=False) for s in SHAPES[::6]),
    # a prediction that is too small saturates or meets the floor; a large one rounds to noise
    *(dx(s, predictor=p) for s in SHAPES[::5] for p in (-30000, -300, 900, 2500, 30000)),
    *(dx(s, rails=True, dead="none") for s in SHAPES[::5]),
    *(dx(s, dead=d) for s in SHAPES[::8] for d in ("none", "all")),
]
DW = [
    *(dw(s) for s in SHAPES),
    *(dw(s, bits=b) for s in SHAPES[::2] for b in (0, 4)),
    *(dw(s, bits=b, lr=r) for s in SHAPES[::8] for b in (0, 4, 8) for r in RATES),
    *(dw(s, bits=b, rails=True, e_y=-10) for s in SHAPES[::6] for b in (0, 4, 8)),
    *(dw(s, e_y=e) for s in SHAPES[::8] for e in (-126, -60, 30, 121)),
]
DB = [
    *(db(y, lr) for y in ((1, 1, 1), (3, 5, 2), (7, 7, 257), (40, 50, 3)) for lr in RATES),
    *(db((3, 3, 5), e_y=e) for e in (-126, -60, 30, 121)),
]
