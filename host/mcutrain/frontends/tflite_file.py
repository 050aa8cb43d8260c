"""Reads a TFLite file: its tensors and operators as plain data.

TFLite files are flatbuffers. The reader below knows just what one subgraph needs: field numbers are
those of the public schema (version 3), which never change, so that no package is needed to read
them, and every offset is checked against the file's size.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.errors import InputError, UnsupportedError
from mcutrain.files import reason
from mcutrain.frontends.tflite_names import OPERATORS, TENSOR_TYPES
from mcutrain.ir.graph import Array

IDENTIFIER = b"TFL3"

_DTYPES: dict[str, np.dtype[Any]] = {
    "FLOAT32": np.dtype("<f4"),
    "INT32": np.dtype("<i4"),
    "UINT8": np.dtype("u1"),
    "INT64": np.dtype("<i8"),
    "INT16": np.dtype("<i2"),
    "INT8": np.dtype("i1"),
}


class Table:
    """One table of a flatbuffer. A field that is absent has its default."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at
        self._vtable = at - self._read("i", at)
        self._fields = (self._read("H", self._vtable) - 4) // 2

    def _read(self, kind: str, at: int) -> int:
        if at < 0:
            raise ValueError(f"offset {at} lies before the file")
        return int(struct.unpack_from("<" + kind, self._data, at)[0])

    def _field(self, field: int) -> int | None:
        """Position of a field's value."""
        offset = self._read("H", self._vtable + 4 + 2 * field) if field < self._fields else 0
        return self._at + offset if offset else None

    def _target(self, field: int) -> int | None:
        """Position of what a field refers to."""
        at = self._field(field)
        return None if at is None else at + self._read("I", at)

    def integer(self, field: int, kind: str = "i", default: int = 0) -> int:
        """A scalar; `kind` as for `struct`."""
        at = self._field(field)
        return default if at is None else self._read(kind, at)

    def vector(self, field: int, dtype: str) -> Array:
        """A vector of numbers; empty where absent."""
        at = self._target(field)
        if at is None:
            return np.empty(0, dtype)
        return np.frombuffer(self._data, dtype, self._read("I", at), at + 4)

    def text(self, field: int) -> str:
        """A string."""
        return self.vector(field, "u1").tobytes().decode("utf-8", "replace")

    def table(self, field: int) -> Table | None:
        """Another table."""
        at = self._target(field)
        return None if at is None else Table(self._data, at)

    def tables(self, field: int) -> list[Table]:
        """A vector of tables."""
        at = self._target(field)
        if at is None:
            return []
        start = at + 4
        offsets = np.frombuffer(self._data, "<u4", self._read("I", at), start)
        return [Table(self._data, start + 4 * i + int(o)) for i, o in enumerate(offsets)]


@dataclass(frozen=True, eq=False)
class FileTensor:
    """One tensor of the file.

    Attributes:
        shape: with the batch.
        type: name of the schema's type, e.g. INT8.
        scale, zero_point: one each, or one a slice along `axis`; empty if not quantised.
        data: contents of a constant (bytes where its type is rare), None for an activation.
    """

    name: str
    shape: tuple[int, ...]
    type: str
    scale: npt.NDArray[np.float64]
    zero_point: npt.NDArray[np.int64]
    axis: int
    data: Array | None


@dataclass(frozen=True, eq=False)
class FileOperator:
    """One operator: tensors by index (-1: an optional one is absent), and its options."""

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Table | None

    def option(self, field: int, kind: str, default: int = 0) -> int:
        """A scalar option by its field number in the operator's options table."""
        return default if self.options is None else self.options.integer(field, kind, default)


