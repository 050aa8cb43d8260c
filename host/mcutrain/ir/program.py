"""What a chip does in one training step: instructions over values, forward first, then backward.

Values live in the arena (gone after the step), in the state (kept and trained) or among the
constants (never written). `mcutrain.image.pack` writes a compiled program byte by byte into an
image.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mcutrain.errors import InternalError
from mcutrain.ir.graph import Array, Shape
from mcutrain.ir.instructions import INSTRUCTIONS, InstructionSpec

ARENA, STATE, CONST = "arena", "state", "const"

_BITS = {
    "s8": 8,
    "u8": 8,
    "s16": 16,
    "u16": 16,
    "s32": 32,
    "u32": 32,
    "f32": 32,
    "bits": 1,
    "nibbles": 4,
}
NUMPY = {
    "s8": "<i1",
    "u8": "<u1",
    "s16": "<i2",
    "u16": "<u2",
    "s32": "<i4",
    "u32": "<u4",
    "f32": "<f4",
    "bits": "<u1",
    "nibbles": "<u1",
}


def aligned(nbytes: int) -> int:
    """The next multiple of 4: where a buffer, or the arena behind the state, may start."""
    return (nbytes + 3) // 4 * 4


def value_bytes(dtype: str, count: int) -> int:
    """Bytes of `count` elements; masks and nibbles are rounded up to whole bytes."""
    return (_BITS[dtype] * count + 7) // 8


@dataclass(frozen=True, eq=False)
class Value:
    """One tensor of a program.

    Attributes:
        shape: (h, w, c), see docs/SPEC-image.md for weights and tables.
        data: contents of a constant, or the initial contents of a state value; packed bytes
            (uint8) for bits and nibbles. None in the arena.
        view_of: name of the value whose bytes this one shares under another shape.
        error: index of its exponent among the errors, None if it is no error.
        rows: in a segment, the rows of a ring that stands for the whole map; None: all are kept.
        turns: the ring in whose bytes this ring lies: rows of the two are never there at once.
    """

    name: str
    shape: Shape
    dtype: str
    space: str = ARENA
    zero_point: int = 0
    scale: float = 0.0
    data: Array | None = None
    view_of: str | None = None
    error: int | None = None
    rows: int | None = None
    turns: str | None = None

    @property
    def count(self) -> int:
        """Number of elements."""
        return self.shape[0] * self.shape[1] * self.shape[2]

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        h, w, c = self.shape
        return value_bytes(self.dtype, (h if self.rows is None else self.rows) * w * c)


def contents(value: Value) -> bytes:
    """The bytes of a value's data in memory, little-endian.

    Raises:
        InternalError: they hold what the value's type cannot.
    """
    data = np.ascontiguousarray(value.data)
    stored = data.astype(NUMPY[value.dtype])
    if not np.array_equal(stored, data):
        raise InternalError(f"{value.name} holds values that {value.dtype} cannot", where="pack")
    return stored.tobytes()


@dataclass(frozen=True, eq=False)
class Instr:
    """One instruction. `operands` maps slot names of its spec to value names; optional ones may
    be absent.
    """

    op: str
    layer: str
    operands: Mapping[str, str]
    params: Mapping[str, int] = field(default_factory=dict)

    @property
    def spec(self) -> InstructionSpec:
        """Its row in the instruction table."""
        return INSTRUCTIONS[self.op]

    def reads(self) -> Iterator[str]:
        """Names of the values it reads."""
        return (
            self.operands[s.name] for s in self.spec.slots if s.read and s.name in self.operands
        )

    def writes(self) -> Iterator[str]:
        """Names of the values it writes."""
        return (
            self.operands[s.name] for s in self.spec.slots if s.written and s.name in self.operands
        )

    def results(self) -> Iterator[str]:
        """Names of the values it writes, scratch memory left out."""
        scratch = {self.operands.get(s.name) for s in self.spec.slots if s.scratch}
        return (name for name in self.writes() if name not in scratch)


@dataclass(frozen=True, eq=False)
class Program:
    """Instructions in the order they run. The first `forward` of them are the forward pass.

    Attributes:
        inputs: the values that hold a sample.
        logits: fp32 result of the forward pass.
        errors: number of error exponents (and predictors).
        info: plain data for the image's metadata (plan, classes, ...).
    """

    name: str
    values: Mapping[str, Value]
    instrs: tuple[Instr, ...]
    forward: int
    inputs: tuple[str, ...]
    logits: str
    errors: int
    info: Mapping[str, Any] = field(default_factory=dict)

    def base(self, name: str) -> Value:
        """The value that owns the bytes of a (possibly viewed) value."""
        value = self.values[name]
        while value.view_of is not None:
            value = self.values[value.view_of]
        return value


@dataclass(frozen=True)
class Buffer:
    """Bytes of the arena for one value or several in-place ones, alive from instruction `first` to
    `last`.

    `first` is -1 for the network's inputs, which are filled before the first instruction.
    """

    name: str
    nbytes: int
    first: int
    last: int
    values: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class MemoryPlan:
    """Where every buffer lies. Offsets are multiples of 4; `arena_bytes` is the highest end of
    a buffer.
    """

    buffers: tuple[Buffer, ...]
    offsets: Mapping[str, int]
    arena_bytes: int
    lower_bound: int


@dataclass(frozen=True, eq=False)
class CompiledProgram:
    """A program with its memory: everything that an image holds.

    Attributes:
        value_offsets: offset of every value in its own space.
        state_bytes: bytes of the trained state, without padding at its end.
        model_hash: 16 bytes that identify the quantised network.
    """

    program: Program
    memory: MemoryPlan
    value_offsets: Mapping[str, int]
    state_bytes: int
    const_bytes: int
    model_hash: bytes

    @property
    def pool_bytes(self) -> int:
        """Bytes of the block the executor needs: state, then the arena at the next multiple of
        4.
        """
        return aligned(self.state_bytes) + self.memory.arena_bytes
