"""The golden images: `python -m tests.golden.make_images` writes them anew.

Small images and the JSON of their fields. They are written once and change only with the format
(whose version number must then change too): tests rebuild them from their JSON, so that a better
compiler or memory plan does not touch them.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from tests.image_cases import case

from mcutrain.image.pack import pack
from mcutrain.image.unpack import Image, unpack
from mcutrain.ir.program import ARENA, Buffer, CompiledProgram, Instr, MemoryPlan, Program, Value

HERE = Path(__file__).resolve().parent
GOLDEN = ("residual-head-8", "branches-4")
TOOL = "golden"  # instead of a version, which would change them
_NUMPY = {"s8": "i1", "s16": "<i2", "u16": "<u2", "s32": "<i4", "u32": "<u4", "f32": "<f4"}


def read_golden(name: str) -> tuple[bytes, dict[str, Any]]:
    """The image and its fields."""
    fields = json.loads((HERE / f"image-{name}.json").read_text())
    return (HERE / f"image-{name}.bin").read_bytes(), fields


def image_fields(image: Image) -> dict[str, Any]:
    """Everything in an image as JSON can hold it."""
    fields = {
        "header": {k: v.hex() if isinstance(v, bytes) else v for k, v in image.header.items()},
        "tensors": [asdict(t) for t in image.tensors],
        "program": [asdict(i) for i in image.program],
        "metadata": image.metadata,
        "constants": image.constants.hex(),
        "initial_state": image.initial_state.hex(),
    }
    return json.loads(json.dumps(fields))


def program_of(fields: dict[str, Any]) -> CompiledProgram:
    """The compiled program that gives these fields when it is packed."""
    header, metadata = fields["header"], fields["metadata"]
    names = [t["name"] for t in fields["tensors"]]
    values = {t["name"]: _value(t, fields) for t in fields["tensors"]}
    instrs = tuple(
        Instr(i["op"], i["layer"], {s: names[t] for s, t in i["operands"].items()}, i["params"])
        for i in fields["program"]
    )
    program = Program(
        metadata["network"]["name"],
        values,
        instrs,
        header["forward"],
        tuple(i["name"] for i in metadata["inputs"]),
        names[header["logits"]],
        header["errors"],
        {"plan": metadata["plan"], "classes": metadata["classes"]},
    )
    buffers = [Buffer(b["name"], b["bytes"], b["first"], b["last"]) for b in metadata["memory"]]
    offsets = {b["name"]: b["offset"] for b in metadata["memory"]}
    return CompiledProgram(
        program,
        MemoryPlan(tuple(buffers), offsets, header["arena_bytes"], 0),
        {t["name"]: t["offset"] for t in fields["tensors"]},
        header["state_bytes"],
        header["constants_bytes"],
        bytes.fromhex(header["model_hash"]),
    )


def _value(tensor: dict[str, Any], fields: dict[str, Any]) -> Value:
    data = None
    if tensor["space"] != ARENA:
        section = fields["initial_state" if tensor["space"] == "state" else "constants"]
        raw = bytes.fromhex(section)[tensor["offset"] :][: tensor["nbytes"]]
        data = np.frombuffer(raw, _NUMPY.get(tensor["dtype"], "u1"))
    h, w, c = tensor["shape"]
    ring = tensor["dtype"] == "s8" and tensor["nbytes"] < h * w * c
    return Value(
        tensor["name"],
        (h, w, c),
        tensor["dtype"],
        tensor["space"],
        tensor["zero_point"],
        tensor["scale"],
        data,
        None,
        tensor["error"],
        tensor["nbytes"] // (w * c) if ring else None,
    )


if __name__ == "__main__":
    for golden in GOLDEN:
        packed = pack(case(golden), tool=TOOL)
        text = json.dumps(image_fields(unpack(packed)), indent=1, sort_keys=True) + "\n"
        (HERE / f"image-{golden}.bin").write_bytes(packed)
        (HERE / f"image-{golden}.json").write_text(text)
