"""The C codec against the `cobs` package, on every kind of input."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from typing import Any

import cffi
import pytest
from cobs import cobs

ROOT = Path(__file__).resolve().parents[2]
CAPACITY = 600

SINK = """
#include <string.h>
#include "mct_cobs.h"
typedef struct { uint8_t *at; uint32_t n; } sink_t;
static void sink(void *context, const uint8_t *bytes, uint32_t n)
{
    sink_t *s = context;
    memcpy(s->at + s->n, bytes, n);
    s->n += n;
}
static uint32_t encode(const uint8_t *src, uint32_t n, uint8_t *dst)
{
    sink_t s = {dst, 0};
    mct_cobs_encode(src, n, sink, &s);
    return s.n;
}
"""
CDEF = """
uint32_t encode(const uint8_t *src, uint32_t n, uint8_t *dst);
typedef struct { uint8_t *buffer; uint32_t capacity; uint32_t length; ...; } mct_cobs_decoder;
typedef enum { MCT_COBS_MORE, MCT_COBS_FRAME, MCT_COBS_BROKEN, MCT_COBS_TOO_LONG, ... }
    mct_cobs_event;
mct_cobs_event mct_cobs_feed(mct_cobs_decoder *decoder, uint8_t byte);
"""


@pytest.fixture(scope="module")
def codec(tmp_path_factory: pytest.TempPathFactory) -> Any:
    ffi = cffi.FFI()
    ffi.cdef(CDEF)
    ffi.set_source(
        "_codec",
        SINK,
        sources=[str(p) for p in (ROOT / "kernels_c" / "src" / "wire").glob("*.c")],
        include_dirs=[str(ROOT / "kernels_c" / "include")],
    )
    path = ffi.compile(tmpdir=str(tmp_path_factory.mktemp("codec")))
    spec = importlib.util.spec_from_file_location("_codec", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Decoder:
    """Feeds the C decoder; gives (event, bytes) for whatever ends."""

    def __init__(self, codec: Any) -> None:
        self.codec = codec
        self.buffer = codec.ffi.new("uint8_t[]", CAPACITY)
        self.state = codec.ffi.new("mct_cobs_decoder *")
        self.state.buffer = self.buffer
        self.state.capacity = CAPACITY

    def feed(self, data: bytes) -> list[tuple[str, bytes]]:
        lib = self.codec.lib
        names = {
            lib.MCT_COBS_FRAME: "frame",
            lib.MCT_COBS_BROKEN: "broken",
            lib.MCT_COBS_TOO_LONG: "long",
        }
        ended = []
        for byte in data:
            event = lib.mct_cobs_feed(self.state, byte)
            if event != lib.MCT_COBS_MORE:
                whole = bytes(self.codec.ffi.buffer(self.buffer, self.state.length))
                ended.append((names[event], whole if names[event] == "frame" else b""))
        return ended


def encode(codec: Any, data: bytes) -> bytes:
    out = codec.ffi.new("uint8_t[]", len(data) + len(data) // 254 + 2)
    return bytes(codec.ffi.buffer(out, codec.lib.encode(data, len(data), out)))


def cases() -> list[bytes]:
    rng = random.Random(1)
    found = [b"", b"\0", b"\0\0", bytes(range(256)), bytes(CAPACITY), b"\x03" * CAPACITY]
    # Runs without zeros around the lengths of one and two blocks, alone and between zeros.
    for n in (1, 2, 252, 253, 254, 255, 256, 507, 508, 509, 510):
        found += [b"\xaa" * n, b"\0" + b"\xaa" * n, b"\xaa" * n + b"\0", b"\xaa" * n + b"\0\x01"]
    for _ in range(500):
        zeros = rng.choice((0.0, 0.01, 0.5, 0.99))
        length = rng.randrange(CAPACITY + 1)
        found.append(
            bytes(0 if rng.random() < zeros else rng.randrange(256) for _ in range(length))
        )
    return found


def test_t56_both_directions_agree_with_the_package(codec: Any) -> None:
    decoder = Decoder(codec)
    for data in cases():
        encoded = encode(codec, data)
        assert encoded == cobs.encode(data)
        assert 0 not in encoded
        assert decoder.feed(encoded + b"\0") == [("frame", data)]


def test_garbage_is_judged_like_the_package_judges_it(codec: Any) -> None:
    rng = random.Random(2)
    decoder = Decoder(codec)
    kinds = set()
    for _ in range(5000):
        length = rng.randrange(1, 40)
        top = rng.choice((4, 16, 256))
        garbage = bytes(rng.randrange(1, top) for _ in range(length))
        try:
            expected = ("frame", cobs.decode(garbage))
        except cobs.DecodeError:
            expected = ("broken", b"")
        assert decoder.feed(garbage + b"\0") == [expected], garbage
        kinds.add(expected[0])
    assert kinds == {"frame", "broken"}


def test_zeros_in_a_row_are_nothing(codec: Any) -> None:
    assert Decoder(codec).feed(bytes(1000)) == []


def test_too_long_is_noticed_and_forgotten(codec: Any) -> None:
    decoder = Decoder(codec)
    fits, long = b"\xaa" * CAPACITY, b"\xaa" * (CAPACITY + 1)
    assert decoder.feed(cobs.encode(fits) + b"\0") == [("frame", fits)]
    assert decoder.feed(cobs.encode(long) + b"\0") == [("long", b"")]
    assert decoder.feed(b"\x55" * 100_000 + b"\0") == [("long", b"")]
    assert decoder.feed(cobs.encode(b"ok") + b"\0") == [("frame", b"ok")]


def test_t54_a_frame_cut_at_the_start_costs_itself_only(codec: Any) -> None:
    first, second = cobs.encode(bytes(range(1, 100))), cobs.encode(b"second")
    for cut in range(1, len(first)):
        events = Decoder(codec).feed(first[cut:] + b"\0" + second + b"\0")
        assert events[-1] == ("frame", b"second")
        assert len(events) == 2
