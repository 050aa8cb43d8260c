"""An image in two parts, frozen prefix and suffix: the bytes of the image as it is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.image_cases import CASES, case, packed, samples
from tests.kernels.test_recompute import blocks_network
from tests.kernels.test_segments import networks
from tests.networks import NetworkBuilder, residual_network

from mcutrain.compile import compile_program
from mcutrain.engine import CachedEngine, Engine
from mcutrain.errors import InputError
from mcutrain.image.pack import pack
from mcutrain.image.unpack import Image
from mcutrain.ir.graph import Graph
from mcutrain.ir.program import CompiledProgram
from mcutrain.plan import Plan
from mcutrain.plan.scheme import resolve_scheme, trainable_layers

MAP_OPS = {"conv2d", "add", "avgpool", "maxpool", "rescale"}


def assert_same(compiled: CompiledProgram, steps: int) -> CachedEngine:
    """Steps on few samples, each prefix computed once: results, logits and state are the same."""
    image = pack(compiled)
    plain, cached = Engine(image), CachedEngine(image)
    pairs = samples(compiled, 3)
    kept = [cached.prefix(sample) for sample, _ in pairs]
    trains = bool(cached.image.backward)
    for step in range(steps if trains else 0):
        sample, label = pairs[step % 3]
        expected = plain.train(sample, label, 0.03, 0.02)
        assert cached.train(kept[step % 3], label, 0.03, 0.02) == expected
    assert cached.state == plain.state
    for (sample, _), prefix in zip(pairs, kept, strict=True):
        assert cached.forward(prefix).tobytes() == plain.forward(sample).tobytes()
    assert [cached.prefix(sample) for sample, _ in pairs] == kept
    return cached


@pytest.mark.parametrize("name", CASES)
def test_the_trained_bytes_are_those_of_the_image(name: str) -> None:
    assert pack(case(name)) == packed(name)
    assert_same(case(name), 10)


def _scheme(graph: Graph, scheme: str) -> Plan:
    kind, _, count = scheme.partition(":")
    if count:
        scheme = f"{kind}:{min(int(count), len(trainable_layers(graph)))}"
    return resolve_scheme(graph, scheme)


SCHEMES = st.sampled_from(("head", "bias:1", "bias:3", "last:1", "last:2", "last:4", "full"))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(networks(), SCHEMES, st.sampled_from((None, 0)))
def test_the_trained_bytes_are_the_same_on_any_network(
    graph: Graph, scheme: str, pool: int | None
) -> None:
    assert_same(compile_program(graph, _scheme(graph, scheme), pool=pool), 3)


def _ops(image: Image, first: int, end: int) -> list[str]:
    return [i.op for i in image.program[first:end]]


def test_what_the_image_runs_by_rows_or_again_runs_once_and_whole() -> None:
    plan = Plan(
        ("wide", "last"), {f"b{i}.expand": tuple(range(6)) for i in range(3)} | {"wide": (1, 2)}
    )
    compiled = compile_program(blocks_network(), plan, pool=0)
    before = [i.op for i in compiled.program.instrs]
    assert "segment" in before
    assert MAP_OPS & set(before[compiled.program.forward :])
    image = assert_same(compiled, 5).whole_engine.image
    forward = int(image.header["forward"])
    assert not MAP_OPS & set(_ops(image, forward, len(image.program)))
    assert "segment" not in _ops(image, 0, len(image.program))
    assert not any(t.is_ring for t in image.tensors)


def test_the_cut_lies_before_the_first_trained_layer() -> None:
    graph = residual_network(16)
    plan = Plan(("b2.dw", "b2.pw2"), {"b2.pw2": (0, 3)})
    cached = assert_same(compile_program(graph, plan), 4)
    assert [t.name for t in cached.boundary] == [graph.node("b2.dw").inputs[0]]
    layers = {i.layer for i in cached.suffix_engine.image.forward}
    assert layers == {"b2.dw", "b2.pw2", "pool", "classifier"}


def test_a_skip_connection_crosses_the_cut_too() -> None:
    graph = residual_network(16)
    cached = assert_same(compile_program(graph, Plan(("b1.pw2",), {})), 4)
    wanted = {graph.node("b1.pw2").inputs[0], graph.node("b1.add").inputs[0]}
    assert {t.name for t in cached.boundary} == wanted


def test_what_trains_from_the_first_layer_on_has_no_prefix() -> None:
    graph = residual_network(8)
    compiled = compile_program(graph, resolve_scheme(graph, "full"))
    cached = assert_same(compiled, 4)
    sample = samples(compiled, 1)[0][0]
    assert cached.prefix(sample) == sample


def test_more_maps_than_a_program_has_inputs_move_the_cut_forward() -> None:
    """Five maps meet in a concatenation behind a layer that trains."""
    b = NetworkBuilder((6, 6, 2))
    x = b.conv("stem", "x", 4, 3, 1, 1, relu=True)
    maps = [b.conv(f"c{i}", x, 2, relu=True) for i in range(5)]
    graph = b.head(b.global_pool("pool", b.concat("cat", *maps, b.conv("late", x, 2))), 3)
    cached = assert_same(compile_program(graph, Plan(("late",), {})), 4)
    assert 1 <= len(cached.boundary) <= 4


def test_an_image_that_trains_nothing_ends_before_its_classifier() -> None:
    graph = residual_network(8)
    cached = assert_same(compile_program(graph, Plan((), {}, head=False)), 0)
    assert _ops(cached.suffix_engine.image, 0, 9) == ["head", "loss"]


def test_several_inputs_are_one_sample() -> None:
    b = NetworkBuilder((4, 4, 2))
    y = b.conv("left", "x", 3, 3, 1, 1)
    z = b.conv("right", b.input("other", (4, 4, 2)), 3, 3, 1, 1)
    graph = b.head(b.global_pool("pool", b.add("sum", y, z)), 3)
    assert_same(compile_program(graph, resolve_scheme(graph, "bias:1")), 4)


def test_a_seed_gives_other_random_bits_and_the_same_as_a_device() -> None:
    graph = residual_network(8)
    plan = resolve_scheme(graph, "full")
    image = pack(compile_program(graph, plan))
    cached = CachedEngine(image)
    cached.reset(7)
    assert cached.state == Engine(pack(compile_program(graph, plan, seed=7))).state
    cached.reset()
    assert cached.state == Engine(image).state


def test_bytes_that_are_no_prefix_are_refused() -> None:
    graph = residual_network(8)
    cached = CachedEngine(pack(compile_program(graph, resolve_scheme(graph, "head"))))
    with pytest.raises(InputError, match="does not fit"):
        cached.train(bytes(cached.prefix_bytes + 1), 0, 0.1)
    with pytest.raises(InputError, match="does not fit"):
        cached.prefix(np.zeros(5, np.int8))
