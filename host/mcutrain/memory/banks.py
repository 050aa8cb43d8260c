"""Two banks of memory: a small, tightly coupled one that is fast, and the main one.

Each buffer lies in one bank. What is touched most often for its size goes to the fast bank as long
as it finds room there; the rest must fit into the main one, else larger buffers try the fast bank
first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mcutrain.errors import FitError
from mcutrain.ir.program import STATE, Buffer, CompiledProgram, Program
from mcutrain.memory.check import check_layout
from mcutrain.memory.solve import first_fit_top, solve

STATE_BUFFER = "state"


@dataclass(frozen=True)
class Bank:
    """A range of memory: its name for messages, and its bytes."""

    name: str
    size: int


@dataclass(frozen=True)
class BankPlan:
    """Where everything lies, the fast bank first.

    Attributes:
        banks: the two banks.
        buffers: what lies in each.
        offsets: of each buffer in its bank, multiples of 4.
        used: bytes of each bank.
    """

    banks: tuple[Bank, Bank]
    buffers: tuple[tuple[Buffer, ...], tuple[Buffer, ...]]
    offsets: Mapping[str, int]
    used: tuple[int, int]


def plan_banks(compiled: CompiledProgram, fast: Bank, main: Bank) -> BankPlan:
    """Lay state and arena out in two banks. The state is one buffer that is always alive.

    Raises:
        FitError: they do not fit; the message has the bytes of both banks.
    """
    program, memory = compiled.program, compiled.memory
    last = max(0, len(program.instrs) - 1)
    state = Buffer(STATE_BUFFER, compiled.state_bytes, -1, last)
    buffers = (state, *memory.buffers)
    touched = _touched(program, buffers)
    orders: tuple[Callable[[Buffer], float], ...] = (
        lambda b: -touched[b.name] / b.nbytes,
        lambda b: -b.nbytes,
        lambda b: -b.nbytes * (b.last - b.first + 1),
    )
    plans = [_split(sorted(buffers, key=key), fast, main) for key in orders]
    for plan in plans:
        if plan.used[1] <= main.size:
            return plan
    best = min(plans, key=lambda p: p.used[1])
    at, other = best.used
    raise FitError(
        f"'{program.name}' does not fit into {fast.name} and {main.name}",
        where=main.name,
        why=f"{main.name}: {other:,} bytes needed, {main.size:,} there; {fast.name}: {at:,} of "
        f"{fast.size:,} used (state {compiled.state_bytes:,}, arena {memory.arena_bytes:,})",
        hint="train fewer layers or channels (--scheme), with fewer bits (--fraction-bits 0)",
    )


def _touched(program: Program, buffers: Sequence[Buffer]) -> dict[str, int]:
    """Bytes of operands by buffer, summed over the instructions: how busy each one is."""
    home = {value: b.name for b in buffers for value in b.values}
    busy = dict.fromkeys((b.name for b in buffers), 0)
    for instr in program.instrs:
        for operand in instr.operands.values():
            value = program.base(operand)
            name = STATE_BUFFER if value.space == STATE else home.get(value.name)
            if name is not None:
                busy[name] += value.nbytes
    return busy


def _split(order: Sequence[Buffer], fast: Bank, main: Bank) -> BankPlan:
    inside: list[Buffer] = []
    outside: list[Buffer] = []
    for buffer in order:
        fits = first_fit_top([*inside, buffer]) <= fast.size
        (inside if fits else outside).append(buffer)
    offsets: dict[str, int] = {}
    used = []
    for part in (inside, outside):
        found, top = solve(part)
        check_layout(part, found, top)
        offsets |= found
        used.append(top)
    parts = (tuple(inside), tuple(outside))
    return BankPlan((fast, main), parts, offsets, (used[0], used[1]))
