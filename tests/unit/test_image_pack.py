"""Packing and reading back, golden images, and messages about damage."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from tests.golden.make_images import GOLDEN, TOOL, image_fields, program_of, read_golden
from tests.image_cases import CASES, case, packed

from mcutrain.compile import with_state
from mcutrain.errors import FitError, InternalError
from mcutrain.image import format as fmt
from mcutrain.image.account import bytes_by_use
from mcutrain.image.pack import pack, seal
from mcutrain.image.status import (
    DivergedError,
    ImageRefusedError,
    status_error,
)
from mcutrain.image.unpack import DamagedImageError, ImageVersionError, unpack
from mcutrain.ir.program import ARENA, CONST, STATE


@pytest.mark.parametrize("name", CASES)
def test_what_is_packed_is_read_back(name: str) -> None:
    compiled, image = case(name), unpack(packed(name))
    program = compiled.program
    assert [t.name for t in image.tensors] == list(program.values)
    for tensor, value in zip(image.tensors, program.values.values(), strict=True):
        assert (tensor.space, tensor.dtype, tensor.shape) == (value.space, value.dtype, value.shape)
        assert (tensor.zero_point, tensor.error) == (value.zero_point, value.error)
        assert tensor.scale == np.float32(value.scale)
        assert (tensor.offset, tensor.nbytes) == (compiled.value_offsets[value.name], value.nbytes)
        if value.space != ARENA and value.view_of is None:
            section = {CONST: image.constants, STATE: image.initial_state}[value.space]
            data = section[tensor.offset : tensor.offset + tensor.nbytes]
            assert data == np.ascontiguousarray(value.data).tobytes()
    for read, instr in zip(image.program, program.instrs, strict=True):
        assert (read.op, read.layer, dict(read.params)) == (instr.op, instr.layer, instr.params)
        names = {slot: image.tensors[t].name for slot, t in read.operands.items()}
        assert names == dict(instr.operands)
    assert len(image.forward) == program.forward
    assert len(image.forward) + len(image.backward) == len(program.instrs)
    assert [t.name for t in image.inputs] == list(program.inputs)
    assert image.pool_bytes == compiled.pool_bytes
    assert image.header["model_hash"] == compiled.model_hash


def test_metadata_is_sorted_json_with_the_fields_of_the_specification() -> None:
    compiled, data = case("branches-4"), packed("branches-4")
    header = fmt.HEADER.unpack(data)
    raw = zlib.decompress(data[header["metadata_offset"] :][: header["metadata_bytes"]])
    metadata = json.loads(raw)
    assert raw.decode() == json.dumps(metadata, sort_keys=True, separators=(",", ":"))
    assert set(metadata) == {
        *("tool", "network", "plan", "layers", "classes", "inputs", "memory", "tensors"),
    }
    assert metadata["network"] == {"name": "branches", "hash": compiled.model_hash.hex()}
    assert metadata["classes"] == ["class0", "class1", "class2"]
    assert [i["shape"] for i in metadata["inputs"]] == [[7, 6, 2], [7, 6, 3]]
    assert {b["name"] for b in metadata["memory"]} == {b.name for b in compiled.memory.buffers}


def test_sections_are_aligned_and_gaps_are_zero() -> None:
    for name in CASES:
        data = packed(name)
        header = fmt.HEADER.unpack(data)
        used = bytearray(len(data))
        for section, size in (
            ("tensors", header["tensors"] * fmt.TENSOR.size),
            ("program", header["instructions"] * fmt.INSTRUCTION.size),
            ("constants", header["constants_bytes"]),
            ("initial", header["initial_bytes"]),
            ("metadata", header["metadata_bytes"]),
        ):
            start = header[f"{section}_offset"]
            assert start % 4 == 0
            assert not any(used[start : start + size])
            used[start : start + size] = b"\1" * size
        gaps = [
            b
            for b, u in zip(data[fmt.HEADER.size :], used[fmt.HEADER.size :], strict=True)
            if not u
        ]
        assert not any(gaps)


def test_equal_programs_give_equal_bytes() -> None:
    case.cache_clear()
    assert pack(case("branches-8")) == packed("branches-8")


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_images_are_read_and_made(name: str) -> None:
    data, fields = read_golden(name)
    assert image_fields(unpack(data)) == fields
    assert pack(program_of(fields), tool=TOOL) == data


def test_one_changed_byte_at_every_place_is_damage() -> None:
    data = packed("residual-full-4")
    assert len(data) < 32768
    for at in range(len(data)):
        bad = bytearray(data)
        bad[at] ^= 1 + at % 255
        with pytest.raises((DamagedImageError, ImageVersionError)):
            unpack(bytes(bad))


def test_messages_about_damage_say_what_and_what_next() -> None:
    data = packed("residual-head-8")
    with pytest.raises(DamagedImageError, match="not an image") as caught:
        unpack(b"GIF89a" * 100, "cat.gif")
    assert caught.value.where == "cat.gif"
    with pytest.raises(DamagedImageError, match="100 bytes, the header alone has"):
        unpack(data[:100])
    with pytest.raises(DamagedImageError, match="were packed"):
        unpack(data + b"\0")
    with pytest.raises(DamagedImageError, match="CRC"):
        unpack(data[:-1] + b"\7")
    with pytest.raises(ImageVersionError, match="format version 4"):
        unpack(data[:4] + b"\4" + data[5:])
    for error in (DamagedImageError, ImageVersionError):
        assert error.exit_code == 7


def _with(data: bytes, name: str, value: int) -> bytes:
    bad = bytearray(data)
    field = next(f for f in fmt.HEADER.fields if f.name == name)
    struct.pack_into("<" + field.code, bad, fmt.HEADER.offset(name), value)
    return seal(bytes(bad))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tensors_offset", 2**32 - 4),
        ("tensors_offset", 106),
        ("tensors", 2**32 - 1),
        ("program_offset", 0),
        ("instructions", 3),
        ("metadata_bytes", 5),
        ("initial_bytes", 0),
        ("initial_bytes", 2**31),
        ("state_bytes", 2**32 - 4),
        ("metadata_offset", 104),
        ("constants_bytes", 2**31),
        ("logits", 0xFFFE),
    ],
)
def test_a_sealed_header_that_contradicts_the_file_is_damage(field: str, value: int) -> None:
    with pytest.raises(DamagedImageError):
        unpack(_with(packed("residual-head-8"), field, value))


@pytest.mark.parametrize(
    "metadata", [b"\xff", b"[]", b"{}", b"[" * 100_000, b'{"tensors": []}', b'{"layers": "x"}']
)
@pytest.mark.parametrize("compress", [bytes, zlib.compress, lambda m: zlib.compress(m)[:-6]])
def test_metadata_that_is_not_what_was_packed_is_damage(
    metadata: bytes, compress: Callable[[bytes], bytes]
) -> None:
    data, metadata = packed("residual-head-8"), compress(metadata)
    moved = _with(data + metadata + bytes(-len(metadata) % 4), "metadata_offset", len(data))
    moved = _with(_with(moved, "metadata_bytes", len(metadata)), "image_bytes", len(moved))
    with pytest.raises(DamagedImageError):
        unpack(moved)


def test_equal_bytes_of_a_state_are_not_stored() -> None:
    """Fractions and a new classifier are filled in; other bytes come as they are."""
    compiled, image = case("residual-full-8"), unpack(packed("residual-full-8"))
    values = [v for v in compiled.program.values.values() if v.name.endswith(".frac")]
    fractions = sum(v.nbytes for v in values)
    assert image.header["initial_bytes"] < compiled.state_bytes - fractions + 100
    noise = np.random.default_rng(1)
    state = {v.name: noise.integers(0, 256, v.nbytes, np.uint8) for v in values}
    again = unpack(pack(with_state(compiled, state)))
    assert again.header["initial_bytes"] > image.header["initial_bytes"] + fractions / 2
    for v in values:
        at = compiled.value_offsets[v.name]
        assert again.initial_state[at : at + v.nbytes] == state[v.name].tobytes()


@pytest.mark.parametrize("name", CASES)
def test_every_byte_of_an_image_has_a_use(name: str) -> None:
    image = unpack(packed(name))
    uses = bytes_by_use(image)
    assert sum(uses.values()) == len(packed(name))
    assert all(size >= 0 for size in uses.values())
    assert uses["padding"] < 4 * 10
    # Whatever is in the constants is read by an instruction.
    constants = sum(size for use, size in uses.items() if use.startswith("constants"))
    assert len(image.constants) - constants <= 4


def test_a_run_beyond_the_state_is_damage() -> None:
    data = packed("residual-head-8")
    first = fmt.HEADER.unpack(data)["initial_offset"]
    for field, value in (("copied", 2**32 - 1), ("filled", 2**32 - 1), ("value", 256)):
        bad = bytearray(data)
        struct.pack_into("<I", bad, first + fmt.RUN.offset(field), value)
        with pytest.raises(DamagedImageError, match="initial state"):
            unpack(seal(bytes(bad)))


def test_data_that_does_not_fit_its_type_is_not_packed() -> None:
    compiled = case("residual-head-8")
    name = next(n for n, v in compiled.program.values.items() if v.dtype == "u8")
    value = compiled.program.values[name]
    for data in (np.full(value.count, 300), np.zeros(value.count + 1, np.uint8)):
        values = dict(compiled.program.values) | {name: replace(value, data=data)}
        program = replace(compiled.program, values=values)
        with pytest.raises(InternalError):
            pack(replace(compiled, program=program))


def test_too_many_instructions_are_said_before_a_device_refuses_them() -> None:
    compiled = case("residual-head-8")
    program = replace(compiled.program, instrs=compiled.program.instrs * 400)
    with pytest.raises(FitError, match="too many instructions"):
        pack(replace(compiled, program=program))


def test_a_refusal_names_the_layer_and_the_operand() -> None:
    image = unpack(packed("branches-8"))
    ops = [(instr.layer, instr.op) for instr in image.program]
    index = ops.index(("right", "conv2d"))
    error = status_error(-30, index, 7, image, "net.mcti")
    assert isinstance(error, ImageRefusedError)
    assert str(error.where).startswith("net.mcti, layer right (conv2d, instruction ")
    assert str(error.where).endswith("operand y")
    assert (error.status, error.index, error.detail) == (-30, index, 7)
    assert "inputs" in str(status_error(-24, 80, 0, image).where)
    assert "x2" in str(
        status_error(-25, list(case("branches-8").program.values).index("x2"), 0, image).where
    )
    assert isinstance(status_error(-1), DivergedError)
    assert isinstance(status_error(-99), InternalError)
    for index in (0, 10**6):
        assert status_error(-32, index, 99, None).where