@dataclass(frozen=True, eq=False)
class FileModel:
    """The only subgraph of a file; inputs and outputs are indices of tensors."""

    tensors: tuple[FileTensor, ...]
    operators: tuple[FileOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def read_tflite(path: Path) -> FileModel:
    """The contents of a TFLite file.

    Raises:
        InputError: the file is missing, damaged or no TFLite file.
        UnsupportedError: it has several subgraphs, or weights outside of the file's tables.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError("cannot read the network", where=str(path), why=reason(error)) from error
    if data[4:8] != IDENTIFIER:
        raise InputError("this is not a TFLite file", where=str(path))
    with damage_named(path):
        return _model(data, str(path))


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Turn what reading nonsense raises into an error that names the file."""
    try:
        yield
    except (struct.error, ValueError, LookupError, ArithmeticError) as error:
        raise InputError(
            "the TFLite file is damaged",
            where=str(path),
            why=f"{type(error).__name__}: {error}",
            hint="copy or convert it anew",
        ) from error


def _model(data: bytes, where: str) -> FileModel:
    model = Table(data, struct.unpack_from("<I", data)[0])
    subgraphs = model.tables(2)
    if len(subgraphs) != 1:
        raise UnsupportedError(
            "only networks of one subgraph are supported",
            where=where,
            why=f"the file has {len(subgraphs)} (control flow makes more than one)",
        )
    names = [_operator_name(code) for code in model.tables(1)]
    buffers, graph = model.tables(4), subgraphs[0]
    tensors = tuple(_tensor(t, i, buffers) for i, t in enumerate(graph.tables(0)))
    operators = tuple(_operator(o, names, len(tensors)) for o in graph.tables(3))
    inputs, outputs = (_indices(graph, field, len(tensors)) for field in (1, 2))
    if min((*inputs, *outputs), default=-1) < 0:
        raise ValueError("an input or output of the network is missing")
    return FileModel(tensors, operators, inputs, outputs)


def _operator_name(code: Table) -> str:
    # Codes from 127 on do not fit the old field, which then holds 127.
    number = max(code.integer(0, "b"), code.integer(3, "i"))
    if not 0 <= number < len(OPERATORS):
        return f"number {number}"
    return f"CUSTOM {code.text(1)}" if OPERATORS[number] == "CUSTOM" else OPERATORS[number]


def _tensor(table: Table, index: int, buffers: list[Table]) -> FileTensor:
    name = table.text(3) or f"tensor{index}"
    kind = TENSOR_TYPES[table.integer(1, "B")]
    shape = tuple(int(n) for n in table.vector(0, "<i4"))
    quantisation = table.table(4)
    scale, zero = np.empty(0, np.float64), np.empty(0, np.int64)
    axis = 0
    if quantisation is not None:
        scale = quantisation.vector(2, "<f4").astype(np.float64)
        zero = quantisation.vector(3, "<i8").astype(np.int64)
        zero = np.zeros(scale.size, np.int64) if zero.size == 0 else zero
        axis = quantisation.integer(6)
    if scale.size != zero.size:
        raise ValueError(f"tensor '{name}' has {scale.size} scales, {zero.size} zero points")
    data = _contents(buffers[table.integer(2, "I")], name, kind, shape)
    return FileTensor(name, shape, kind, scale, zero, axis, data)


def _contents(buffer: Table, name: str, kind: str, shape: tuple[int, ...]) -> Array | None:
    if buffer.integer(1, "Q") > 1:
        raise UnsupportedError("weights outside of the file's tables are not supported", where=name)
    raw = buffer.vector(0, "u1").tobytes()
    if not raw:
        return None
    if kind not in _DTYPES:
        return np.frombuffer(raw, np.uint8)
    data: Array = np.frombuffer(raw, _DTYPES[kind])
    if data.size != math.prod(shape):
        raise ValueError(f"tensor '{name}' {shape} has {data.size} elements")
    return data.reshape(shape)


def _operator(table: Table, names: list[str], tensors: int) -> FileOperator:
    inputs, outputs = (_indices(table, field, tensors) for field in (1, 2))
    if not outputs or min(outputs) < 0:
        raise ValueError("an operator makes nothing")
    return FileOperator(names[table.integer(0, "I")], inputs, outputs, table.table(4))


def _indices(table: Table, field: int, tensors: int) -> tuple[int, ...]:
    indices = tuple(int(i) for i in table.vector(field, "<i4"))
    if any(not -1 <= i < tensors for i in indices):
        raise ValueError(f"a tensor of {indices} does not exist")
    return indices
