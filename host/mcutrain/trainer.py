"""Train and evaluate: samples and a device in, trained state and telemetry out.

The device is anything with the methods of `mcutrain.link.Device`: the firmware app in this
process, on an emulator, or on a board. Order, rates and random bits follow from seeds alone, so
that a run that was interrupted and resumed ends with the bytes of one that was not.
"""

from __future__ import annotations

import json
import math
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from mcutrain.compile import PREDICTOR, with_state
from mcutrain.data import Dataset
from mcutrain.engine.engine import Engine
from mcutrain.errors import InputError
from mcutrain.files import read_json, write_atomic
from mcutrain.image.pack import pack
from mcutrain.image.unpack import Image
from mcutrain.ir.graph import Array, QParams
from mcutrain.ir.program import CompiledProgram
from mcutrain.link import Device
from mcutrain.quantize.inputs import to_int8

Log = Callable[[Mapping[str, Any]], None]
Encode = Callable[[Array], bytes]

MAX_STEPS = 2**32 - 1  # the device counts them in 32 bits
_MAX_RATE = float(np.finfo(np.float32).max)  # a device takes binary32


@dataclass(frozen=True)
class Schedule:
    """The learning rate of each step: linear warm-up, then a cosine to 0 or a constant.

    Attributes:
        rate: the highest rate, for one sample.
        steps: all training steps.
        warmup: share of the steps in which the rate rises.
        cosine: whether it falls afterwards.
        head_factor: the classifier's rate is this many times as high.
    """

    rate: float
    steps: int
    warmup: float = 0.1
    cosine: bool = True
    head_factor: float = 1.0

    def __post_init__(self) -> None:
        hint = "usual rates are 0.001 to 0.1"
        for name, value in (("rate", self.rate), ("head-factor", self.head_factor)):
            if not (math.isfinite(value) and value >= 0):
                raise InputError(
                    "must be finite and not negative", where=name, why=f"got {value}", hint=hint
                )
        for name, value in (("rate", self.rate), ("head-factor", self.rate * self.head_factor)):
            if value > _MAX_RATE:
                raise InputError(
                    "the learning rate is too large for a device",
                    where=name,
                    why=f"{value:g} is no float32",
                    hint=hint,
                )
        if not 0 <= self.warmup <= 1:
            raise InputError(
                "the warm-up is a share of the steps",
                where="warmup",
                why=f"got {self.warmup}",
                hint="0 to 1, for example 0.1",
            )
        if not 0 <= self.steps <= MAX_STEPS:
            raise InputError(
                f"the number of steps must lie between 0 and {MAX_STEPS}",
                where="steps",
                why=f"got {self.steps}",
                hint="--steps N, or fewer --epochs",
            )

    def at(self, step: int) -> float:
        """The rate of step 0, 1, ..., steps - 1."""
        rising = round(self.warmup * self.steps)
        if step < rising:
            return self.rate * (step + 1) / rising
        if not self.cosine:
            return self.rate
        return self.rate * 0.5 * (1 + math.cos(math.pi * (step - rising) / (self.steps - rising)))


@dataclass(frozen=True)
class Evaluation:
    """Accuracy on a data set; `confusion[label, predicted]` counts samples."""

    correct: int
    total: int
    confusion: Array

    @property
    def accuracy(self) -> float:
        """Share of right predictions, in [0, 1]."""
        return self.correct / self.total

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "accuracy": self.accuracy,
            "correct": self.correct,
            "total": self.total,
            "confusion": self.confusion.tolist(),
        }


def encoder(image: Image, data: Dataset) -> Encode:
    """The function from a sample of `data` to the bytes that the image takes as its input.

    Raises:
        InputError: the image has several inputs, another shape or less classes than the data.
    """
    inputs = image.inputs
    if len(inputs) != 1:
        raise InputError(
            "data with one array a sample cannot feed a network with several inputs",
            where=data.name,
            why="its inputs are " + ", ".join(t.name for t in inputs),
            hint="call mcutrain.link's Session from Python with the bytes of all inputs",
        )
    tensor = inputs[0]
    if data.shape != tensor.shape:
        raise InputError(
            "the samples have not the shape of the network's input",
            where=data.name,
            why=f"they are {data.shape} (height, width, channels), the input is {tensor.shape}",
            hint=shape_hint(data.shape, tensor.shape),
        )
    if len(data.classes) > int(image.header["classes"]):
        raise InputError(
            "the data have more classes than the network",
            where=data.name,
            why=f"{len(data.classes)} classes, the network has {image.header['classes']}",
            hint="pack with --classes N, or choose classes: ...?classes=0-4",
        )
    q = QParams(tensor.scale, tensor.zero_point)

    def encode(sample: Array) -> bytes:
        return to_int8(sample, q, tensor.name).tobytes()

    encode(data.x[0])  # pixels for a network that takes other numbers: refused now, not later
    return encode


