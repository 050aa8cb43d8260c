"""One run, from its settings to its result."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from mcutrain.accuracy.grid import INT8, PROBE, SAMPLES, Row, Settings
from mcutrain.accuracy.learners import Int8Learner, Learner, ShadowLearner, unscaled
from mcutrain.accuracy.plans import plan_of
from mcutrain.accuracy.samples import Samples, network_for, open_data, parts
from mcutrain.compile import compile_program
from mcutrain.engine import CachedEngine
from mcutrain.image.pack import pack
from mcutrain.image.status import DivergedError
from mcutrain.image.unpack import unpack
from mcutrain.ir.graph import Graph
from mcutrain.plan import Plan
from mcutrain.trainer import Schedule, calibrated, encoder, visits
from mcutrain.trainer.probe import fit_probe

_CALIBRATION = 20  # samples, for the first exponents of errors


@dataclass(frozen=True, eq=False)
class _Setup:
    """What all runs of a row share."""

    graph: Graph
    plan: Plan
    engine: CachedEngine


@lru_cache(maxsize=6)
def _setup(row: Row, refdata: Path, out: Path) -> _Setup:
    data = open_data(refdata, row.data, "train")
    graph = network_for(refdata, data)
    plan = plan_of(row, graph, out)
    compiled = compile_program(graph, plan)
    if not row.scaled:
        compiled = unscaled(graph, compiled)
    encode = encoder(unpack(pack(compiled)), data)
    some = [(encode(data.sample(i)), int(data.y[i])) for i in range(_CALIBRATION)]
    return _Setup(graph, plan, CachedEngine(pack(calibrated(compiled, some))))


def execute(settings: Settings, refdata: Path, out: Path) -> dict[str, Any]:
    """Train and evaluate.

    Args:
        settings: of the run.
        refdata: the reference data.
        out: where prefixes and computed plans are kept.

    Returns:
        accuracy and loss (cross-entropy) on what the run is evaluated with, steps, seconds, and
        whether training ran away (then with the accuracy of chance).
    """
    row = settings.row
    setup = _setup(row, refdata, out)
    training, other = parts(setup.engine, refdata, out, row.data, settings.part)
    if row.trainer == PROBE:
        return _probe(setup, training, other)
    if row.trainer == INT8:
        learner: Learner = Int8Learner(setup.engine, settings.seed)
    else:
        learner = ShadowLearner(setup.engine, setup.graph, setup.plan, row.scaled)
    schedule = Schedule(
        settings.rate / SAMPLES,
        settings.epochs * len(training),
        head_factor=settings.head_factor,
    )
    began = time.monotonic()
    diverged = False
    try:
        train(learner, training, schedule, settings.seed, settings.views)
        accuracy, loss = evaluate(learner, other)
    except DivergedError:
        diverged, classes = True, len(setup.graph.classes)
        accuracy, loss = 1 / classes, float(np.log(classes))
    return {
        "accuracy": accuracy,
        "loss": loss,
        "steps": schedule.steps,
        "diverged": diverged,
        "seconds": round(time.monotonic() - began, 1),
    }


def _probe(setup: _Setup, training: Samples, other: Samples) -> dict[str, Any]:
    """The result of a linear probe of the features, which are all that is behind the prefix."""
    began = time.monotonic()
    (tensor,) = setup.engine.boundary
    fit, test = (
        (s.prefixes[s.chosen, 0].astype(np.float64) - tensor.zero_point) * tensor.scale
        for s in (training, other)
    )
    classes = len(setup.graph.classes)
    probe = fit_probe(fit, training.labels[training.chosen], classes)
    logits = test @ probe.weight.T + probe.bias
    labels = other.labels[other.chosen]
    above = logits - logits.max(axis=1, keepdims=True)
    losses = np.log(np.exp(above).sum(axis=1)) - above[np.arange(len(labels)), labels]
    return {
        "accuracy": float((logits.argmax(axis=1) == labels).mean()),
        "loss": float(losses.mean()),
        "steps": 0,
        "diverged": False,
        "seconds": round(time.monotonic() - began, 1),
    }


def train(learner: Learner, samples: Samples, schedule: Schedule, seed: int, views: int) -> None:
    """All steps of a schedule; order and views follow from the seed, whatever the learner.

    Raises:
        DivergedError: a logit is not finite.
    """
    order = islice(visits(len(samples), seed, views), schedule.steps)
    for step, (index, view) in enumerate(order):
        rate = schedule.at(step)
        prefix, label = samples.get(index, view)
        learner.step(prefix, label, rate, rate * schedule.head_factor)


def evaluate(learner: Learner, samples: Samples) -> tuple[float, float]:
    """Share of right predictions, and mean cross-entropy.

    Raises:
        DivergedError: a logit is not finite.
    """
    right, loss = 0, 0.0
    for index in range(len(samples)):
        prefix, label = samples.get(index)
        logits = learner.predict(prefix).astype(np.float64)
        if not np.isfinite(logits).all():
            raise DivergedError("a logit is not finite")
        above = logits - logits.max()
        loss += float(np.log(np.exp(above).sum()) - above[label])
        right += int(logits.argmax()) == label
    return right / len(samples), loss / len(samples)
