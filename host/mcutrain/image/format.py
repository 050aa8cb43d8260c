"""The bytes of an image as data (docs/SPEC-image.md), for packer, reader and the C header.

Op codes, slots and parameters come from `mcutrain.ir.instructions`; everything else is here.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from mcutrain.ir import instructions
from mcutrain.ir.instructions import INSTRUCTIONS, InstructionSpec, Slot

MAGIC = b"MCTI"
VERSION = 3
NONE = 0xFFFF  # no tensor, no error exponent
MAX_SLOTS = 12
MAX_PARAMS = 10
MAX_INPUTS = instructions.MAX_INPUTS
# Verification compares every operand with all earlier instructions; this bounds its time.
MAX_INSTRUCTIONS = 4096
MAX_UNPACKED_BYTES = 1 << 26  # of metadata, and of a state, that a reader on the host accepts
CANARY_BYTES = 8  # before and behind each buffer of an image that is packed with canaries
CRC_START = 16  # the CRC covers the bytes from here to the end

SPACES = {"arena": 0, "state": 1, "const": 2}
DTYPES = {
    "s8": 0,
    "u8": 1,
    "s16": 2,
    "u16": 3,
    "s32": 4,
    "u32": 5,
    "f32": 6,
    "bits": 7,
    "nibbles": 8,
}
# Bytes an element that an offset must be a multiple of, outside the arena (there: 4).
DTYPE_ALIGN = {
    "s8": 1,
    "u8": 1,
    "s16": 2,
    "u16": 2,
    "s32": 4,
    "u32": 4,
    "f32": 4,
    "bits": 1,
    "nibbles": 1,
}


@dataclass(frozen=True)
class Field:
    """One field: `code` is its struct code, `count` > 1 makes it an array (bytes for code "s")."""

    name: str
    code: str
    count: int = 1

    @property
    def format(self) -> str:
        """Its part of a struct format."""
        return f"{self.count}{self.code}" if self.count > 1 else self.code

    @property
    def size(self) -> int:
        """Bytes."""
        return struct.calcsize("<" + self.format)


@dataclass(frozen=True)
class Layout:
    """A packed little-endian record."""

    name: str
    fields: tuple[Field, ...]

    @property
    def size(self) -> int:
        """Bytes of one record."""
        return sum(f.size for f in self.fields)

    def offset(self, name: str) -> int:
        """Where the field of that name starts."""
        position = 0
        for f in self.fields:
            if f.name == name:
                return position
            position += f.size
        raise KeyError(name)

    def pack(self, values: dict[str, Any]) -> bytes:
        """The record's bytes. Array fields take sequences, fields with code "s" bytes."""
        out = b""
        for f in self.fields:
            value = values[f.name]
            parts = value if f.count > 1 and f.code != "s" else (value,)
            out += struct.pack("<" + f.format, *parts)
        return out

    def unpack(self, data: bytes | memoryview, start: int = 0) -> dict[str, Any]:
        """Field values of the record at `start`; arrays come as tuples."""
        out: dict[str, Any] = {}
        for f in self.fields:
            parts = struct.unpack_from("<" + f.format, data, start)
            out[f.name] = parts if f.count > 1 and f.code != "s" else parts[0]
            start += f.size
        return out


HEADER = Layout(
    "image_header",
    (
        Field("magic", "s", 4),
        Field("version", "H"),
        Field("header_bytes", "H"),
        Field("image_bytes", "I"),
        Field("crc", "I"),
        Field("model_hash", "s", 16),
        Field("state_bytes", "I"),
        Field("arena_bytes", "I"),
        Field("tensors_offset", "I"),
        Field("tensors", "I"),
        Field("program_offset", "I"),
        Field("forward", "I"),
        Field("instructions", "I"),
        Field("constants_offset", "I"),
        Field("constants_bytes", "I"),
        Field("initial_offset", "I"),
        Field("metadata_offset", "I"),
        Field("metadata_bytes", "I"),
        Field("inputs", "H", MAX_INPUTS),
        Field("logits", "H"),
        Field("classes", "H"),
        Field("errors", "H"),
        Field("rng", "H"),
        Field("predictor", "H"),
        Field("exponent", "H"),
        Field("initial_bytes", "I"),
    ),
)

TENSOR = Layout(
    "image_tensor",
    (
        Field("space", "B"),
        Field("dtype", "B"),
        Field("zero_point", "b"),
        Field("reserved", "B"),
        Field("h", "H"),
        Field("w", "H"),
        Field("c", "H"),
        Field("error", "H"),
        Field("offset", "I"),
        Field("bytes", "I"),
        Field("scale", "f"),
    ),
)

INSTRUCTION = Layout(
    "image_instruction",
    (
        Field("op", "B"),
        Field("reserved", "B"),
        Field("layer", "H"),
        Field("tensors", "H", MAX_SLOTS),
        Field("params", "i", MAX_PARAMS),
    ),
)

# Of the initial state: as many bytes as they are (then 0 to a multiple of 4), then equal ones.
RUN = Layout("image_run", (Field("copied", "I"), Field("filled", "I"), Field("value", "I")))

OP_NAMES: dict[int, str] = {spec.code: name for name, spec in INSTRUCTIONS.items()}

_ERROR_SLOTS = {"e_y", "e_x", "e0", "e1", "e2", "e3", "skip"}
_STATE_SLOTS = {"w_trained", "frac"}
_TABLE_SLOTS = {"w_frozen", "mult", "shift", "perm", "r", "mant", "exp", "chan", "order"}
_EITHER_SLOTS = {("bias", "s32"), ("w", "f32"), ("b", "f32")}


def is_error(slot: Slot) -> bool:
    """Whether the slot holds errors (int8 with an exponent), not activations."""
    return slot.name in _ERROR_SLOTS


def slot_spaces(slot: Slot) -> tuple[str, ...]:
    """Where a tensor in this slot may lie: what is written and trained must be in the state."""
    if slot.name in _STATE_SLOTS or (slot.read and slot.written):
        return ("state",)
    if slot.name in _TABLE_SLOTS:
        return ("const",)
    if (slot.name, slot.dtype) in _EITHER_SLOTS:
        return ("state", "const")
    return ("arena",)


def slot_index(spec: InstructionSpec, name: str) -> int:
    """Position of a slot in an instruction."""
    return next(i for i, slot in enumerate(spec.slots) if slot.name == name)
