"""A trained state goes back into the network: lowering the result gives the state again."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.networks import NetworkBuilder, joined_network, residual_network

from mcutrain.compile import compile_program
from mcutrain.errors import InputError
from mcutrain.ir.graph import Array, Graph
from mcutrain.ir.program import CONST, STATE, CompiledProgram
from mcutrain.ir.reference.machine import Machine
from mcutrain.ir.verify import verify
from mcutrain.passes.lift import lift
from mcutrain.passes.network import network_of
from mcutrain.passes.whole import whole
from mcutrain.plan import Plan
from mcutrain.plan.plan import input_channels
from mcutrain.plan.scheme import resolve_scheme, trainable_layers

KEPT = (".trained", ".bias", ".weight")


def state_of(compiled: CompiledProgram) -> dict[str, Array]:
    values = compiled.program.values.values()
    return {
        v.name: v.data
        for v in values
        if v.space == STATE and v.data is not None and v.name.endswith(KEPT)
    }


def assert_same(got: Mapping[str, Array], expected: Mapping[str, Array]) -> None:
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        assert got[name].reshape(-1).tobytes() == value.reshape(-1).tobytes(), name


def grouped_network() -> Graph:
    b = NetworkBuilder((5, 5, 4), 3, "grouped")
    x = b.conv("stem", "x", 8, 3, 1, 1, relu=True)
    x = b.conv("grouped", x, 6, 3, 2, 1, groups=2)
    x = b.linear("hidden", x, 7)
    return b.head(x, 3)


GRAPHS = {g.name: g for g in (residual_network(8, 4), grouped_network(), joined_network())}


def draw_plan(data: st.DataObject, graph: Graph) -> Plan:
    layers = {n.name: n for n in trainable_layers(graph)}
    weights = {}
    for name in data.draw(st.sets(st.sampled_from(sorted(layers)))):
        node = layers[name]
        total = input_channels(graph, node)
        whole = node.attrs.get("groups", 1) not in (1, total)
        picked = (
            range(total) if whole else data.draw(st.sets(st.integers(0, total - 1), min_size=1))
        )
        weights[name] = tuple(sorted(picked))
    biases = data.draw(st.sets(st.sampled_from(sorted(layers))))
    bits = data.draw(st.sampled_from([0, 8]))
    return Plan(tuple(biases), weights, data.draw(st.booleans()), bits)


def draw_state(data: st.DataObject, compiled: CompiledProgram) -> dict[str, Array]:
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    trained: dict[str, Array] = {}
    for name, value in state_of(compiled).items():
        if value.dtype == np.int8:
            trained[name] = rng.integers(-127, 128, value.shape).astype(np.int8)
        elif value.dtype == np.int32:
            trained[name] = rng.integers(-(2**20), 2**20, value.shape).astype(np.int32)
        else:
            trained[name] = rng.normal(size=value.shape).astype(np.float32)
    return trained


@settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(st.data())
def test_lowering_what_was_lifted_gives_the_state(data: st.DataObject) -> None:
    graph = GRAPHS[data.draw(st.sampled_from(sorted(GRAPHS)))]
    plan = draw_plan(data, graph)
    trained = draw_state(data, compile_program(graph, plan))
    lifted = verify(lift(graph, plan, trained))
    assert_same(state_of(compile_program(lifted, plan)), trained)


@settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(st.data())
def test_the_network_of_a_program_lowers_to_it(data: st.DataObject) -> None:
    """Without the network that it was compiled from, with whatever its state is now."""
    graph = GRAPHS[data.draw(st.sampled_from(sorted(GRAPHS)))]
    plan = draw_plan(data, graph)
    compiled = compile_program(graph, plan)
    trained = draw_state(data, compiled)
    values = compiled.program.values

    def read(name: str) -> Array:
        found = trained.get(name, values[name].data)
        assert found is not None
        return found

    again = compile_program(verify(network_of(whole(compiled.program), read)), plan)
    assert_same(state_of(again), trained)
    tables = (".mult", ".shift", ".perm", ".chan", ".weight")
    for name, value in values.items():
        if value.space == CONST and name.endswith(tables):
            assert again.program.values[name].data.tobytes() == value.data.tobytes(), name
    lifted = compile_program(lift(graph, plan, trained), plan)
    sample = np.random.default_rng(0).integers(-128, 128, 400).astype(np.int8).tobytes()
    sample = sample[: values[graph.inputs[0]].count]
    logits = [Machine(c.program).forward(sample) for c in (lifted, again)]
    np.testing.assert_array_equal(*logits)


def test_a_trained_network_computes_what_the_device_computed() -> None:
    graph = residual_network(8, 4)
    plan = resolve_scheme(graph, "last:4")
    compiled = compile_program(graph, plan)
    machine = Machine(compiled.program)
    rng = np.random.default_rng(0)
    samples = [rng.integers(-128, 128, (8, 8, 3)).astype(np.int8).tobytes() for _ in range(5)]
    for label, sample in enumerate(samples):
        machine.train(sample, label % 4, 0.05, 0.05)
    state = {name: machine.memory.array(name).copy() for name in state_of(compiled)}
    fresh = Machine(
        compile_program(lift(graph, plan, state), resolve_scheme(graph, "head")).program
    )
    for sample in samples:
        np.testing.assert_array_equal(fresh.forward(sample), machine.forward(sample))


def test_frozen_layers_stay_as_they_are() -> None:
    graph = residual_network(8, 4)
    plan = Plan(biases=("b2.pw2",), head=False)
    compiled = compile_program(graph, plan)
    lifted = lift(graph, plan, state_of(compiled))
    for before, after in zip(graph.nodes, lifted.nodes, strict=True):
        for name, value in before.params.items():
            np.testing.assert_array_equal(after.params[name], value, err_msg=before.name)


def test_state_of_another_plan_is_refused_by_name() -> None:
    graph = residual_network(8, 4)
    compiled = compile_program(graph, Plan(biases=("b2.pw2",)))
    with pytest.raises(InputError, match="does not belong") as caught:
        lift(graph, Plan(biases=("b2.pw1", "b2.pw2")), state_of(compiled))
    assert caught.value.where == "b2.pw1.bias"
