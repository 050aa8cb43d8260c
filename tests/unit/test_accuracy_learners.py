"""Both trainers behind one face see the same samples, and start from the same network."""

from __future__ import annotations

import numpy as np
import pytest
from tests.networks import residual_network

from mcutrain.accuracy.execute import evaluate, train
from mcutrain.accuracy.learners import Int8Learner, ShadowLearner, unscaled
from mcutrain.accuracy.samples import Samples
from mcutrain.compile import compile_program
from mcutrain.engine import CachedEngine
from mcutrain.image.pack import pack
from mcutrain.image.status import DivergedError
from mcutrain.ir.graph import Graph
from mcutrain.ir.program import CompiledProgram
from mcutrain.plan.head import fresh_head
from mcutrain.plan.scheme import resolve_scheme
from mcutrain.shadow import ShadowNetwork
from mcutrain.trainer import Schedule, calibrated

SAMPLES, SCHEME, RATE = 64, "last:3", 0.1


@pytest.fixture(scope="module")
def graph() -> Graph:
    return fresh_head(residual_network(8, 4), 4)


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    """Samples that can be learned: a mean for each class, and noise."""
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 4, SAMPLES)
    means = rng.normal(0, 40, (4, 8, 8, 3))
    x = np.clip(np.rint(means[labels] + rng.normal(0, 20, (SAMPLES, 8, 8, 3))), -128, 127)
    return x.astype(np.int8), labels


@pytest.fixture(scope="module")
def engine(graph: Graph, data: tuple[np.ndarray, np.ndarray]) -> CachedEngine:
    compiled = compile_program(graph, resolve_scheme(graph, SCHEME))
    some = [(x.tobytes(), int(label)) for x, label in zip(*data, strict=True)][:20]
    return CachedEngine(pack(calibrated(compiled, some)))


@pytest.fixture(scope="module")
def samples(engine: CachedEngine, data: tuple[np.ndarray, np.ndarray]) -> Samples:
    made = [np.frombuffer(engine.prefix(x), np.int8) for x in data[0]]
    return Samples(np.stack(made)[:, None], data[1], np.arange(SAMPLES))


def test_prefixes_are_cut_into_the_maps_that_the_shadow_takes(
    graph: Graph, engine: CachedEngine, samples: Samples, data: tuple[np.ndarray, np.ndarray]
) -> None:
    """Two maps live across this cut, the input of a block and its skip."""
    plan = resolve_scheme(graph, "last:4")
    whole = ShadowNetwork(graph, resolve_scheme(graph, "full"))
    shadow = ShadowNetwork(graph, plan)
    cut = CachedEngine(pack(compile_program(graph, plan)))
    assert len(cut.boundary) == len(shadow.boundary) == 2
    learner = ShadowLearner(cut, graph, plan, scaled=True)
    for x in data[0][:8]:
        maps = {name: whole.map_of({"x": x}, name) for name in shadow.boundary}
        features = shadow.map_of(maps, graph.head.inputs[0])
        ours = learner.map_of(cut.prefix(x), graph.head.inputs[0])
        assert np.abs(ours.astype(int) - features).max() <= 2  # halves are rounded otherwise


def test_both_learn_the_same_way(graph: Graph, engine: CachedEngine, samples: Samples) -> None:
    plan = resolve_scheme(graph, SCHEME)
    schedule = Schedule(RATE, 6 * SAMPLES, head_factor=5)
    learners = (Int8Learner(engine, 0), ShadowLearner(engine, graph, plan, scaled=True))
    for learner in learners:
        _, before = evaluate(learner, samples)
        assert before == pytest.approx(np.log(4))  # the classifier is all zero
        train(learner, samples, schedule, seed=0, views=1)
        accuracy, after = evaluate(learner, samples)
        assert accuracy > 0.9
        assert after < before / 2


def test_a_run_follows_from_its_seed(engine: CachedEngine, samples: Samples) -> None:
    def state(seed: int) -> bytes:
        learner = Int8Learner(engine, seed)
        train(learner, samples, Schedule(0.02, SAMPLES), seed=seed, views=1)
        return engine.state

    first = state(3)
    assert state(4) != first
    assert state(3) == first


def test_what_runs_away_is_said(graph: Graph, engine: CachedEngine, samples: Samples) -> None:
    learner = ShadowLearner(engine, graph, resolve_scheme(graph, SCHEME), scaled=True)
    with pytest.raises(DivergedError), np.errstate(all="ignore"):
        train(learner, samples, Schedule(1e36, 4 * SAMPLES, warmup=0.0), seed=0, views=1)


def _constant(compiled: CompiledProgram, name: str) -> np.ndarray:
    mant, exp = (compiled.program.values[f"{name}.{part}"].data for part in ("mant", "exp"))
    assert mant is not None
    assert exp is not None
    return np.ldexp(mant.reshape(-1).astype(np.float64), -exp.reshape(-1).astype(np.int64))


def test_constants_without_scaling(graph: Graph) -> None:
    """Those of the gradient by the integer itself; channels that do not train stay at 0."""
    graph.node("b2.pw2").params["w_scale"][2] = 1e-9
    compiled = compile_program(graph, resolve_scheme(graph, "full"))
    plain = unscaled(graph, compiled)
    for node in graph.nodes[:-1]:
        if node.op != "conv2d":
            continue
        q = graph.tensors[node.inputs[0]].q
        assert q is not None
        product = q.scale * node.params["w_scale"]
        for kind in ("weight", "bias"):
            live = _constant(compiled, f"{node.name}.{kind}") > 0
            assert live.sum() == len(live) - (node.name == "b2.pw2")
            wanted = np.where(live, product, 0.0)
            assert np.allclose(_constant(plain, f"{node.name}.{kind}"), wanted, rtol=1e-9)
    pack(plain)  # the verifier takes it
    before, after = compiled.program.values, plain.program.values
    changed = {name for name in after if after[name] is not before[name]}
    assert {name.split(".")[-2] for name in changed} == {"weight", "bias"}
