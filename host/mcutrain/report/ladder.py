"""The ladder: the same training step with less and less done to save memory.

Each rung is compiled with that step and all later ones switched off. What no image can hold (fp32,
masks of a byte an element) is a program with wider values: it is laid out like any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from mcutrain.compile import Savings, compile_program
from mcutrain.ir.graph import Graph
from mcutrain.ir.program import (
    ARENA,
    CONST,
    STATE,
    CompiledProgram,
    MemoryPlan,
    Program,
    Value,
    aligned,
)
from mcutrain.memory import plan_memory
from mcutrain.plan.plan import Plan
from mcutrain.plan.scheme import resolve_scheme

_NOTHING = Savings(reorder=False, in_place=False, rows=False)


@dataclass(frozen=True)
class Rung:
    """Bytes of SRAM of one training step.

    Attributes:
        state: what trains.
        arena: everything else.
        backward: of it, the largest set of buffers alive in the backward pass.
        peak: instruction that sets the arena's peak: operation and layer.
    """

    name: str
    state: int
    arena: int
    backward: int
    peak: str

    @property
    def total(self) -> int:
        """State, then the arena at the next multiple of 4."""
        return aligned(self.state) + self.arena


def ladder(graph: Graph, plan: Plan) -> Iterator[Rung]:
    """The rungs from an fp32 full update to what `compile_program` gives for the plan.

    Args:
        graph: a quantised network.
        plan: what trains on the sparse rungs; its fraction bits count on all int8 ones.
    """
    full = resolve_scheme(graph, "full", plan.fraction_bits)
    whole = compile_program(graph, full, savings=_NOTHING)
    yield _wider("fp32, full update, everything kept", whole, fp32=True)
    yield _wider("int8, full update", whole)
    sparse = compile_program(graph, plan, savings=_NOTHING)
    yield _wider("+ sparse update", sparse)
    reordered = compile_program(graph, plan, savings=replace(_NOTHING, reorder=True))
    yield _wider("+ updates reordered", reordered)
    in_place = compile_program(graph, plan, savings=Savings(rows=False))
    yield _rung("+ in place, one-bit masks", in_place)
    yield _rung("+ rows", compile_program(graph, plan))


def _rung(name: str, compiled: CompiledProgram) -> Rung:
    return _of(name, compiled.program, compiled.state_bytes, compiled.memory)


def _of(name: str, program: Program, state: int, memory: MemoryPlan) -> Rung:
    alive = [
        sum(b.nbytes for b in memory.buffers if b.first <= i <= b.last)
        for i in range(len(program.instrs))
    ]
    instr = program.instrs[alive.index(max(alive))]
    backward = max(alive[program.forward :])
    return Rung(name, state, memory.arena_bytes, backward, f"{instr.op} of {instr.layer}")


def _wider(name: str, compiled: CompiledProgram, fp32: bool = False) -> Rung:
    """With a byte for each bit of a mask and, if asked, float32 for each int8, nothing in place."""
    values = {n: _widened(v, fp32) for n, v in compiled.program.values.items()}
    program = replace(compiled.program, values=values)
    state = sum(
        0 if fp32 and v.name.endswith(".frac") else v.nbytes
        for v in values.values()
        if v.space == STATE and v.view_of is None
    )
    return _of(name, program, state, plan_memory(program, in_place=False))


def _widened(value: Value, fp32: bool) -> Value:
    if value.space == CONST:
        return value
    if value.dtype == "bits" and value.space == ARENA:
        return replace(value, dtype="u8")
    if value.dtype == "s8" and fp32:
        return replace(value, dtype="f32")
    return value
