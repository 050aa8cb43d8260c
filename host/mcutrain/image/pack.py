"""A compiled program to the bytes of an image."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

import numpy as np

from mcutrain import __version__
from mcutrain.errors import FitError, InternalError
from mcutrain.image import format as fmt
from mcutrain.ir.program import CONST, STATE, CompiledProgram, Instr, Program, Value, contents

_LONG_RUN = 2 * fmt.RUN.size  # equal bytes that are worth a record


def pack(compiled: CompiledProgram, tool: str = f"mcutrain {__version__}") -> bytes:
    """The image of a compiled program; equal programs give equal bytes.

    Args:
        compiled: values, instructions and their memory.
        tool: name and version for the metadata.

    Raises:
        FitError: more tensors or instructions than the format can hold.
    """
    program = compiled.program
    index = {name: i for i, name in enumerate(program.values)}
    layers = list(dict.fromkeys(instr.layer for instr in program.instrs))
    _check_limits(program)
    sections = {
        "tensors_offset": b"".join(_tensor(v, compiled) for v in program.values.values()),
        "program_offset": b"".join(_instruction(i, index, layers) for i in program.instrs),
        "constants_offset": _contents(compiled, CONST, compiled.const_bytes),
        "initial_offset": _runs(_contents(compiled, STATE, compiled.state_bytes)),
        "metadata_offset": _compressed(_metadata(compiled, layers, tool)),
    }
    offsets: dict[str, int] = {}
    body = b""
    for name, data in sections.items():
        offsets[name] = fmt.HEADER.size + len(body)
        body += data + bytes(-len(data) % 4)
    header = _header(compiled, index) | offsets
    header |= {
        "image_bytes": fmt.HEADER.size + len(body),
        "initial_bytes": len(sections["initial_offset"]),
        "metadata_bytes": len(sections["metadata_offset"]),
    }
    return seal(fmt.HEADER.pack(header) + body)


def seal(image: bytes) -> bytes:
    """The same image with its CRC made right."""
    at = fmt.HEADER.offset("crc")
    crc = zlib.crc32(image[fmt.CRC_START :])
    return image[:at] + crc.to_bytes(4, "little") + image[at + 4 :]


def _check_limits(program: Program) -> None:
    for what, count, limit in (
        ("tensors", len(program.values), fmt.NONE - 1),
        ("instructions", len(program.instrs), fmt.MAX_INSTRUCTIONS),
    ):
        if count > limit:
            raise FitError(
                f"the network has too many {what} for an image",
                where=program.name,
                why=f"{count} {what}, the format holds {limit}",
                hint="use a smaller network, or train fewer layers",
            )


def _header(compiled: CompiledProgram, index: Mapping[str, int]) -> dict[str, Any]:
    program = compiled.program
    inputs = [index[name] for name in program.inputs]
    logits = program.values[program.logits]
    return {
        "magic": fmt.MAGIC,
        "version": fmt.VERSION,
        "header_bytes": fmt.HEADER.size,
        "crc": 0,
        "model_hash": compiled.model_hash,
        "state_bytes": compiled.state_bytes,
        "arena_bytes": compiled.memory.arena_bytes,
        "tensors": len(program.values),
        "forward": program.forward,
        "instructions": len(program.instrs),
        "constants_bytes": compiled.const_bytes,
        "inputs": inputs + [fmt.NONE] * (fmt.MAX_INPUTS - len(inputs)),
        "logits": index[program.logits],
        "classes": logits.count,
        "errors": program.errors,
        "rng": index["rng"],
        "predictor": index["predictor"] if program.errors else fmt.NONE,
        "exponent": index["exponent"] if program.errors else fmt.NONE,
    }


def _tensor(value: Value, compiled: CompiledProgram) -> bytes:
    h, w, c = value.shape
    return fmt.TENSOR.pack(
        {
            "space": fmt.SPACES[value.space],
            "dtype": fmt.DTYPES[value.dtype],
            "zero_point": value.zero_point,
            "reserved": 0,
            "h": h,
            "w": w,
            "c": c,
            "error": fmt.NONE if value.error is None else value.error,
            "offset": compiled.value_offsets[value.name],
            "bytes": value.nbytes,
            "scale": value.scale,
        }
    )


def _instruction(instr: Instr, index: Mapping[str, int], layers: list[str]) -> bytes:
    spec = instr.spec
    operands = [
        index[instr.operands[s.name]] if s.name in instr.operands else fmt.NONE for s in spec.slots
    ]
    params = [int(instr.params[name]) for name in spec.params]
    return fmt.INSTRUCTION.pack(
        {
            "op": spec.code,
            "reserved": 0,
            "layer": layers.index(instr.layer),
            "tensors": operands + [fmt.NONE] * (fmt.MAX_SLOTS - len(operands)),
            "params": params + [0] * (fmt.MAX_PARAMS - len(params)),
        }
    )


def _contents(compiled: CompiledProgram, space: str, size: int) -> bytes:
    """The bytes of a space: every value of it that is not a view, zeros between them."""
    out = bytearray(size)
    for value in compiled.program.values.values():
        if value.space != space or value.view_of is not None:
            continue
        data = b"" if value.data is None else contents(value)
        if len(data) != value.nbytes:
            raise InternalError(
                f"{value.name} has {len(data)} bytes of data instead of {value.nbytes}",
                where=compiled.program.name,
            )
        at = compiled.value_offsets[value.name]
        out[at : at + len(data)] = data
    return bytes(out)


def _runs(state: bytes) -> bytes:
    """The section of the initial state: fractions, and the weights of a new classifier, are equal
    bytes, which are not stored.
    """
    return b"".join(_run(*run) for run in _equal_bytes(state))


def _run(copied: bytes, filled: int, value: int) -> bytes:
    record = fmt.RUN.pack({"copied": len(copied), "filled": filled, "value": value})
    return record + copied + bytes(-len(copied) % 4)


def _equal_bytes(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """`data` cut behind each long run of equal bytes: bytes before the run, its length, value."""
    start = at = 0
    for value, group in groupby(data):
        n = sum(1 for _ in group)
        at += n
        if n >= _LONG_RUN:
            yield data[start : at - n], n, value
            start = at
    if start < at:
        yield data[start:at], 0, 0


def _compressed(text: bytes) -> bytes:
    """With a window of 1 KB, so that a device has room to unpack it."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 10, 9)
    return packer.compress(text) + packer.flush()


def _metadata(compiled: CompiledProgram, layers: list[str], tool: str) -> bytes:
    program = compiled.program
    fields = {
        "tool": tool,
        "network": {"name": program.info.get("network", program.name)}
        | {"hash": compiled.model_hash.hex()},
        "plan": program.info.get("plan", {}),
        "classes": list(program.info.get("classes", [])),
        "layers": layers,
        "inputs": [_input(program.values[name]) for name in program.inputs],
        "memory": [
            {
                "name": b.name,
                "bytes": b.nbytes,
                "offset": compiled.memory.offsets[b.name],
                "first": b.first,
                "last": b.last,
            }
            for b in compiled.memory.buffers
        ],
        "tensors": list(program.values),
    }
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode()


def _input(value: Value) -> dict[str, Any]:
    return {
        "name": value.name,
        "shape": list(value.shape),
        "scale": float(np.float32(value.scale)),
        "zero_point": value.zero_point,
    }
