"""Frames: header, payload and CRC-32, stuffed with COBS between two zero bytes."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from cobs import cobs

from mcutrain.link import wire

# COBS adds at most one byte for 254, and a frame has a zero at either end.
MAX_ENCODED = wire.MAX_FRAME + wire.MAX_FRAME // 254 + 1 + 2


@dataclass(frozen=True)
class Frame:
    """A frame that arrived whole, or is to be sent."""

    type: int
    session: int
    seq: int
    payload: bytes = b""
    version: int = wire.VERSION

    def encode(self) -> bytes:
        """The bytes on the line."""
        if len(self.payload) > wire.MAX_PAYLOAD:
            raise ValueError(f"payload of {len(self.payload)} bytes, at most {wire.MAX_PAYLOAD}")
        head = wire.HEADER.pack(self.version, self.type, self.session, self.seq, len(self.payload))
        body = head + self.payload
        stuffed: bytes = cobs.encode(body + zlib.crc32(body).to_bytes(4, "little"))
        return b"\0" + stuffed + b"\0"


@dataclass(frozen=True)
class Damaged:
    """Bytes between two zeros that are no frame."""

    reason: wire.NakReason


def decode(encoded: bytes) -> Frame | Damaged:
    """One frame from the bytes between two zeros, at least one byte."""
    try:
        body = cobs.decode(encoded)
    except cobs.DecodeError:
        return Damaged(wire.NakReason.COBS)
    if len(body) > wire.MAX_FRAME:
        return Damaged(wire.NakReason.LONG)
    if len(body) < wire.HEADER.size + wire.CRC_BYTES:
        return Damaged(wire.NakReason.SHORT)
    content, crc = body[: -wire.CRC_BYTES], body[-wire.CRC_BYTES :]
    if zlib.crc32(content) != int.from_bytes(crc, "little"):
        return Damaged(wire.NakReason.CRC)
    version, kind, session, seq, length = wire.HEADER.unpack(content[: wire.HEADER.size])
    payload = content[wire.HEADER.size :]
    if length != len(payload):
        return Damaged(wire.NakReason.CRC)
    return Frame(kind, session, seq, payload, version)


class Deframer:
    """Cuts a stream of bytes into frames; keeps at most one frame's bytes."""

    def __init__(self) -> None:
        self._partial = bytearray()
        self._too_long = False

    def feed(self, data: bytes) -> list[Frame | Damaged]:
        """What became complete with these bytes. Empty frames (zeros in a row) are nothing."""
        *ended, rest = data.split(b"\0")
        found: list[Frame | Damaged] = []
        for piece in ended:
            self._append(piece)
            if self._too_long:
                found.append(Damaged(wire.NakReason.LONG))
            elif self._partial:
                found.append(decode(bytes(self._partial)))
            self._partial.clear()
            self._too_long = False
        self._append(rest)
        return found

    def _append(self, piece: bytes) -> None:
        self._too_long = self._too_long or len(self._partial) + len(piece) > MAX_ENCODED
        if self._too_long:
            self._partial.clear()
        else:
            self._partial += piece
