"""Payloads as rows of fields, little-endian and packed.

A field of type "bytes" or "text" takes what is left of the payload, so it can only be the last one.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

Value: TypeAlias = int | bytes | str


@dataclass(frozen=True)
class Field:
    """One field: type u8, u16, u32, u8[n], or bytes or text for the rest of the payload."""

    name: str
    type: str
    meaning: str

    @property
    def code(self) -> str:
        """The `struct` format; empty where the size is open."""
        if self.type.startswith("u8["):
            return f"{int(self.type[3:-1])}s"
        return {"u8": "B", "u16": "H", "u32": "I", "bytes": "", "text": ""}[self.type]


@dataclass(frozen=True)
class Layout:
    """The fields of a payload, in order."""

    fields: tuple[Field, ...] = ()

    @property
    def fixed(self) -> struct.Struct:
        """The part whose size is known."""
        return struct.Struct("<" + "".join(f.code for f in self.fields))

    @property
    def open_field(self) -> Field | None:
        """The last field, if it takes the rest of the payload."""
        return self.fields[-1] if self.fields and not self.fields[-1].code else None

    def offsets(self) -> list[int]:
        """The byte offset of each field."""
        sizes = [struct.calcsize("<" + f.code) for f in self.fields]
        return [sum(sizes[:i]) for i in range(len(sizes))]

    def pack(self, values: Mapping[str, Value]) -> bytes:
        """The payload; every field needs a value, and no other name may be given."""
        names = [f.name for f in self.fields]
        if sorted(values) != sorted(names):
            raise ValueError(f"fields {sorted(values)} given, {sorted(names)} wanted")
        fixed = self.fixed.pack(*(values[f.name] for f in self.fields if f.code))
        if self.open_field is None:
            return fixed
        rest = values[self.open_field.name]
        if isinstance(rest, int):
            raise ValueError(f"field {self.open_field.name} wants bytes or text")
        return fixed + (rest.encode() if isinstance(rest, str) else rest)

    def unpack(self, payload: bytes) -> dict[str, Value]:
        """Values by field name; ValueError where the payload has another size."""
        size = self.fixed.size
        if len(payload) < size or (self.open_field is None and len(payload) != size):
            raise ValueError(f"payload of {len(payload)} bytes, {size} wanted")
        names = [f.name for f in self.fields if f.code]
        values: dict[str, Value] = dict(zip(names, self.fixed.unpack(payload[:size]), strict=True))
        if self.open_field is not None:
            rest = payload[size:]
            text = self.open_field.type == "text"
            values[self.open_field.name] = rest.decode("utf-8", "replace") if text else rest
        return values


@dataclass(frozen=True)
class Message:
    """A request, its type and the payload layouts of the request and of its response."""

    name: str
    type: int
    meaning: str
    request: Layout
    response: Layout


def layout(*rows: tuple[str, str, str]) -> Layout:
    """A layout of (name, type, meaning) rows."""
    return Layout(tuple(Field(*row) for row in rows))
