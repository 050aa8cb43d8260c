"""How the int8 arithmetic fared in a run: gradients, exponents, rails, sizes of updates.

A run follows from its settings to the byte, on whatever device it took place. So it is repeated
here on the host engine, which shows every tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

import mcutrain.data
from mcutrain.compile import EXPONENT
from mcutrain.engine import CachedEngine
from mcutrain.engine.engine import Engine, HookEvent
from mcutrain.engine.gradients import Gradients, is_depthwise
from mcutrain.errors import InputError
from mcutrain.image.program import program_of
from mcutrain.image.unpack import unpack
from mcutrain.ir.program import Instr
from mcutrain.report.exact import ExactGradients
from mcutrain.report.log import Run
from mcutrain.trainer import PrefixCache, Schedule, visits

Floats = npt.NDArray[np.float64]
Progress = Callable[[int, int], None]

OBSERVED = 200  # steps of a run that are looked at
SMALLEST = -8  # exponent of the smallest step of a weight, 2^-8 LSB
LARGEST = 1  # updates of 2 LSB and more are counted together
VARIANTS = ("fp32", "int8", "scaled")  # see `Norms`


@dataclass(frozen=True, eq=False)
class Norms:
    """||W|| / ||G|| of a layer's trained weights or biases, root mean squares over the steps.

    Attributes:
        name: layer and kind.
        ratios: of training in fp32, at the same weights on the same samples; in integers, each by
            its own gradient; and with gradients as quantization-aware scaling makes them.
    """

    name: str
    ratios: dict[str, float]


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What was seen in the observed steps.

    Attributes:
        steps: their numbers, (observed,).
        norms: in the order of the layers.
        errors: names of the error tensors, in the order of the layers.
        exponents: E of each error, (observed, errors).
        rails: share of each error's elements at -127 or 127, (observed, errors).
        updates: share of the trained weights by the size of their update, (observed, sizes): none;
            below 2^(`SMALLEST` + 1) LSB; and so on in powers of two up to `LARGEST`.
    """

    steps: npt.NDArray[np.int64]
    norms: tuple[Norms, ...]
    errors: tuple[str, ...]
    exponents: Floats
    rails: Floats
    updates: Floats


def diagnose(run: Run, note: Progress | None = None) -> Diagnosis | None:
    """Repeat the steps of a run and look at `OBSERVED` of them; None if it trains no layer.

    Args:
        run: its data must still be what they were.
        note: called with the number of steps done and that of all.

    Raises:
        InputError: the data are gone, or the steps are not those of the run.
    """
    settings, total = run.info["settings"], len(run.steps)
    names = unpack(run.image, str(run.folder)).metadata["classes"]
    data = mcutrain.data.open(run.data).labelled_as(names)
    engine = CachedEngine(run.image, str(run.folder))
    engine.reset(int(settings["seed"]))
    cache = PrefixCache(engine, data)
    settled = ("rate", "steps", "warmup", "cosine", "head_factor")
    schedule, learnt = Schedule(*(settings[name] for name in settled)), float(settings["learnt"])
    watch = _Watch(engine.suffix_engine)
    if not watch.trains or not total:
        return None
    observed = set(np.linspace(0, total - 1, min(total, OBSERVED)).astype(int).tolist())
    order = islice(visits(len(data), int(settings["seed"]), data.views), total)
    for step, (index, view) in enumerate(order):
        rate, prefix, label = schedule.at(step), cache(index, view), int(data.y[index])
        arguments = (prefix, label, rate, rate * schedule.head_factor, learnt)
        if step in observed:
            with watch.step(step, prefix, label):
                result = engine.train(*arguments)
        else:
            result = engine.train(*arguments)
        if result.loss != run.steps[step]["loss"]:
            raise InputError(
                "the run cannot be repeated",
                where=str(run.folder),
                why=f"the loss of step {step} is {result.loss:g} now, the log says "
                f"{run.steps[step]['loss']:g}",
                hint=f"are the data still the same? They are {run.data}",
            )
        if note is not None:
            note(step + 1, total)
    return watch.diagnosis()


