"""What the reference functions work on: the values' bytes, and what holds for one step."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mcutrain.errors import InternalError
from mcutrain.ir import arith
from mcutrain.ir.graph import Array
from mcutrain.ir.program import Instr, Program, Value, value_bytes

DTYPES: dict[str, type[np.generic]] = {
    "s8": np.int8,
    "u8": np.uint8,
    "s16": np.int16,
    "u16": np.uint16,
    "s32": np.int32,
    "u32": np.uint32,
    "f32": np.float32,
    "bits": np.uint8,
    "nibbles": np.uint8,
}
PACKED = ("bits", "nibbles")


class Memory:
    """One array for each value that owns bytes: nothing shares memory but views.

    So a result that depends on the order in which buffers are reused differs from the reference.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self._arrays = {
            name: self._new(value) for name, value in program.values.items() if not value.view_of
        }

    @staticmethod
    def _new(value: Value) -> Array:
        if value.data is None:  # whole, also where an executor keeps a ring of rows
            size = value_bytes(value.dtype, value.count)
            return np.zeros(size, np.uint8).view(DTYPES[value.dtype])
        data = np.array(value.data, DTYPES[value.dtype]).reshape(-1)
        if data.nbytes != value.nbytes:
            raise InternalError(
                f"{value.name} has {data.nbytes} bytes of data, its shape needs {value.nbytes}"
            )
        return data

    def array(self, name: str) -> Array:
        """The contents of a value, writable, in its shape; packed bytes (flat) of bits, nibbles."""
        value = self.program.values[name]
        flat = self._arrays[self.program.base(name).name]
        return flat if value.dtype in PACKED else flat.reshape(value.shape)

    def value(self, instr: Instr, slot: str) -> Value:
        """The value in a slot of an instruction."""
        return self.program.values[instr.operands[slot]]

    def read(self, instr: Instr, slot: str) -> Array:
        """`array` of the value in a slot."""
        return self.array(instr.operands[slot])

    def optional(self, instr: Instr, slot: str) -> Array | None:
        """`read`, or None where the slot is empty."""
        return self.read(instr, slot) if slot in instr.operands else None

    def wide(self, instr: Instr, slot: str) -> arith.Ints:
        """A copy of an integer value as int64."""
        return self.read(instr, slot).astype(np.int64)

    def mask(self, instr: Instr) -> npt.NDArray[np.bool_] | None:
        """The bits in slot `mask` in the shape of their tensor, None where it is empty."""
        if "mask" not in instr.operands:
            return None
        value = self.value(instr, "mask")
        bits = np.unpackbits(self.read(instr, "mask"), count=value.count, bitorder="little")
        return bits.astype(bool).reshape(value.shape)

    def write_mask(self, instr: Instr, mask: npt.NDArray[np.bool_]) -> None:
        """Store bits in slot `mask`, if there is one; those after the last are 0."""
        if "mask" in instr.operands:
            self.read(instr, "mask")[:] = np.packbits(mask.reshape(-1), bitorder="little")

    def raw(self, name: str) -> bytes:
        """The bytes of a value as they lie in memory."""
        return self._arrays[self.program.base(name).name].tobytes()


@dataclass
class Runtime:
    """The step's inputs, the exponents, and what is counted and kept for tests.

    Attributes:
        exponent, predictor: int16, one an error.
        l_top: L_top of the step's top error (SPEC-arithmetic, section 7).
        unrounded: float64 errors in real units before they are rounded and saturated, by value.
        gradients: float64, by the name of the trained value: dL/db and the classifier's in real
            units, other dL/dw still to be multiplied by the scale of the layer's input.
    """

    seed: int
    step: int
    exponent: npt.NDArray[np.int16]
    predictor: npt.NDArray[np.int16]
    label: int = 0
    lr: float = 0.0
    lr_head: float = 0.0
    l_top: int = 0
    loss: np.float32 = field(default_factory=lambda: np.float32(0))
    predicted: int = 0
    saturated: int = 0
    clamped: int = 0
    skipped: int = 0
    unrounded: dict[str, npt.NDArray[np.float64]] = field(default_factory=dict)
    gradients: dict[str, npt.NDArray[np.float64]] = field(default_factory=dict)

    def random(self, instr: Instr, count: int) -> arith.Ints:
        """r(0) to r(count - 1) of an instruction in this step."""
        key = arith.random_key(self.seed, self.step, instr.params["rng"])
        return arith.random_bits(key, np.arange(count))

    def exponent_of(self, memory: Memory, name: str) -> int:
        """E of an error value."""
        return int(self.exponent[error_index(memory, name)])


def error_index(memory: Memory, name: str) -> int:
    """The exponent slot of an error value."""
    index = memory.program.values[name].error
    if index is None:
        index = memory.program.base(name).error
    if index is None:
        raise InternalError(f"{name} is used as an error but has no exponent")
    return index
