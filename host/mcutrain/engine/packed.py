"""Memory for weights in the order of the vector kernels, which put frozen ones into it once."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from mcutrain.image.unpack import Image, ImageInstruction

_ALIGN = 64
_LANES = 16
_WIDEST = 2  # bytes of an element
_STEP = 4  # elements that one product takes, at most


class PackedWeights:
    """Room for each instruction with frozen weights.

    Attributes:
        pointer: `mct_packed[]`, one an instruction (cffi).
        nbytes: all of it.
    """

    def __init__(self, module: ModuleType, image: Image) -> None:
        sizes = [_bytes_of(image, instr) for instr in image.program]
        self.nbytes = sum(sizes)
        ffi = module.ffi
        self._memory: Any = ffi.new("uint8_t[]", self.nbytes + _ALIGN)
        self.pointer: Any = ffi.new("mct_packed[]", len(sizes))
        at = -int(ffi.cast("uintptr_t", self._memory)) % _ALIGN
        for room, size in zip(self.pointer, sizes, strict=True):
            room.base, room.bytes = self._memory + at, size
            at += size


def _bytes_of(image: Image, instr: ImageInstruction) -> int:
    """0: it has no frozen weights, or is not for these kernels."""
    if instr.op not in ("conv2d", "conv2d_dx") or "w_frozen" not in instr.operands:
        return 0
    order = [instr.operands[name] for name in ("w_frozen", "perm") if name in instr.operands]
    if any(image.tensors[i].space != "const" for i in order):
        return 0
    x, y = ("x", "y") if instr.op == "conv2d" else ("e_x", "e_y")
    c_in, c_out = (image.tensors[instr.operands[name]].shape[2] for name in (x, y))
    kh, kw, groups = (instr.params[name] for name in ("kh", "kw", "groups"))
    if groups == 1:
        columns, taps = (c_out, c_in) if instr.op == "conv2d" else (c_in, c_out)
        elements = _up(columns, _LANES) * (kh * kw * _up(taps, 2) + _STEP)
    elif groups != c_in or groups != c_out:
        return 0  # plain C has it
    else:
        elements = _up(c_in, _LANES) * kh * _up(kw, _STEP)
    return _up(_WIDEST * elements, _ALIGN)


def _up(n: int, unit: int) -> int:
    return -(-n // unit) * unit
