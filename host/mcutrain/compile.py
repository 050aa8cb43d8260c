"""Compile a quantised network and a plan into a training program with its memory laid out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mcutrain.ir.graph import Graph
from mcutrain.ir.macs import macs
from mcutrain.ir.program import (
    CONST,
    STATE,
    CompiledProgram,
    MemoryPlan,
    Program,
    aligned,
    contents,
    value_bytes,
)
from mcutrain.ir.serialize import network_hash
from mcutrain.ir.verify import verify
from mcutrain.memory import (
    bound_of,
    lend_scratch,
    peak_values,
    plan_memory,
    plan_with_canaries,
)
from mcutrain.passes.autodiff import autodiff
from mcutrain.passes.lower import lower
from mcutrain.passes.lowered import Lowered
from mcutrain.passes.prune import prune
from mcutrain.passes.recompute import repeat, repeats
from mcutrain.passes.reorder import reorder
from mcutrain.passes.scratch import add_scratch
from mcutrain.passes.stream import stream
from mcutrain.plan import Plan
from mcutrain.plan.scheme import plan_to_dict

RNG, PREDICTOR, EXPONENT = "rng", "predictor", "exponent"


@dataclass(frozen=True)
class Savings:
    """What is done to save memory; all of it, but to see what each one saves.

    Attributes:
        reorder: updates run right after the error that feeds them.
        in_place: instructions may write over what they read last.
        rows: parts of the forward pass run row by row where that saves memory.
    """

    reorder: bool = True
    in_place: bool = True
    rows: bool = True


def compile_program(
    graph: Graph,
    plan: Plan,
    *,
    seed: int = 0,
    predictors: Mapping[str, int] | None = None,
    exact: bool = False,
    savings: Savings = Savings(),
    pool: int | None = None,
    canary: int = 0,
) -> CompiledProgram:
    """The training program of a plan, ready to be packed.

    Args:
        graph: a quantised network.
        plan: what trains.
        seed: first word of the random state (uint32).
        predictors: initial exponent predictor (int16, Q8) by error value; 0 where absent.
        exact: lay memory out with the exact solver.
        savings: see there.
        pool: bytes that there are for state and arena. If they are too few, parts of the forward
            pass run again in the backward pass where that helps, as few as suffice; the result may
            still need more.
        canary: bytes before and behind each buffer that nobody may write, for debugging
            (`mcutrain.image.format.CANARY_BYTES`).

    Raises:
        InputError: the network is malformed, or the plan does not fit it.
        UnsupportedError: a constant that the arithmetic cannot hold; names the layer.
    """
    verify(graph)
    lowered = prune(autodiff(lower(graph, plan)))
    if savings.reorder:
        reorder(lowered)
    info: dict[str, Any] = {
        "network": graph.name,
        "classes": list(graph.classes),
        "plan": plan_to_dict(plan),
    }

    def finished(unfinished: Lowered) -> Program:
        out = replace(unfinished, values=dict(unfinished.values), instrs=list(unfinished.instrs))
        add_scratch(out)
        if savings.rows:
            stream(out)
        _runtime_state(out, seed, predictors or {})
        return _program(out, info)

    program = finished(lowered)
    if pool is not None:
        program = _within(pool, lowered, program, finished)
    in_place = savings.in_place
    compiled = layout(program, network_hash(graph), exact=exact, in_place=in_place, pool=pool)
    if canary == 0:
        return compiled
    memory = plan_with_canaries(compiled.program, canary, in_place)
    return _placed(compiled.program, memory, compiled.model_hash)


def _program(out: Lowered, info: Mapping[str, Any]) -> Program:
    return Program(
        out.name,
        out.values,
        tuple(out.instrs),
        out.forward,
        out.inputs,
        out.logits,
        out.errors,
        info,
    )


def _within(
    pool: int, lowered: Lowered, program: Program, finished: Callable[[Lowered], Program]
) -> Program:
    """The program itself if its bound is within `pool`, else with forward instructions repeated.

    Greedy: the cheapest repeat that suffices; else the one that helps most, and on from there.
    """
    state = _sequential(program, STATE, {})
    need = aligned(state) + bound_of(program)
    while need > pool:
        tried: list[tuple[int, int, int, Lowered, Program]] = []
        alive = peak_values(program)
        for one in repeats(lowered):
            if one.values.isdisjoint(alive):
                continue
            repeated = repeat(lowered, one)
            candidate = finished(repeated)
            bytes_now = aligned(state) + bound_of(candidate)
            work = sum(macs(candidate, i) for i in candidate.instrs)
            tried.append((max(bytes_now, pool), work, len(tried), repeated, candidate))
        best = min(tried, default=None, key=lambda t: t[:3])
        if best is None or best[0] >= need:
            break
        need, lowered, program = best[0], best[3], best[4]
    return program


def layout(
    program: Program,
    model_hash: bytes,
    *,
    exact: bool = False,
    in_place: bool = True,
    pool: int | None = None,
) -> CompiledProgram:
    """Give every value of a program its place; scratch memory stays within `pool` bytes."""
    memory = plan_memory(program, exact=exact, in_place=in_place)
    state = aligned(_sequential(program, STATE, {}))
    program, memory = lend_scratch(program, memory, state, pool, in_place)
    return _placed(program, memory, model_hash)


def _placed(program: Program, memory: MemoryPlan, model_hash: bytes) -> CompiledProgram:
    offsets: dict[str, int] = {
        name: memory.offsets[buffer.name] for buffer in memory.buffers for name in buffer.values
    }
    state_bytes = _sequential(program, STATE, offsets)
    const_bytes = _constants(program, offsets)
    for name in program.values:
        offsets[name] = offsets[program.base(name).name]
    return CompiledProgram(program, memory, offsets, state_bytes, const_bytes, model_hash)


def _runtime_state(out: Lowered, seed: int, predictors: Mapping[str, int]) -> None:
    """Seed and step, and for each error its exponent and the predictor of its magnitude."""
    out.state(RNG, "u32", np.array([seed & 0xFFFFFFFF, 0], np.uint32))
    if out.errors:
        initial = np.zeros(out.errors, np.int16)
        for value in out.values.values():
            if value.error is not None and value.name in predictors:
                initial[value.error] = predictors[value.name]
        out.state(PREDICTOR, "s16", initial)
        out.state(EXPONENT, "s16", np.zeros(out.errors, np.int16))


def _sequential(program: Program, space: str, offsets: dict[str, int]) -> int:
    """Values of a space one behind the other, wide elements first, so that no padding is needed."""
    owners = [v for v in program.values.values() if v.space == space and v.view_of is None]
    owners.sort(key=lambda v: -value_bytes(v.dtype, 8))
    at = 0
    for value in owners:
        offsets[value.name] = at
        at += value.nbytes
    return at


def _constants(program: Program, offsets: dict[str, int]) -> int:
    """Constants like values of the state, but for bytes that are there already: many are 0."""
    owners = [v for v in program.values.values() if v.space == CONST and v.view_of is None]
    owners.sort(key=lambda v: (-value_bytes(v.dtype, 8), -v.nbytes))
    stored = bytearray()
    for value in owners:
        data, align = contents(value), max(1, value_bytes(value.dtype, 1))
        at = stored.find(data)
        while at > 0 and at % align:
            at = stored.find(data, at + 1)
        offsets[value.name] = len(stored) if at < 0 else at
        if at < 0:
            stored += data
    return len(stored)


def with_state(compiled: CompiledProgram, state: Mapping[str, Any]) -> CompiledProgram:
    """The same program with other initial contents of the named state values."""
    values = dict(compiled.program.values)
    for name, data in state.items():
        values[name] = replace(values[name], data=np.ascontiguousarray(data))
    return replace(compiled, program=replace(compiled.program, values=values))
