"""The bytes of an image to dataclasses, for `inspect` and for names in messages.

This checks the structure only: whether what is said can also be executed is decided by the
executor's own verifier (`mcutrain.engine`).
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcutrain.errors import ImageError
from mcutrain.image import format as fmt
from mcutrain.ir.graph import QParams
from mcutrain.ir.instructions import INSTRUCTIONS
from mcutrain.ir.program import aligned

_SPACE_NAMES = {code: name for name, code in fmt.SPACES.items()}
_DTYPE_NAMES = {code: name for name, code in fmt.DTYPES.items()}


class DamagedImageError(ImageError):
    """The bytes are no image, were cut, extended or changed, or contradict themselves."""


class ImageVersionError(ImageError):
    """An image of another format version."""


@dataclass(frozen=True)
class ImageTensor:
    """One row of the tensor table; `error` is the index of its exponent, or None."""

    name: str
    space: str
    dtype: str
    zero_point: int
    shape: tuple[int, int, int]
    error: int | None
    offset: int
    nbytes: int
    scale: float

    @property
    def count(self) -> int:
        """Number of elements of the whole tensor."""
        return self.shape[0] * self.shape[1] * self.shape[2]

    @property
    def q(self) -> QParams:
        """What the numbers of an int8 tensor stand for."""
        return QParams(self.scale, self.zero_point)

    @property
    def is_ring(self) -> bool:
        """Whether memory holds only some rows of it, those that a segment needs."""
        return self.dtype == "s8" and self.nbytes < self.count


@dataclass(frozen=True)
class ImageInstruction:
    """One instruction; `operands` maps slot names to indices into the tensor table."""

    op: str
    layer: str
    operands: Mapping[str, int]
    params: Mapping[str, int]


@dataclass(frozen=True)
class Image:
    """An image by fields.

    Attributes:
        header: fields of the header by name (docs/SPEC-image.md, section 1).
        metadata: the parsed JSON.
        constants: bytes of the constants section.
        initial_state: bytes of the state that training starts from.
    """

    header: Mapping[str, Any]
    tensors: tuple[ImageTensor, ...]
    program: tuple[ImageInstruction, ...]
    metadata: Mapping[str, Any]
    constants: bytes
    initial_state: bytes

    @property
    def forward(self) -> tuple[ImageInstruction, ...]:
        """The forward pass."""
        return self.program[: self.header["forward"]]

    @property
    def backward(self) -> tuple[ImageInstruction, ...]:
        """Loss, errors and updates; empty where nothing trains."""
        return self.program[self.header["forward"] :]

    @property
    def pool_bytes(self) -> int:
        """Memory that the executor needs: state, then the arena at the next multiple of 4."""
        state: int = self.header["state_bytes"]
        arena: int = self.header["arena_bytes"]
        return aligned(state) + arena

    @property
    def inputs(self) -> tuple[ImageTensor, ...]:
        """The tensors that hold a sample."""
        return tuple(self.tensors[i] for i in self.header["inputs"] if i != fmt.NONE)


def unpack(data: bytes, where: str = "image") -> Image:
    """Read an image.

    Args:
        data: the whole file.
        where: the file's name, for messages.

    Raises:
        DamagedImageError: no image, or not the bytes that were packed.
        ImageVersionError: packed by another version of mcutrain.
    """
    header = _read_header(data, where)
    metadata = _read_metadata(_section(data, header, "metadata", where), where)
    names = metadata["tensors"]
    if len(names) != header["tensors"]:
        raise _damaged(where, f"{len(names)} names for {header['tensors']} tensors")
    tensors = tuple(
        _tensor(row, name, where)
        for row, name in zip(_records(data, header, "tensors", where), names, strict=True)
    )
    program = tuple(
        _instruction(row, metadata["layers"], len(tensors), where)
        for row in _records(data, header, "program", where)
    )
    if header["forward"] > len(program):
        raise _damaged(where, f"{header['forward']} forward of {len(program)} instructions")
    if any(i != fmt.NONE and i >= len(tensors) for i in (*header["inputs"], header["logits"])):
        raise _damaged(where, "an input or the logits name a tensor that does not exist")
    return Image(
        header,
        tensors,
        program,
        metadata,
        _section(data, header, "constants", where),
        _read_runs(_section(data, header, "initial", where), header["state_bytes"], where),
    )


def _damaged(where: str, why: str) -> DamagedImageError:
    return DamagedImageError(
        "the image is damaged", where=where, why=why, hint="make it again: mcutrain pack"
    )


def _read_header(data: bytes, where: str) -> dict[str, Any]:
    if data.startswith(fmt.MAGIC) and len(data) < fmt.HEADER.size:
        raise _damaged(where, f"{len(data)} bytes, the header alone has {fmt.HEADER.size}")
    if not data.startswith(fmt.MAGIC):
        raise DamagedImageError(
            "this is not an image",
            where=where,
            why=f"{len(data)} bytes that start with {data[:4]!r} instead of {fmt.MAGIC!r}",
            hint="images are made by: mcutrain pack",
        )
    header = fmt.HEADER.unpack(data)
    if header["version"] != fmt.VERSION or header["header_bytes"] != fmt.HEADER.size:
        raise ImageVersionError(
            "the image has another format",
            where=where,
            why=f"format version {header['version']}, this mcutrain reads {fmt.VERSION}",
            hint="make it again with this version: mcutrain pack",
        )
    if header["image_bytes"] != len(data):
        raise _damaged(where, f"{len(data)} bytes, of which {header['image_bytes']} were packed")
    crc = zlib.crc32(memoryview(data)[fmt.CRC_START :])
    if header["crc"] != crc:
        raise _damaged(where, f"its CRC is {crc:08x}, its header says {header['crc']:08x}")
    return header


def _range(data: bytes, start: int, size: int, where: str) -> int:
    if start < fmt.HEADER.size or start % 4 or start + size > len(data):
        raise _damaged(where, f"a section of {size} bytes at {start} lies outside")
    return start


def _section(data: bytes, header: Mapping[str, Any], name: str, where: str) -> bytes:
    size = header[f"{name}_bytes"]
    start = _range(data, header[f"{name}_offset"], size, where)
    return data[start : start + size]


def _read_runs(section: bytes, size: int, where: str) -> bytes:
    """The initial state from its runs."""
    state, at = b"", 0
    limit = min(size, fmt.MAX_UNPACKED_BYTES)
    while at + fmt.RUN.size <= len(section):
        run = fmt.RUN.unpack(section, at)
        at += fmt.RUN.size
        copied = section[at : at + run["copied"]]
        at += aligned(run["copied"])
        if run["value"] > 0xFF or len(state) + len(copied) + run["filled"] > limit:
            break
        state += copied + bytes([run["value"]]) * run["filled"]
    if at != len(section) or len(state) != size:
        raise _damaged(where, f"its initial state is not one of {size} bytes")
    return state


def _records(data: bytes, header: Mapping[str, Any], name: str, where: str) -> list[dict[str, Any]]:
    layout, count = {
        "tensors": (fmt.TENSOR, header["tensors"]),
        "program": (fmt.INSTRUCTION, header["instructions"]),
    }[name]
    start = _range(data, header[f"{name}_offset"], count * layout.size, where)
    return [layout.unpack(data, start + i * layout.size) for i in range(count)]


def _read_metadata(data: bytes, where: str) -> dict[str, Any]:
    try:
        metadata = json.loads(zlib.decompressobj().decompress(data, fmt.MAX_UNPACKED_BYTES))
    except (ValueError, RecursionError, zlib.error) as error:
        raise _damaged(where, f"its metadata is not compressed JSON: {error}") from error
    if not isinstance(metadata, dict):
        raise _damaged(where, "its metadata is not a JSON object")
    for name in ("tensors", "layers", "classes", "inputs", "memory"):
        if not isinstance(metadata.get(name), list):
            raise _damaged(where, f"its metadata has no list {name!r}")
    return metadata


def _tensor(row: Mapping[str, Any], name: str, where: str) -> ImageTensor:
    if row["space"] not in _SPACE_NAMES or row["dtype"] not in _DTYPE_NAMES:
        raise _damaged(where, f"tensor {name} has space {row['space']}, dtype {row['dtype']}")
    return ImageTensor(
        name,
        _SPACE_NAMES[row["space"]],
        _DTYPE_NAMES[row["dtype"]],
        row["zero_point"],
        (row["h"], row["w"], row["c"]),
        None if row["error"] == fmt.NONE else row["error"],
        row["offset"],
        row["bytes"],
        row["scale"],
    )


def _instruction(
    row: Mapping[str, Any], layers: list[str], tensors: int, where: str
) -> ImageInstruction:
    name = fmt.OP_NAMES.get(row["op"])
    if name is None or row["layer"] >= len(layers):
        raise _damaged(where, f"an instruction has op {row['op']} and layer {row['layer']}")
    spec = INSTRUCTIONS[name]
    operands = {
        slot.name: t for slot, t in zip(spec.slots, row["tensors"], strict=False) if t != fmt.NONE
    }
    if any(t >= tensors for t in operands.values()):
        raise _damaged(where, f"an instruction of {layers[row['layer']]} names no tensor")
    return ImageInstruction(
        name,
        layers[row["layer"]],
        operands,
        dict(zip(spec.params, row["params"], strict=False)),
    )
