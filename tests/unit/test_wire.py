"""The description of the wire: generated files, test vectors, frames."""

from __future__ import annotations

import random
import re
import struct

import pytest

from mcutrain.engine.loopback import Loopback
from mcutrain.link import wire
from mcutrain.link.framing import Damaged, Deframer, Frame, decode
from mcutrain.link.generate_header import HEADER_PATH, SPEC_PATH, header_text, spec_text


def test_the_c_header_is_the_generated_one() -> None:
    assert HEADER_PATH.read_text() == header_text(), "run: python -m mcutrain.link.generate_header"


def test_the_tables_of_the_spec_are_the_generated_ones() -> None:
    text = SPEC_PATH.read_text()
    assert text == spec_text(text), "run: python -m mcutrain.link.generate_header"


def test_types_are_unique_and_below_the_response_bit() -> None:
    types = [message.type for message in wire.MESSAGES]
    assert len(set(types)) == len(types)
    assert all(0 < t < 0x40 for t in types)


@pytest.mark.parametrize("message", wire.MESSAGES, ids=lambda m: m.name)
def test_payloads_fit_and_only_the_last_field_is_open(message: wire.Message) -> None:
    for layout in (message.request, message.response):
        assert layout.fixed.size <= wire.MAX_PAYLOAD
        assert all(field.code for field in layout.fields[:-1])
        names = [field.name for field in layout.fields]
        assert len(set(names)) == len(names)
        values: dict[str, wire.Value] = {}
        for i, field in enumerate(layout.fields):
            values[field.name] = i + 1
            if field.type == "text":
                values[field.name] = "böard"
            elif field.type == "bytes":
                values[field.name] = b"\x00\x03"
            elif field.code.endswith("s"):
                values[field.name] = bytes(range(int(field.code[:-1])))
        assert layout.unpack(layout.pack(values)) == values


def test_every_error_code_has_a_meaning() -> None:
    assert set(wire.ERRORS) == set(wire.ErrorCode)


def test_a_payload_of_another_size_is_no_message() -> None:
    with pytest.raises(ValueError, match="30 wanted"):
        wire.STEP.response.unpack(bytes(25))
    with pytest.raises(ValueError, match="wanted"):
        wire.STEP.request.pack({"label": 1})


def _float(value: float) -> int:
    return int.from_bytes(struct.pack("<f", value), "little")


VECTORS: dict[str, Frame] = {
    "HELLO": Frame(1, 0x1234, 1),
    "its NAK": Frame(0xC1, 0, 0, b"\x01"),
    "IMAGE_BEGIN": Frame(2, 0x1234, 2, wire.IMAGE_BEGIN.request.pack({"place": 0, "size": 1000})),
    "DATA": Frame(
        3,
        0x1234,
        3,
        wire.DATA.request.pack(
            {"target": 0, "transfer": 1, "offset": 0, "data": b"\x00\x03\x00\xff"}
        ),
    ),
    "its response: accepted": Frame(
        0x83, 0x1234, 3, wire.DATA.response.pack({"accepted": 1, "transfer": 1, "next": 4})
    ),
    "SPEED": Frame(15, 0x1234, 4, wire.SPEED.request.pack({"baud": 1_000_000, "keep": 0})),
    "STEP": Frame(
        7,
        0x1234,
        0xFFFF,
        wire.STEP.request.pack(
            {
                "label": 7,
                "lr": _float(0.125),
                "lr_head": _float(0.5),
                "learnt": _float(0.25),
                "flags": 0,
            }
        ),
    ),
    "error response": Frame(
        0xC0, 0x1234, 0xFFFF, wire.ERROR_LAYOUT.pack({"code": 11, "a": 512, "b": 784, "c": 0})
    ),
    "READ": Frame(9, 0x1234, 0, wire.READ.request.pack({"source": 0, "offset": 0, "length": 300})),
    "its response: 300": Frame(0x89, 0x1234, 0, b"\x01" * 300),
}


def _rows() -> dict[str, bytes]:
    section = SPEC_PATH.read_text().partition("## 8. Test vectors")[2]
    return {
        name: bytes.fromhex(code)
        for name, code in re.findall(r"^\| (.+?) \| `([0-9a-f]+)` \|$", section, re.MULTILINE)
    }