def shape_hint(given: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    """What gives samples (H, W, C) the shape of an input, where a data spec can."""
    height, width, channels = wanted
    if math.prod(given) == math.prod(wanted):
        return f"csv and npz: ...?shape={height}x{width}x{channels}"
    if channels in (1, 3) and given[2] in (1, 3):
        gray = "&gray=1" if channels == 1 and given[2] == 3 else ""
        return f"a folder of images: ...?size={height}x{width}{gray}"
    return "mcutrain inspect shows the input; quantize the network with data of this shape"


def order_of(samples: int, seed: int) -> Iterator[int]:
    """Which sample each step trains on, without end: a fresh shuffle an epoch."""
    rng = np.random.Generator(np.random.PCG64(seed))
    while True:
        yield from map(int, rng.permutation(samples))


def evaluate(device: Device, data: Dataset, encode: Encode) -> Iterator[tuple[int, Evaluation]]:
    """Run a data set through the network on the device.

    Args:
        device: an open device.
        data: samples and labels.
        encode: one sample to the bytes of the network's input.

    Yields:
        After each sample the number done, and the evaluation so far.
    """
    confusion = np.zeros((0, 0), np.int64)
    for index in range(len(data)):
        result = device.predict(encode(data.x[index]))
        if not index:
            confusion = np.zeros((len(result.logits),) * 2, np.int64)
        confusion[int(data.y[index]), result.predicted] += 1
        yield index + 1, Evaluation(int(np.trace(confusion)), index + 1, confusion)


def train(
    device: Device,
    data: Dataset,
    encode: Encode,
    schedule: Schedule,
    *,
    seed: int = 0,
    start: int = 0,
) -> Iterator[dict[str, Any]]:
    """Train step by step.

    The caller may stop between steps, save the device's state, and go on later with `start`.

    Yields:
        A record of each step: its number from 0, sample, label, rate, seconds, and what the
        device says of it.
    """
    order = islice(order_of(len(data), seed), start, None)
    for step, index in zip(range(start, schedule.steps), order, strict=False):
        rate = schedule.at(step)
        label = int(data.y[index])
        began = time.monotonic()
        result = device.train_step(encode(data.x[index]), label, rate, rate * schedule.head_factor)
        yield {
            "kind": "step",
            "number": step,
            "sample": index,
            "label": label,
            "rate": rate,
            "seconds": round(time.monotonic() - began, 6),
            **asdict(result),
        }


@dataclass(frozen=True)
class Checkpoint:
    """Where a run stands: steps done and the device's state after them."""

    step: int
    state: bytes

    def save(self, folder: Path) -> None:
        """Write state and step into a run folder, each whole or not at all."""
        name = f"state-{self.step}.bin"
        write_atomic(folder / name, self.state)
        entry = {"step": self.step, "state": name, "crc32": zlib.crc32(self.state)}
        write_atomic(folder / "checkpoint.json", json.dumps(entry))
        for old in folder.glob("state-*.bin"):
            if old.name != name:
                old.unlink(missing_ok=True)

    @classmethod
    def load(cls, folder: Path) -> Checkpoint:
        """The last checkpoint of a run folder.

        Raises:
            InputError: there is none, or it is damaged.
        """
        path = folder / "checkpoint.json"
        hint = "start the run anew in another folder, without --resume"
        try:
            data = read_json(path)
            step, name, crc = int(data["step"]), Path(str(data["state"])), int(data["crc32"])
            state = (folder / name.name).read_bytes()
        except (OSError, ValueError, KeyError, TypeError) as error:
            why = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            raise InputError(
                "the run has no checkpoint", where=str(path), why=why, hint=hint
            ) from error
        if step < 0 or zlib.crc32(state) != crc:
            raise InputError(
                "the checkpoint is damaged",
                where=str(folder / name.name),
                why=f"step {step}, CRC {zlib.crc32(state):08x}, {path.name} says {crc:08x}",
                hint=hint,
            )
        return cls(step, state)


def calibrated(
    compiled: CompiledProgram, samples: Iterable[tuple[bytes, int]], seed: int = 0
) -> CompiledProgram:
    """The program with initial exponent predictors that fit the samples.

    Runs training steps at rate 0 on the host engine. A classifier that is still all zero would
    pass no error on, so that a random one stands in for it meanwhile.

    Args:
        compiled: a program.
        samples: input bytes and label; labels are taken modulo the number of classes.
        seed: of the stand-in.
    """
    program = compiled.program
    if program.errors == 0:
        return compiled
    head = next(i for i in program.instrs if i.op == "head")
    weight = program.values[head.operands["w"]]
    assert weight.data is not None  # lowering gave it its weights
    stand_in = weight.data
    if not stand_in.any():
        rng = np.random.Generator(np.random.PCG64(seed))
        spread = 1 / math.sqrt(weight.shape[2])
        stand_in = rng.normal(0, spread, weight.data.shape).astype(np.float32)
    engine = Engine(pack(with_state(compiled, {weight.name: stand_in})))
    classes = program.values[program.logits].count
    for sample, label in samples:
        engine.train(sample, label % classes, 0.0, 0.0)
    return with_state(compiled, {PREDICTOR: engine.tensor(PREDICTOR).reshape(-1)})
