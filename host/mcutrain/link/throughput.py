"""What a training step costs on the line."""

from __future__ import annotations

from mcutrain.link import wire

_BITS = 10  # of a character: start, eight, stop


def frame_bytes(payload: int) -> int:
    """Bytes of a frame on the line, at most: one byte of stuffing in 254, and the borders."""
    body = wire.HEADER.size + payload + wire.CRC_BYTES
    return body + body // 254 + 1 + 2


def step_bytes(sample_bytes: int) -> int:
    """Bytes that go to the device for one step: the sample in DATA frames, and STEP."""
    head = wire.DATA.request.fixed.size
    whole, rest = divmod(sample_bytes, wire.DATA_CHUNK)
    sizes = [wire.DATA_CHUNK] * whole + ([rest] if rest else [])
    data = sum(frame_bytes(head + n) for n in sizes)
    return data + frame_bytes(wire.STEP.request.fixed.size)


def steps_per_second(sample_bytes: int, baud: int) -> float:
    """The most that a line at that rate can carry, whatever the device does meanwhile."""
    return baud / (_BITS * step_bytes(sample_bytes))