class _Watch:
    """Looks at an engine while it takes a step."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._program = program_of(engine.image)
        self._read = Gradients(engine, self._program)
        values, base = self._program.values, self._program.base
        self._updates = [i for i in self._program.instrs if i.op in ("conv2d_dw", "conv2d_db")]
        self._weights = [i for i in self._updates if i.op == "conv2d_dw"]
        made = [base(n).name for i in self._program.instrs for n in i.operands.values()]
        errors = {n: values[n].error for n in made if values[n].error is not None}
        self._exact = ExactGradients(engine)
        self._fp32: dict[str, Floats] = {}
        # By name, with their numbers; the backward pass makes the last layer's first.
        self._errors: dict[str, Any] = dict(reversed(errors.items()))
        self._squares: dict[str, list[Floats]] = {}
        self._start: dict[str, Floats] = {}
        self._rails: dict[str, float] = {}
        self._seen: list[tuple[int, list[float], list[float], Floats]] = []

    @property
    def trains(self) -> bool:
        """Whether a layer besides the classifier trains."""
        return bool(self._updates)

    @contextmanager
    def step(self, number: int, sample: bytes, label: int) -> Iterator[None]:
        """Look at the step that is taken in this context, on that sample."""
        before = self._masters()
        self._fp32 = self._exact.squares(sample, label)
        self._rails.clear()  # a sample that is learnt already makes no errors
        trained = {i.operands[s] for i in self._updates for s in ("w", "bias") if s in i.operands}
        self._start = {name: self._engine.tensor(name).astype(np.float64) for name in trained}
        with self._engine.hook(self._note):
            yield
        self._finish(number, before)

    def _note(self, index: int, event: HookEvent) -> None:
        """What the engine calls around each instruction."""
        instr = self._program.instrs[index]
        if event is HookEvent.BEFORE and instr.op in ("conv2d_dw", "conv2d_db"):
            weights = instr.op == "conv2d_dw"
            name = f"{instr.layer} {'weights' if weights else 'biases'}"
            found = self._weight_squares(instr) if weights else self._bias_squares(instr)
            self._squares.setdefault(name, []).append(_squares(*found, self._fp32[name]))
        if event is HookEvent.DONE:
            for name, content in self._engine.written(index).items():
                base = self._program.base(name).name
                if base in self._errors:
                    q = np.frombuffer(content, np.int8)
                    self._rails[base] = float((np.abs(q.astype(np.int16)) == 127).mean())

    def _masters(self) -> list[Floats]:
        """All trained weights in LSB, fractions included."""
        found = []
        for instr in self._weights:
            weight = self._engine.tensor(instr.operands["w"]).reshape(-1).astype(np.float64)
            bits = int(instr.params["bits"])
            if bits:
                packed = self._engine.tensor(instr.operands["frac"]).reshape(-1)
                if bits == 4:
                    packed = np.stack([packed & 15, packed >> 4], 1).reshape(-1)[: len(weight)]
                weight += packed / 2.0**bits
            found.append(weight)
        return found

    def _finish(self, number: int, before: list[Floats]) -> None:
        """Keep what was seen in a step; `before` are the weights at its start."""
        moved = [np.abs(a - b) for a, b in zip(self._masters(), before, strict=True)]
        exponents = self._engine.tensor(EXPONENT).reshape(-1)
        rails = [self._rails.get(name, 0.0) for name in self._errors]
        held = [float(exponents[index]) for index in self._errors.values()]
        self._seen.append((number, held, rails, sizes(np.concatenate([*moved, np.zeros(0)]))))

    def diagnosis(self) -> Diagnosis:
        """All that was seen."""
        layers = list(dict.fromkeys(instr.layer for instr in self._program.instrs))
        names = sorted(self._squares, key=lambda n: (layers.index(n.rpartition(" ")[0]), n))
        norms = tuple(_ratios(n, np.mean(self._squares[n], axis=0)) for n in names)
        steps, exponents, rails, updates = (list(c) for c in zip(*self._seen, strict=True))
        return Diagnosis(
            np.array(steps, np.int64),
            norms,
            tuple(name.removesuffix(".error") for name in self._errors),
            np.array(exponents),
            np.array(rails),
            np.array(updates),
        )

    def _constants(self, instr: Instr) -> Floats:
        mant, exp = (self._engine.tensor(instr.operands[s]).reshape(-1) for s in ("mant", "exp"))
        return np.asarray(np.ldexp(mant.astype(np.float64), -exp.astype(np.int64)))

    def _bias_squares(self, instr: Instr) -> tuple[Floats, Floats, Floats]:
        bias = self._start[instr.operands["bias"]].reshape(-1)
        scale = _inverse(self._constants(instr))  # s_x * s_w
        return bias**2, self._read.bias(instr) ** 2, scale

    def _weight_squares(self, instr: Instr) -> tuple[Floats, Floats, Floats]:
        gradient = self._read.weight(instr)
        x, w = (self._program.values[instr.operands[slot]] for slot in ("x", "w"))
        depthwise = is_depthwise(instr, gradient.shape[2], w)
        groups = gradient.shape[2] if depthwise else int(instr.params["groups"])
        by_group = gradient.reshape(*gradient.shape[:2], groups, -1)
        scale = x.scale * _inverse(self._constants(instr))  # s_w
        if "chan" in instr.operands:
            scale = scale[self._engine.tensor(instr.operands["chan"]).reshape(-1)]
        weight = self._start[w.name].reshape(len(scale), -1)
        gradient = np.square(by_group).sum((0, 3)).T.reshape(-1)
        return np.square(weight).sum(1), gradient, scale


def _squares(weight: Floats, gradient: Floats, scale: Floats, exact: Floats) -> Floats:
    """Squared norms of weights and gradients, (variants, 2), from those of each output channel.

    `scale` is what one LSB is worth, 0 for channels that do not train; gradients are real, but
    the exact ones those of integer weights.
    """
    live = scale > 0
    weight, gradient, square = weight[live], gradient[live], scale[live] ** 2
    return np.array(
        [
            ((weight * square).sum(), (exact[live] / square).sum()),
            (weight.sum(), (gradient * square).sum()),
            (weight.sum(), (gradient / square).sum()),
        ]
    )


def _ratios(name: str, squares: Floats) -> Norms:
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.sqrt(squares[:, 0] / squares[:, 1]).tolist()
    return Norms(name, dict(zip(VARIANTS, ratios, strict=True)))


def sizes(moved: Floats) -> Floats:
    """Shares of updates: of none, then by the power of two below their size in LSB."""
    moving = moved[moved > 0]
    exponents = np.clip(np.floor(np.log2(moving)), SMALLEST, LARGEST).astype(np.int64)
    counts = np.bincount(exponents - SMALLEST, minlength=LARGEST - SMALLEST + 1)
    return np.array([len(moved) - len(moving), *counts]) / max(1, len(moved))


def _inverse(constants: Floats) -> Floats:
    return np.divide(1.0, constants, out=np.zeros_like(constants), where=constants > 0)
