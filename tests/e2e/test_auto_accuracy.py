"""A computed plan on real images: within its bytes, and better than the classifier alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mcutrain.data
from mcutrain.compile import compile_program
from mcutrain.data import Dataset
from mcutrain.engine import CachedEngine
from mcutrain.frontends import import_network
from mcutrain.image.pack import pack
from mcutrain.ir.graph import Graph
from mcutrain.plan import Plan
from mcutrain.plan.head import fresh_head
from mcutrain.plan.scheme import resolve_scheme
from mcutrain.search.auto import automatic_plan
from mcutrain.trainer import HostRun, PrefixCache, Schedule

pytestmark = [pytest.mark.slow, pytest.mark.refdata]
EPOCHS = 4


def _accuracy(graph: Graph, plan: Plan, training: Dataset, test: Dataset) -> float:
    engine = CachedEngine(pack(compile_program(graph, plan)))
    run = HostRun(engine, PrefixCache(engine, training), PrefixCache(engine, test))
    run.train(Schedule(0.004, EPOCHS * len(training)))
    return run.accuracy()


def test_a_computed_plan_fits_and_beats_the_classifier_alone(refdata: Path) -> None:
    pytest.importorskip("PIL")
    spec = f"npz:{refdata / 'datasets' / 'flowers5_jpeg128.npz'}?split=train&range=-1,1"
    data = mcutrain.data.open(spec)
    graph = fresh_head(import_network(refdata / "mcunet-5fps.pkl"), data.classes)
    order = np.random.default_rng(0).permutation(len(data)).astype(np.int64)
    training, test = data.take(order[:800]), data.take(order[800:1500])
    pool = compile_program(graph, resolve_scheme(graph, "49kb")).pool_bytes
    found = automatic_plan(graph, training, pool)
    plan, names = found.plan, {one.name for one in found.tried}
    assert {"49kb, 8 bits", "49kb and more, 0 bits", "gradients, 8 bits"} <= names
    assert 0.95 * pool < compile_program(graph, plan).pool_bytes <= pool
    assert len(plan.weights) > 2
    alone = _accuracy(graph, Plan(), training, test)
    assert _accuracy(graph, plan, training, test) > alone + 0.01
