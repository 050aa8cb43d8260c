"""Updates of int8 weights and folded biases (SPEC-arithmetic, section 8)."""

from __future__ import annotations

import numpy as np

from mcutrain.ir import arith
from mcutrain.ir.graph import Array
from mcutrain.ir.program import Instr
from mcutrain.ir.reference.runtime import Memory, Runtime
from mcutrain.ir.reference.windows import gather_taps, product


def _weight_gradient(instr: Instr, memory: Memory) -> arith.Ints:
    """dW in the shape of the trained block; row i of a depthwise one belongs to chan[i]."""
    rows, taps, cols = memory.value(instr, "w").shape
    x = memory.wide(instr, "x") - memory.value(instr, "x").zero_point
    e_y = memory.wide(instr, "e_y")
    if "chan" in instr.operands:
        e_y = e_y[:, :, memory.read(instr, "chan").reshape(-1)]
    groups = x.shape[2] // cols
    columns = gather_taps(x, instr, memory.value(instr, "e_y").shape, fill=0)
    pixels = e_y.shape[0] * e_y.shape[1]
    columns = columns.reshape(pixels, taps, groups, cols).transpose(2, 0, 1, 3)
    errors = e_y.reshape(pixels, groups, -1).transpose(1, 2, 0)
    # Batches of (outputs of a group, pixels) times (pixels, taps * inputs of the group).
    return product(errors, columns.reshape(groups, pixels, -1)).reshape(rows, taps, cols)


def unpack_fraction(frac: Array | None, bits: int, count: int) -> arith.Ints:
    """The fractions of `count` weights as integers in [0, 2^B)."""
    if bits == 0 or frac is None:
        return np.zeros(count, np.int64)
    if bits == 8:
        return frac.reshape(-1).astype(np.int64)
    return np.stack([frac & 15, frac >> 4], axis=1).reshape(-1)[:count].astype(np.int64)


def store_fraction(fraction: arith.Ints, bits: int, frac: Array) -> None:
    """The inverse of `unpack_fraction` for B = 4 and 8; a nibble after the last stays."""
    if bits == 4:
        spare = frac[-1:] >> 4 if fraction.size % 2 else frac[:0]
        pairs = np.append(fraction, spare).reshape(-1, 2)
        fraction = pairs[:, 0] | pairs[:, 1] << 4
    frac.reshape(-1)[:] = fraction


def conv2d_dw(instr: Instr, memory: Memory, runtime: Runtime) -> None:
    """One step of the trained weights, their fractions, and what that changes in the biases."""
    w = memory.read(instr, "w")
    rows, bits = w.shape[0], instr.params["bits"]
    chan = memory.optional(instr, "chan")
    channel = np.arange(rows) if chan is None else chan.reshape(-1)
    e_y = runtime.exponent_of(memory, instr.operands["e_y"])
    gradient = _weight_gradient(instr, memory)
    mant, exp = (memory.wide(instr, s).reshape(-1)[channel, None, None] for s in ("mant", "exp"))
    r = runtime.random(instr, w.size).reshape(w.shape)
    step = arith.update_step(gradient, mant, exp, arith.rate(runtime.lr), e_y, bits, r)

    frac = memory.optional(instr, "frac")
    old = w.astype(np.int64)
    moved = (old << bits) + unpack_fraction(frac, bits, w.size).reshape(w.shape) - step
    master = np.clip(moved, -127 << bits, (127 << bits) + (1 << bits) - 1)
    runtime.clamped += int((master != moved).sum())
    w[:] = master >> bits
    if frac is not None:
        fraction = master - ((master >> bits) << bits)
        store_fraction(fraction.reshape(-1), bits, frac)

    z_x = memory.value(instr, "x").zero_point
    change = (w - old).sum(axis=(1, 2))
    _move_bias(instr, memory, channel, z_x * change)
    runtime.gradients[instr.operands["w"]] = np.ldexp(gradient.astype(np.float64), e_y)


def _move_bias(instr: Instr, memory: Memory, channel: Array, step: arith.Ints) -> None:
    """bf = sat(bf - step) within the bound of section 4."""
    bias = memory.read(instr, "bias").reshape(-1)
    shift = memory.wide(instr, "shift").reshape(-1)[channel]
    bound = arith.bias_bound(shift, instr.params["reach"]).astype(np.int64)
    bias[channel] = np.clip(bias[channel].astype(np.int64) - step, -bound, bound)


def conv2d_db(instr: Instr, memory: Memory, runtime: Runtime) -> None:
    """One step of the folded biases."""
    gradient = memory.wide(instr, "e_y").sum(axis=(0, 1))
    e_y = runtime.exponent_of(memory, instr.operands["e_y"])
    mant, exp = (memory.wide(instr, s).reshape(-1) for s in ("mant", "exp"))
    r = runtime.random(instr, gradient.size)
    step = arith.update_step(gradient, mant, exp, arith.rate(runtime.lr), e_y, 0, r)
    _move_bias(instr, memory, np.arange(gradient.size), step)
    runtime.gradients[instr.operands["bias"]] = np.ldexp(gradient.astype(np.float64), e_y)
