"""Whole programs: each byte that an instruction writes in ten steps, numpy machine and executor."""

from __future__ import annotations

import numpy as np
import pytest
from tests.networks import NetworkBuilder, residual_network
from tests.traces import deep_network

from mcutrain.compile import compile_program
from mcutrain.engine import Engine
from mcutrain.image.pack import pack
from mcutrain.ir.graph import Graph
from mcutrain.ir.program import CompiledProgram
from mcutrain.ir.reference.machine import Machine
from mcutrain.plan import Plan

STEPS = 10


def _every_operator() -> Graph:
    b = NetworkBuilder((9, 8, 2), 3, "every")
    x = b.conv("c1", "x", 6, 3, 1, 1, relu=True)
    pooled = b.pool("maxpool", "max", x, 3, 2, 1)
    left, right = b.conv("c2", pooled, 5, 3, 1, 1), b.conv("c3", pooled, 4)
    joined = b.clamp("clamp", b.concat("concat", left, right), -50, 60)
    deep = b.conv("dw", joined, 9, 3, 1, 1, groups=9)
    total = b.add("add", deep, b.conv("c4", deep, 9))
    return b.head(b.linear("fc", b.pool("avgpool", "avg", total, 2, 2), 11), 5)


def _plan(graph: Graph, kind: str, bits: int) -> Plan:
    layers = [n for n in graph.nodes[:-1] if n.op in ("conv2d", "linear")]
    if kind == "head":
        return Plan(fraction_bits=bits)
    weights = {}
    for n in layers if kind == "full" else layers[1:]:
        shape = graph.tensors[n.inputs[0]].shape
        channels = shape[2] if n.op == "conv2d" else shape[0] * shape[1] * shape[2]
        # Of a partly trained layer, every other channel.
        weights[n.name] = tuple(range(0, channels, 1 if kind == "full" else 2))
    return Plan(tuple(n.name for n in layers[:: 1 if kind == "full" else 3]), weights, True, bits)


def _compare_step(
    compiled: CompiledProgram, machine: Machine, engine: Engine, sample: bytes, label: int
) -> None:
    written: dict[int, dict[str, bytes]] = {}
    machine.trace = lambda index, _, values: written.update({index: dict(values)})
    lr = np.float32(0.003)
    expected = machine.train(sample, label, lr, 10 * lr)
    with engine.trace() as trace:
        got = engine.train(sample, label, lr, 10 * lr)
    for index, crc in enumerate(machine.crcs_per_instruction):
        if crc is None:  # part of a concatenation
            continue
        for name, data in written[index].items():
            instr = compiled.program.instrs[index]
            where = f"instruction {index} ({instr.op} of {instr.layer}): {name} differs"
            assert data == trace[index][name], where
    assert np.float32(got.loss) == expected.loss
    counts = (expected.predicted, expected.saturated, expected.clamped)
    assert (got.predicted, got.saturated, got.clamped) == counts
    assert engine.state == machine.state_bytes(compiled)


@pytest.mark.parametrize("bits", [0, 4, 8])
@pytest.mark.parametrize("kind", ["full", "partial", "head"])
@pytest.mark.parametrize(
    "graph", [residual_network(), _every_operator(), deep_network()], ids=lambda g: g.name
)
def test_t06_ten_steps_are_equal_to_the_bit(graph: Graph, kind: str, bits: int) -> None:
    compiled = compile_program(graph, _plan(graph, kind, bits), seed=11)
    machine, engine = Machine(compiled.program), Engine(pack(compiled))
    rng = np.random.default_rng(1)
    size = sum(graph.tensors[name].size for name in graph.inputs)
    for step in range(STEPS):
        sample = rng.integers(-128, 128, size).astype(np.int8).tobytes()
        logits = machine.forward(sample)
        assert np.array_equal(logits.view(np.uint32), engine.forward(sample).view(np.uint32))
        _compare_step(compiled, machine, engine, sample, step % len(graph.classes))
