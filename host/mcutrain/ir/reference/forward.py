"""Forward instructions (SPEC-arithmetic, sections 2 and 3)."""

from __future__ import annotations

import numpy as np

from mcutrain.ir import arith
from mcutrain.ir.graph import Shape
from mcutrain.ir.program import Instr
from mcutrain.ir.reference.runtime import Memory, Runtime
from mcutrain.ir.reference.windows import gather_taps, product


def conv_weights(instr: Instr, memory: Memory) -> arith.Ints:
    """(C_out, kh * kw, C_in / groups): both blocks of weights, in the tensor's channel order."""
    blocks = [
        memory.wide(instr, slot) for slot in ("w_trained", "w_frozen") if slot in instr.operands
    ]
    if len(blocks) == 1:
        return blocks[0]
    perm = memory.wide(instr, "perm")[0, 0]
    axis = 0 if instr.params["groups"] > 1 else 2
    weights = np.concatenate(blocks, axis=axis)
    place = np.argsort(perm)  # where each channel of the tensor stands in [trained | frozen]
    return np.take(weights, place, axis=axis)


def _clamp(instr: Instr, memory: Memory, p: arith.Ints) -> arith.Ints:
    """y of section 2; writes the mask if one is wanted."""
    lo, hi = instr.params["lo"], instr.params["hi"]
    memory.write_mask(instr, (lo <= p) & (p <= hi))
    return np.clip(p, lo, hi)


def conv2d(instr: Instr, memory: Memory, _: Runtime) -> None:
    """Convolution of any kernel, stride, padding and groups; a tap outside reads z_x."""
    x, y = memory.value(instr, "x"), memory.value(instr, "y")
    groups, (h, w, c_out) = instr.params["groups"], y.shape
    weights = conv_weights(instr, memory)
    taps = gather_taps(memory.read(instr, "x"), instr, y.shape, fill=x.zero_point)
    # Batches of (pixels, taps * inputs of a group) times (the same, outputs of the group).
    columns = taps.reshape(h * w, -1, groups, x.shape[2] // groups).transpose(2, 0, 1, 3)
    kernels = weights.reshape(groups, c_out // groups, -1).transpose(0, 2, 1)
    acc = product(columns.reshape(groups, h * w, -1), kernels)
    acc = acc.transpose(1, 0, 2).reshape(y.shape) + memory.wide(instr, "bias").reshape(-1)
    mult, shift = (memory.wide(instr, slot).reshape(-1) for slot in ("mult", "shift"))
    p = arith.requantize(acc, mult, shift, y.zero_point)
    memory.read(instr, "y")[:] = _clamp(instr, memory, p)


def add(instr: Instr, memory: Memory, _: Runtime) -> None:
    """Sum of two maps of any scales."""
    total = np.zeros(memory.value(instr, "y").shape, np.int64)
    for slot in ("a", "b"):
        total += instr.params[f"mult_{slot}"] * (
            memory.wide(instr, slot) - memory.value(instr, slot).zero_point
        )
    n = instr.params["n"]
    p = memory.value(instr, "y").zero_point + ((total + (1 << (n - 1))) >> n)
    memory.read(instr, "y")[:] = _clamp(instr, memory, p)


def avgpool(instr: Instr, memory: Memory, _: Runtime) -> None:
    """Average over a window, padding included."""
    z = memory.value(instr, "x").zero_point
    y: Shape = memory.value(instr, "y").shape
    acc = (gather_taps(memory.read(instr, "x"), instr, y, fill=z) - z).sum(axis=2)
    p = arith.requantize(acc, instr.params["mult"], instr.params["shift"], z)
    memory.read(instr, "y")[:] = np.clip(p, -128, 127)


def maxpool(instr: Instr, memory: Memory, _: Runtime) -> None:
    """Largest value of a window, and which tap it was."""
    below_all = -129
    y: Shape = memory.value(instr, "y").shape
    taps = gather_taps(memory.read(instr, "x"), instr, y, fill=below_all)
    first = taps.argmax(axis=2)
    memory.read(instr, "y")[:] = np.take_along_axis(taps, first[:, :, None], axis=2)[:, :, 0]
    if "index" in instr.operands:
        memory.read(instr, "index")[:] = first


def rescale(instr: Instr, memory: Memory, _: Runtime) -> None:
    """One map under another scale, into channels c0... of y: a clamp, or an input of a concat."""
    x, y = memory.value(instr, "x"), memory.value(instr, "y")
    lo, hi, c0 = (instr.params[name] for name in ("lo", "hi", "c0"))
    acc = memory.wide(instr, "x") - x.zero_point
    p = arith.requantize(acc, instr.params["mult"], instr.params["shift"], y.zero_point)
    channels = slice(c0, c0 + x.shape[2])
    memory.read(instr, "y")[:, :, channels] = np.clip(p, lo, hi)
    mask = memory.mask(instr)
    if mask is not None:
        mask[:, :, channels] = (lo <= p) & (p <= hi)
        memory.write_mask(instr, mask)


def gather(instr: Instr, memory: Memory, _: Runtime) -> None:
    """The named channels."""
    chan = memory.read(instr, "chan").reshape(-1)
    memory.read(instr, "y")[:] = memory.read(instr, "x")[:, :, chan]