def test_the_vectors_of_the_spec() -> None:
    rows = _rows()
    assert len(rows) == len(VECTORS)
    for name, frame in VECTORS.items():
        found = [code for row, code in rows.items() if row.startswith(name)]
        assert len(found) == 1, name
        assert frame.encode() == found[0], name
        assert Deframer().feed(found[0]) == [frame]


def test_the_device_answers_the_first_vector() -> None:
    line = Loopback(pool_bytes=65536)
    line.write(_rows()["HELLO, session 0x1234, seq 1"])
    (answer,) = Deframer().feed(line.read(0))
    assert isinstance(answer, Frame)
    assert (answer.type, answer.session, answer.seq) == (0x81, 0x1234, 1)
    assert wire.HELLO.response.unpack(answer.payload)["board"] == "host"
    # The second is the NAK that a new device sends.
    line.restart()
    hello = bytearray(_rows()["HELLO, session 0x1234, seq 1"])
    hello[-2] ^= 0x10
    line.write(bytes(hello))
    assert line.read(0) == next(code for name, code in _rows().items() if "NAK" in name)


PAYLOADS = {
    "t56 all byte values": bytes(range(256)) * 2,
    "t56 zeros": bytes(512),
    "t56 almost a block of no zeros": b"\x55" * 253 + b"\0" + b"\xff" * 254 + b"\0\0\0",
    "t58 interrupt characters": b"\x03" * 512,
    "flow control": b"\x11\x13" * 256,
    "nothing": b"",
}


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_t56_t58_no_byte_value_is_special(payload: bytes) -> None:
    frame = Frame(3, 7, 8, payload)
    encoded = frame.encode()
    assert encoded[0] == encoded[-1] == 0
    assert 0 not in encoded[1:-1]
    for cut in range(0, len(encoded), 37):
        deframer = Deframer()
        assert deframer.feed(encoded[:cut]) + deframer.feed(encoded[cut:]) == [frame]


def test_damage_costs_one_frame() -> None:
    frames = [Frame(3, 7, n, bytes([n]) * n) for n in range(1, 20)]
    rng = random.Random(0)
    stream = [frame.encode() for frame in frames]
    for victim in range(len(frames)):
        broken = bytearray(stream[victim])
        at = rng.randrange(len(broken))
        broken[at] ^= rng.randrange(1, 256)
        data = b"".join([*stream[:victim], bytes(broken), *stream[victim + 1 :]])
        got = [event for event in Deframer().feed(data) if isinstance(event, Frame)]
        # A damaged border may join the victim to one neighbour, whose own border still stands.
        assert [f for f in frames if f not in got] in ([], [frames[victim]])


def test_every_single_bit_of_a_frame_is_guarded() -> None:
    encoded = Frame(7, 0x1234, 5, bytes(range(40))).encode()
    for at in range(1, len(encoded) - 1):
        for bit in range(8):
            broken = bytearray(encoded)
            broken[at] ^= 1 << bit
            assert not any(isinstance(e, Frame) for e in Deframer().feed(bytes(broken)))


def test_what_is_no_frame_says_why() -> None:
    assert decode(b"\x05\x01") == Damaged(wire.NakReason.COBS)
    assert decode(b"\x02\x01") == Damaged(wire.NakReason.SHORT)
    good = Frame(1, 1, 1).encode()[1:-1]
    assert decode(good[:-1] + bytes([good[-1] ^ 1])) == Damaged(wire.NakReason.CRC)
    assert Deframer().feed(b"\x00" + b"\x77" * 5000 + b"\x00") == [Damaged(wire.NakReason.LONG)]
    with pytest.raises(ValueError, match="at most 512"):
        Frame(1, 1, 1, bytes(513)).encode()


def test_a_stream_of_garbage_is_not_kept() -> None:
    deframer = Deframer()
    for _ in range(100):
        assert deframer.feed(b"\x55" * 1000) == []
    assert len(deframer._partial) <= 2 * wire.MAX_FRAME
    assert deframer.feed(b"\0" + Frame(1, 2, 3).encode())[-1] == Frame(1, 2, 3)
