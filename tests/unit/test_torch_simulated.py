"""The simulated step that speed is compared with does the same work: same network, same plan."""

from __future__ import annotations

import numpy as np
import pytest
from tests.image_cases import branches_network, partial_plan
from tests.networks import residual_network

from mcutrain.compile import compile_program
from mcutrain.engine import Engine
from mcutrain.frontends.torch_simulated import PublishedStep, SimulatedStep
from mcutrain.image.pack import pack
from mcutrain.ir.graph import Graph
from mcutrain.plan import Plan
from mcutrain.plan.scheme import resolve_scheme

pytestmark = pytest.mark.torch

NETWORKS = [residual_network(16), branches_network()]


def _samples(graph: Graph, count: int) -> list[bytes]:
    rng = np.random.default_rng(3)
    size = sum(graph.tensors[name].size for name in graph.inputs)
    return [rng.integers(-128, 128, size).astype(np.int8).tobytes() for _ in range(count)]


@pytest.mark.parametrize("kind", [SimulatedStep, PublishedStep])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("graph", NETWORKS, ids=lambda g: g.name)
def test_its_logits_are_those_of_the_engine_but_for_ties_in_rounding(
    graph: Graph, last: bool, kind: type[SimulatedStep]
) -> None:
    """Features may differ by one step each where a sum lies halfway, and one more downstream."""
    step, samples = kind(graph, (), {}), _samples(graph, 4)
    got = step.forward(step.inputs(samples, channels_last=last)).detach().numpy()
    engine = Engine(pack(compile_program(graph, Plan())))
    want = np.array([engine.forward(sample) for sample in samples])
    q = graph.tensors[graph.head.inputs[0]].q
    assert q is not None
    bound = 2 * q.scale * np.abs(graph.head.params["weight"]).sum(axis=(1, 2, 3))
    assert (np.abs(got - want) <= bound + 1e-5).all()
    assert np.abs(want).max() > bound.max() / 4  # else any logits would do


@pytest.mark.parametrize("kind", [SimulatedStep, PublishedStep])
@pytest.mark.parametrize(
    ("graph", "plan"),
    [
        (NETWORKS[0], resolve_scheme(NETWORKS[0], "last:3")),
        (NETWORKS[1], partial_plan(NETWORKS[1], 8)),
    ],
    ids=["residual", "branches"],
)
def test_a_step_changes_what_the_plan_names_and_lowers_the_loss(
    graph: Graph, plan: Plan, kind: type[SimulatedStep]
) -> None:
    step = kind(graph, plan.biases, plan.weights)
    inputs, labels = step.inputs(_samples(graph, 4)), [0, 1, 2, 1]
    before = {n: p.detach().clone() for n, p in step.parameters().items()}
    losses = [step.train(inputs, labels, 1e-4) for _ in range(30)]
    assert losses[-1] < losses[0]
    changed = {name for name, p in step.parameters().items() if (p != before[name]).any()}
    named = {f"{n}.bias" for n in plan.biases} | {f"{n}.weight" for n in plan.weights}
    assert changed == named | {f"{graph.head.name}.weight", f"{graph.head.name}.bias"}
    for name, channels in plan.weights.items():
        moved = (step.parameters()[f"{name}.weight"] != before[f"{name}.weight"]).numpy()
        node = graph.node(name)
        per_group, groups = node.params["weight"].shape[3], node.attrs.get("groups", 1)
        if groups == 1 or per_group == 1:  # else all of it trains
            others = np.delete(moved, list(channels), 1 if groups == 1 else 0)
            assert not others.any(), name
