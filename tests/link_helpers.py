"""A small real image, and lines that damage bytes at chosen places."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from tests.networks import NetworkBuilder, residual_network

from mcutrain.compile import compile_program
from mcutrain.engine.loopback import Loopback
from mcutrain.image.pack import pack
from mcutrain.link.effort import Patience
from mcutrain.link.session import Session
from mcutrain.link.transport import Transport
from mcutrain.plan.scheme import resolve_scheme

POOL = 65536
# The loop-back never has more to come, so that a wait ends at once whatever its length.
PATIENCE = Patience()


@cache
def small_image(seed: int = 0) -> bytes:
    """An MCUNet-like network of which everything trains."""
    graph = residual_network()
    return pack(compile_program(graph, resolve_scheme(graph, "full"), seed=seed))


@cache
def tiny_image() -> bytes:
    """One convolution and a classifier, for lines that are slow."""
    b = NetworkBuilder((6, 6, 2), 1, "tiny")
    graph = b.head(b.global_pool("pool", b.conv("conv", "x", 4, 3, 1, 1, relu=True)), 4)
    return pack(compile_program(graph, resolve_scheme(graph, "full"), seed=1))


def samples(count: int, size: int, seed: int = 0) -> Iterator[tuple[bytes, int]]:
    """Random samples and labels below 4."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        x = rng.integers(-128, 128, size, dtype=np.int8)
        yield x.tobytes(), int(rng.integers(4))


@dataclass(frozen=True)
class Fault:
    """What happens to the byte at `position` of one direction, counted from the start."""

    to_device: bool
    kind: str  # flip, drop, duplicate, insert
    position: int
    value: int = 1  # flip: xor with it; insert: the byte

    def apply(self, byte: int) -> bytes:
        if self.kind == "flip":
            return bytes([byte ^ self.value])
        if self.kind == "drop":
            return b""
        if self.kind == "duplicate":
            return bytes([byte, byte])
        return bytes([self.value, byte])


FAULT_KINDS = ("flip", "drop", "duplicate", "insert")


def random_fault(rng: random.Random, sent: int, received: int) -> Fault:
    """A fault anywhere in a run that sends and receives that many bytes."""
    to_device = rng.random() < 0.5
    position = rng.randrange(sent if to_device else received)
    kind = rng.choice(FAULT_KINDS)
    value = rng.randrange(1, 256) if kind == "flip" else rng.randrange(256)
    return Fault(to_device, kind, position, value)


@dataclass
class FaultyLine:
    """A transport that damages what goes through another."""

    inner: Transport
    faults: tuple[Fault, ...] = ()
    counts: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})

    def write(self, data: bytes) -> None:
        damaged = self._damage(True, data)
        if damaged:
            self.inner.write(damaged)

    def read(self, timeout_s: float) -> bytes:
        return self._damage(False, self.inner.read(timeout_s))

    def close(self) -> None:
        self.inner.close()

    def _damage(self, to_device: bool, data: bytes) -> bytes:
        start = self.counts[to_device]
        self.counts[to_device] += len(data)
        here = {
            f.position - start: f
            for f in self.faults
            if f.to_device == to_device and 0 <= f.position - start < len(data)
        }
        if not here:
            return data
        parts = [here[i].apply(b) if i in here else bytes([b]) for i, b in enumerate(data)]
        return b"".join(parts)


def fixed_id() -> int:
    """A session id with which the same run has the same bytes on the line."""
    return 0x5A17


def open_session(line: FaultyLine | Loopback | None = None, image: bytes | None = None) -> Session:
    """A session with the small image open."""
    session = Session(line or Loopback(pool_bytes=POOL), "host", PATIENCE)
    session.open(image or small_image())
    return session


@dataclass
class NoisyLine:
    """A transport that loses, changes and doubles bytes by chance, each at the same rate."""

    inner: Transport
    rate: float
    seed: int = 0

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)
        self.faults = 0

    def write(self, data: bytes) -> None:
        damaged = self._damage(data)
        if damaged:
            self.inner.write(damaged)

    def read(self, timeout_s: float) -> bytes:
        return self._damage(self.inner.read(timeout_s))

    def close(self) -> None:
        self.inner.close()

    def _damage(self, data: bytes) -> bytes:
        draws = self._rng.random(len(data))
        where = np.flatnonzero(draws < 3 * self.rate)
        self.faults += len(where)
        out = bytearray()
        done = 0
        for at in where:
            out += data[done:at]
            kind = int(draws[at] / self.rate)
            if kind == 1:
                out.append(data[at] ^ int(self._rng.integers(1, 256)))
            elif kind == 2:
                out += data[at : at + 1] * 2
            done = at + 1
        return bytes(out + data[done:])
