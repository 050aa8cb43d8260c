"""Fields of responses as the records that the trainer gets, and numbers as fields."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import cast

from mcutrain.link import wire
from mcutrain.link.device import Counter, DeviceInfo, Fault, ImageInfo, StepResult

_COUNTER_KINDS = {0: "emulated", 1: "cycles", 2: "ticks"}


def numbers(values: Mapping[str, wire.Value]) -> dict[str, int]:
    """The fields that are numbers."""
    return {name: value for name, value in values.items() if isinstance(value, int)}


def bits(value: float) -> int:
    """The binary32 pattern; infinity where the value is too large."""
    try:
        packed = struct.pack("<f", value)
    except OverflowError:
        packed = struct.pack("<f", math.inf)
    return int.from_bytes(packed, "little")


def device_info(values: Mapping[str, wire.Value], image: ImageInfo | None) -> DeviceInfo:
    """What a response to HELLO says."""
    fields = numbers(values)
    fault = Fault(*(fields[f"fault_{name}"] for name in ("pc", "lr", "cfsr", "address")))
    kind = _COUNTER_KINDS.get(fields["counter_kind"], "ticks")
    return DeviceInfo(
        board=cast(str, values["board"]),
        build=cast(bytes, values["build"]).hex(),
        format_version=fields["format_version"],
        pool_bytes=fields["pool_bytes"],
        flash_bytes=fields["flash_bytes"],
        stack_bytes=fields["stack_bytes"],
        app_bytes=fields["app_bytes"],
        counter=Counter(kind, fields["counter_num"], fields["counter_den"]),
        step=fields["step"],
        image_crc=fields["image_crc"] if fields["image_open"] else None,
        fault=fault if fault.pc else None,
        image=image,
    )


def step_result(values: Mapping[str, wire.Value]) -> StepResult:
    """What a response to STEP says."""
    fields = numbers(values)
    loss_bits = fields.pop("loss")
    loss = struct.unpack("<f", struct.pack("<I", loss_bits))[0]
    return StepResult(loss=loss, loss_bits=loss_bits, **fields)
