"""Forward instructions that run again in the backward pass: the same bytes, in less memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels.test_segments import networks
from tests.networks import NetworkBuilder

from mcutrain.compile import compile_program, layout
from mcutrain.engine import Engine, verify
from mcutrain.image.pack import pack
from mcutrain.image.status import ImageRefusedError
from mcutrain.ir.graph import Graph
from mcutrain.ir.macs import macs
from mcutrain.ir.program import CompiledProgram, Instr
from mcutrain.ir.reference.machine import Machine
from mcutrain.plan import Plan
from mcutrain.plan.scheme import resolve_scheme, trainable_layers


def blocks_network(blocks: int = 3) -> Graph:
    """Inverted residuals whose inputs are saved: each can be made from the one before."""
    b = NetworkBuilder((8, 8, 3), 6, "blocks")
    x = b.conv("first", "x", 6, 3, 1, 1, relu=True)
    for i in range(blocks):
        y = b.conv(f"b{i}.expand", x, 18, relu=True)
        y = b.conv(f"b{i}.dw", y, 18, 3, 1, 1, groups=18, relu=True)
        x = b.add(f"b{i}.add", x, b.conv(f"b{i}.project", y, 6))
    x = b.conv("wide", x, 24, relu=True)
    return b.head(b.global_pool("pool", b.conv("last", x, 24, 3, 1, 1, relu=True)), 3)


def _plan(blocks: int = 3) -> Plan:
    weights = {f"b{i}.expand": tuple(range(6)) for i in range(blocks)}
    return Plan(("wide", "last"), {**weights, "wide": tuple(range(6))})


def _again(compiled: CompiledProgram) -> list[Instr]:
    backward = compiled.program.instrs[compiled.program.forward :]
    return [i for i in backward if i.op in ("conv2d", "add", "maxpool", "avgpool", "rescale")]


def _work(compiled: CompiledProgram) -> int:
    return sum(macs(compiled.program, i) for i in compiled.program.instrs)


def test_what_fits_is_left_alone() -> None:
    graph = blocks_network()
    plain = compile_program(graph, _plan())
    enough = compile_program(graph, _plan(), pool=plain.pool_bytes)
    assert pack(enough) == pack(plain)


def test_no_more_is_run_again_than_the_pool_asks_for() -> None:
    graph = blocks_network()
    plain = compile_program(graph, _plan())
    assert not _again(plain)
    less = compile_program(graph, _plan(), pool=plain.pool_bytes - 100)
    least = compile_program(graph, _plan(), pool=0)
    assert less.pool_bytes <= plain.pool_bytes - 100
    assert least.pool_bytes <= less.pool_bytes
    assert _work(plain) < _work(less) <= _work(least)


def _same_state(graph: Graph, plan: Plan, steps: int) -> CompiledProgram:
    plain, less = compile_program(graph, plan), compile_program(graph, plan, pool=0)
    assert less.pool_bytes <= plain.pool_bytes
    engines = Engine(pack(less)), Engine(pack(plain))
    machine = Machine(less.program)
    rng = np.random.default_rng(1)
    for step in range(steps):
        sample = rng.integers(-128, 128, graph.tensors["x"].size).astype(np.int8)
        with engines[0].trace_crcs() as crcs:
            a, b = (e.train(sample, step % 3, 0.02, 0.02) for e in engines)
        assert a == b
        machine.train(sample, step % 3, 0.02, 0.02)
        wanted = {i: c for i, c in enumerate(machine.crcs_per_instruction) if c is not None}
        assert {i: crcs[i] for i in wanted if i in crcs} == {
            i: c for i, c in wanted.items() if i in crcs
        }
        names = plain.program.values.keys() & less.program.values.keys()
        kept = [n for n in names if plain.program.values[n].space == "state"]
        assert kept
        for name in kept:
            assert np.array_equal(engines[0].tensor(name), engines[1].tensor(name)), name
    assert engines[0].high_water() <= less.pool_bytes
    return less


def test_the_trained_bytes_are_the_same() -> None:
    less = _same_state(blocks_network(), _plan(), 5)
    assert _again(less)


def test_layers_that_run_again_twice_have_scratch_memory_of_their_own() -> None:
    weights = {f"b{i}.expand": tuple(range(6)) for i in range(3)}
    less = _same_state(blocks_network(), Plan(("wide", "last"), {**weights, "wide": (1, 2)}), 2)
    starts = [i.layer for i in less.program.instrs if i.op == "segment"]
    assert starts.count("b0.expand") > 1


@settings(max_examples=25, deadline=None, derandomize=True)
@given(networks(), st.sampled_from(("last:2", "last:4", "full")))
def test_the_trained_bytes_are_the_same_on_any_network(graph: Graph, scheme: str) -> None:
    kind, _, count = scheme.partition(":")
    if count:
        scheme = f"{kind}:{min(int(count), len(trainable_layers(graph)))}"
    _same_state(graph, resolve_scheme(graph, scheme), 2)


def _status(compiled: CompiledProgram, instrs: tuple[Instr, ...]) -> int | None:
    program = replace(compiled.program, instrs=instrs)
    try:
        verify(pack(layout(program, compiled.model_hash)))
    except ImageRefusedError as error:
        return error.status
    return None


@pytest.mark.parametrize("op", ["head", "loss"])
def test_head_and_loss_are_not_repeated(op: str) -> None:
    compiled = compile_program(blocks_network(), _plan(), pool=0)
    instrs = compiled.program.instrs
    assert _status(compiled, instrs) is None
    repeated = next(i for i in instrs if i.op == op)
    at = compiled.program.forward + 1
    assert _status(compiled, (*instrs[:at], repeated, *instrs[at:])) == -37
