"""Instructions that make int8 errors (SPEC-arithmetic, sections 6 and 7)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcutrain.errors import InternalError
from mcutrain.ir import arith
from mcutrain.ir.graph import Array, Shape
from mcutrain.ir.program import Instr
from mcutrain.ir.reference.forward import conv_weights
from mcutrain.ir.reference.runtime import Memory, Runtime, error_index
from mcutrain.ir.reference.windows import product, scatter_taps

POOL_FRACTION = 8


@dataclass(frozen=True)
class _Skip:
    """An error that joins before the rounding."""

    q: Array
    exponent: int


@dataclass(frozen=True)
class _Sum:
    """What an operator found: acc (H, W, C) with F bits, and constants a group of channels."""

    acc: arith.Ints
    e_y: int
    f: int
    mant: Array
    exp: Array


def saturate(
    instr: Instr, memory: Memory, runtime: Runtime, v: arith.Ints, unrounded: Array
) -> int:
    """Mask, saturate and store v (and the float64 unrounded error, in real units, for tests).

    Returns:
        the amax that the predictor sees.
    """
    mask = memory.mask(instr)
    if mask is not None:
        mask = mask.reshape(v.shape)  # e_x may be a view under another shape
        v = np.where(mask, v, 0)
        unrounded = np.where(mask, unrounded, 0.0)
    memory.read(instr, "e_x")[:] = np.clip(v, -arith.ERROR_MAX, arith.ERROR_MAX)
    runtime.unrounded[instr.operands["e_x"]] = unrounded
    beyond = int((np.abs(v) > arith.ERROR_MAX).sum())
    runtime.saturated += beyond
    return 256 if beyond else int(np.abs(v).max())


def _write(
    instr: Instr, memory: Memory, runtime: Runtime, total: _Sum | None, skips: list[_Skip]
) -> None:
    """Predict the exponent, align, round stochastically, saturate, and learn the exponent."""
    index = error_index(memory, instr.operands["e_x"])
    e = arith.predicted_exponent(runtime.l_top, int(runtime.predictor[index]))
    floor = arith.exponent_floor(total.e_y, total.f, total.mant, total.exp) if total else None
    e = max(-(2**15), min(max(e, e if floor is None else floor), 2**15 - 1))
    shape = memory.value(instr, "e_x").shape
    wide = np.zeros(shape, np.int64)
    if total is not None:
        n = np.asarray(total.exp, np.int64) + (total.f - 32 + e - total.e_y)
        group = arith.group_multiplier(total.mant, n)
        wide += total.acc * np.repeat(group, shape[2] // group.size)
    for skip in skips:
        wide += arith.align(skip.q, 32 + skip.exponent - e)
    r = runtime.random(instr, wide.size).reshape(shape)
    amax = saturate(instr, memory, runtime, (wide + (r << 16)) >> 32, np.ldexp(wide, e - 32))
    runtime.exponent[index] = e
    predictor = int(runtime.predictor[index])
    runtime.predictor[index] = arith.next_predictor(predictor, e, amax, runtime.l_top)


def _skip(instr: Instr, memory: Memory, runtime: Runtime) -> list[_Skip]:
    if "skip" not in instr.operands:
        return []
    e = runtime.exponent_of(memory, instr.operands["skip"])
    return [_Skip(memory.read(instr, "skip"), e)]


def conv2d_dx(instr: Instr, memory: Memory, runtime: Runtime) -> None:
    """Error of a convolution's input: columns scaled by r[o], times the transposed weights."""
    x: Shape = memory.value(instr, "e_x").shape
    h, w, c_out = memory.value(instr, "e_y").shape
    groups = instr.params["groups"]
    weights = conv_weights(instr, memory)
    scaled = memory.wide(instr, "e_y") * memory.wide(instr, "r").reshape(-1)
    # Batches of (pixels, outputs of a group) times (those outputs, taps * inputs of the group).
    columns = scaled.reshape(h * w, groups, -1).transpose(1, 0, 2)
    kernels = weights.reshape(groups, c_out // groups, -1)
    taps = product(columns, kernels).reshape(groups, h, w, weights.shape[1], -1)
    taps = taps.transpose(1, 2, 3, 0, 4).reshape(h, w, weights.shape[1], x[2])
    total = _Sum(
        acc=scatter_taps(taps, instr, x),
        e_y=runtime.exponent_of(memory, instr.operands["e_y"]),
        f=instr.params["f"],
        mant=memory.read(instr, "mant").reshape(-1),
        exp=memory.read(instr, "exp").reshape(-1),
    )
    _write(instr, memory, runtime, total, _skip(instr, memory, runtime))


def _pool(
    instr: Instr, memory: Memory, runtime: Runtime, acc: arith.Ints, mant: int, e: int
) -> None:
    total = _Sum(
        acc=acc << POOL_FRACTION,
        e_y=runtime.exponent_of(memory, instr.operands["e_y"]),
        f=POOL_FRACTION,
        mant=np.array([mant]),
        exp=np.array([e]),
    )
    _write(instr, memory, runtime, total, _skip(instr, memory, runtime))


def avgpool_dx(instr: Instr, memory: Memory, runtime: Runtime) -> None:
    """Error of an average pool's input: each window's error, spread."""
    e_y = memory.wide(instr, "e_y")
    taps = np.repeat(e_y[:, :, None], instr.params["kh"] * instr.params["kw"], axis=2)
    acc = scatter_taps(taps, instr, memory.value(instr, "e_x").shape)
    _pool(instr, memory, runtime, acc, instr.params["mant"], instr.params["exp"])


def maxpool_dx(instr: Instr, memory: Memory, runtime: Runtime) -> None:
    """Error of a max pool's input: each window's error where its largest value was."""
    e_y = memory.wide(instr, "e_y")
    tap = np.arange(instr.params["kh"] * instr.params["kw"])[None, None, :, None]
    chosen = memory.read(instr, "index")[:, :, None] == tap
    taps = np.where(chosen, e_y[:, :, None], 0)
    acc = scatter_taps(taps, instr, memory.value(instr, "e_x").shape)
    _pool(instr, memory, runtime, acc, mant=1 << 30, e=30)


def error_sum(instr: Instr, memory: Memory, runtime: Runtime) -> None:
    """Sum of the errors of several readers of one tensor; one input is copied."""
    channels = memory.value(instr, "e_x").shape[2]
    skips = []
    for i in range(4):
        if f"e{i}" in instr.operands:
            c = instr.params[f"c{i}"]
            q = memory.read(instr, f"e{i}")[:, :, c : c + channels]
            skips.append(_Skip(q, runtime.exponent_of(memory, instr.operands[f"e{i}"])))
    if len(skips) > 1:
        _write(instr, memory, runtime, None, skips)
        return
    if error_index(memory, instr.operands["e_x"]) != error_index(memory, instr.operands["e0"]):
        raise InternalError(f"{instr.operands['e_x']} is a copy with an exponent of its own")
    q = skips[0].q.astype(np.int64)
    saturate(instr, memory, runtime, q, np.ldexp(q, skips[0].exponent))
