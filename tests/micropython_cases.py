"""Twenty training steps by the host engine, and the script that repeats them in MicroPython."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from tests.image_cases import samples
from tests.traces import PROGRAMS, program

from mcutrain.engine import Engine
from mcutrain.image.pack import pack

STEPS = 20

# `image`, `samples` (bytes of all, one after the other), `steps` (label and rates) are there.
TRAIN = """
import binascii, gc, struct
def train(net, samples, steps):
    size = net.stats()["sample_bytes"]
    found = []
    for i, step in enumerate(steps):
        loss, *counts = net.train(samples[i * size : (i + 1) * size], *step)
        found.append([struct.unpack("<I", struct.pack("<f", loss))[0]] + counts)
        gc.collect()
    return found, binascii.hexlify(net.state()).decode()
"""


@dataclass(frozen=True)
class Case:
    """found: what `train` must give."""

    image: bytes
    samples: bytes
    steps: tuple[tuple[int, float, float], ...]
    found: tuple[list[list[int]], str]


@cache
def case(name: str) -> Case:
    """A program of tests/traces.py, trained on the host."""
    compiled = program(name)
    rates = PROGRAMS[name][1]
    data = samples(compiled, STEPS)
    engine = Engine(pack(compiled))
    found = []
    for sample, label in data:
        r = engine.train(sample, label, *rates)
        found.append([r.loss_bits, r.predicted, r.saturated, r.clamped])
    steps = tuple((label, *rates) for _, label in data)
    return Case(pack(compiled), b"".join(x for x, _ in data), steps, (found, engine.state.hex()))
