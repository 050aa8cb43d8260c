"""Ten-step training traces: the same programs, samples and rates for everything that runs them.

Those of PROGRAMS do all of their work in each step, those of SKIPPING leave some of it out.

A trace has the bits of each step's loss, its counts, the CRC-32 over all tensors that each
instruction wrote (activations, errors, weights, biases, exponents), and the state at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from tests.image_cases import branches_network, partial_plan, samples
from tests.networks import NetworkBuilder, residual_network

from mcutrain.compile import compile_program
from mcutrain.engine import Engine
from mcutrain.image.pack import pack
from mcutrain.ir.graph import Graph
from mcutrain.ir.program import CompiledProgram
from mcutrain.ir.reference.machine import Machine
from mcutrain.link.session import Session
from mcutrain.link.wire import RunFlag
from mcutrain.plan import Plan
from mcutrain.plan.scheme import resolve_scheme

STEPS = 10


def deep_network(blocks: int = 16) -> Graph:
    """50 layers, in which a difference of one bit would spread."""
    b = NetworkBuilder((6, 6, 3), 4, "deep")
    x = b.conv("stem", "x", 6, 3, 1, 1, relu=True)
    for i in range(blocks):
        y = b.conv(f"b{i}.dw", x, 6, 3, 1, 1, groups=6, relu=True)
        x = b.add(f"b{i}.add", x, b.conv(f"b{i}.pw", y, 6))
    return b.head(b.global_pool("pool", x), 3)


def streamed_residual() -> CompiledProgram:
    """The frozen layers run row by row, as the input comes; two layers train in part."""
    plan = Plan(
        biases=("b2.pw1", "b2.dw", "b2.pw2"),
        weights={"b2.pw1": (0, 2, 3, 7), "b2.pw2": tuple(range(0, 24, 2))},
        fraction_bits=8,
    )
    return compile_program(residual_network(16), plan, seed=21)


def mlp() -> CompiledProgram:
    """Linear layers only, masters without a fraction."""
    b = NetworkBuilder((4, 4, 3), 8, "mlp")
    graph = b.head(b.linear("fc2", b.linear("fc1", "x", 20), 12), 5)
    return compile_program(graph, resolve_scheme(graph, "full", 0), seed=22)


def branches() -> CompiledProgram:
    """Two inputs, concat, both pools, a grouped convolution; four bits of fraction."""
    graph = branches_network()
    return compile_program(graph, partial_plan(graph, 4), seed=23)


def deep() -> CompiledProgram:
    """T45: what drifts with depth would show."""
    graph = deep_network()
    return compile_program(graph, resolve_scheme(graph, "full"), seed=24)


# With rates (the classifier's last) at which every trained tensor moves within ten steps.
PROGRAMS = {
    "streamed-residual": (streamed_residual, (0.5, 0.05)),
    "branches": (branches, (0.1, 0.05)),
    "mlp": (mlp, (0.02, 0.05)),
    "t45-deep": (deep, (0.003, 0.001)),
}


def _changed(graph: Graph, name: str, **changes: Any) -> Graph:
    """The graph with functions of some parameters of a layer in their place."""
    nodes = [
        replace(n, params={**n.params, **{k: f(n.params[k]) for k, f in changes.items()}})
        if n.name == name
        else n
        for n in graph.nodes
    ]
    return replace(graph, nodes=tuple(nodes))


def zero_head() -> CompiledProgram:
    """A classifier of zeros, as a fresh one is: no error in the first step."""
    graph = _changed(residual_network(16), "classifier", weight=np.zeros_like)
    return compile_program(graph, resolve_scheme(graph, "full"), seed=25)


def dead_branch() -> CompiledProgram:
    """One of two branches is below its range everywhere: no error passes through it."""
    graph = _changed(branches_network(), "dw", bias=lambda b: b - 3_000_000)
    return compile_program(graph, resolve_scheme(graph, "full", 4), seed=26)


# The same, and the loss below which a sample is learnt.
SKIPPING = {
    "zero-head": (zero_head, (0.5, 0.05), 0.0),
    "dead-branch": (dead_branch, (0.1, 0.05), 0.0),
    "learnt": (streamed_residual, (0.5, 0.05), 1.3),
}


@cache
def program(name: str) -> CompiledProgram:
    build = (PROGRAMS | SKIPPING)[name][0]
    return build()


def _inputs(name: str) -> list[tuple[bytes, int, float, float, float]]:
    """Sample, label, rates and the loss of learnt samples, for each step."""
    _, rates, *learnt = (PROGRAMS | SKIPPING)[name]
    limit = learnt[0] if learnt else 0.0
    return [(x, label, *rates, limit) for x, label in samples(program(name), STEPS)]


@dataclass(frozen=True)
class Step:
    """crcs: one an instruction, None where an executor defines none."""

    loss_bits: int
    predicted: int
    saturated: int
    clamped: int
    skipped: int
    crcs: tuple[int | None, ...]


@dataclass(frozen=True)
class Trace:
    steps: tuple[Step, ...]
    state: bytes


@cache
def reference(name: str) -> Trace:
    """By the numpy machine. No CRC of a segment, nor of a part of a concatenation: its other
    bytes are still open.
    """
    compiled = program(name)
    machine = Machine(compiled.program)
    steps = []
    for inputs in _inputs(name):
        r = machine.train(*inputs)
        bits = int(r.loss.view(np.uint32))
        crcs = tuple(machine.crcs_per_instruction)
        steps.append(Step(bits, r.predicted, r.saturated, r.clamped, r.skipped, crcs))
    return Trace(tuple(steps), machine.state_bytes(compiled))


def by_engine(name: str) -> Trace:
    """By the C executor in this process."""
    compiled = program(name)
    engine = Engine(pack(compiled))
    steps = []
    for inputs in _inputs(name):
        with engine.trace_crcs() as found:
            r = engine.train(*inputs)
        crcs = tuple(found.get(i) for i in range(len(compiled.program.instrs)))
        steps.append(Step(r.loss_bits, r.predicted, r.saturated, r.clamped, r.skipped, crcs))
    return Trace(tuple(steps), engine.state)


def by_device(name: str, session: Session) -> Trace:
    """By the firmware's app, which has the image open, at the other end of a session."""
    compiled = program(name)
    steps = []
    for sample, label, *rates, learnt in _inputs(name):
        session.set_sample(sample)
        r = session.step(label, *rates, RunFlag.TRACE, learnt)
        crcs = session.trace(len(compiled.program.instrs))
        steps.append(Step(r.loss_bits, r.predicted, r.saturated, r.clamped, r.skipped, crcs))
    return Trace(tuple(steps), session.read_state())


def assert_is_the_reference(name: str, found: Trace) -> None:
    """Names the first instruction of the first step that differs."""
    instrs = program(name).program.instrs
    expected = reference(name)
    assert len(found.steps) == STEPS
    for number, (got, want) in enumerate(zip(found.steps, expected.steps, strict=True)):
        for instr, a, b in zip(instrs, got.crcs, want.crcs, strict=True):
            assert b is None or a == b, f"step {number}: {instr.op} of {instr.layer}"
        numbers = [
            (s.loss_bits, s.predicted, s.saturated, s.clamped, s.skipped) for s in (got, want)
        ]
        assert numbers[0] == numbers[1], f"step {number}"
    assert found.state == expected.state
