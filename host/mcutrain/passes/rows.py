"""How rows flow through a run of forward instructions: in which order, and how many must be kept.

A new input row is pushed through as far as it goes: of the instructions whose next output row can
be computed, the last one runs. So each producer is only one row ahead of what its readers need,
and a value that nobody else reads needs a ring of a few rows instead of a whole map. Nothing is
computed twice (patch-based inference recomputes halos; MCUNetV2, Lin et al. 2021).

Kernels that unpack the rows under a window are faster with some rows of output at a time: with a
batch of n, such an instruction waits until it can make n rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mcutrain.ir.instructions import INPUT_ROW
from mcutrain.ir.program import Instr, Value

# Slots that are read and written row by row; every other operand is read whole.
ROW_INPUTS = {
    "conv2d": ("x",),
    "add": ("a", "b"),
    "avgpool": ("x",),
    "maxpool": ("x",),
    "rescale": ("x",),
    "gather": ("x",),
}


class Valued(Protocol):
    """A program, finished or not: it knows its values by name."""

    @property
    def values(self) -> Mapping[str, Value]:
        """Values by name."""


@dataclass(frozen=True)
class Flow:
    """Order and memory of a segment.

    Attributes:
        order: one byte a row: the index in the segment of the instruction that makes it, or
            `INPUT_ROW` for a row of the network's input.
        rings: rows to keep of each value that may be a ring, by name.
        alive: for each of them a bit a step of the order: rows of it are there.
    """

    order: bytes
    rings: Mapping[str, int]
    alive: Mapping[str, int]


def is_row_op(program: Valued, instr: Instr) -> bool:
    """Whether an instruction can make its output row by row from rows of its inputs."""
    slots = ROW_INPUTS.get(instr.op)
    if slots is None:
        return False
    names = [instr.operands[s] for s in (*slots, "y")]
    return all(program.values[n].view_of is None for n in names)


def unpacks(instr: Instr) -> bool:
    """Whether its kernel unpacks every input row once for each window that it lies in, so that
    some rows of output at a time cost less than one by one.
    """
    return instr.op == "conv2d" and instr.params["kh"] > 1


def flow(
    program: Valued, members: Sequence[Instr], streamed: Sequence[str], batch: int = 1
) -> Flow:
    """Simulate a segment.

    Args:
        program: the program that `members` stand in, in a row.
        members: instructions for which `is_row_op` holds.
        streamed: the network's inputs that arrive row by row.
        batch: rows at a time of those that unpack their input.
    """
    return _Simulation(program, members, streamed, batch).run()


@dataclass
class _Reader:
    """One input of a member: which rows of the value its next output row needs."""

    member: int
    value: str
    instr: Instr

    def first_row(self, out_row: int) -> int:
        return max(0, out_row * self._stride - self.instr.params.get("pt", 0))

    def last_row(self, out_row: int, height: int) -> int:
        start = out_row * self._stride - self.instr.params.get("pt", 0)
        return min(height - 1, start + self.instr.params.get("kh", 1) - 1)

    @property
    def _stride(self) -> int:
        return self.instr.params.get("sh", 1)


class _Simulation:
    def __init__(
        self, program: Valued, members: Sequence[Instr], streamed: Sequence[str], batch: int
    ) -> None:
        self.program = program
        self.batches = [batch if unpacks(m) else 1 for m in members]
        self.unfinished: int | None = None  # the member whose batch has begun
        self.members = members
        self.streamed = streamed
        self.heights = [program.values[m.operands["y"]].shape[0] for m in members]
        self.done = [0] * len(members)
        self.input_rows = dict.fromkeys(streamed, 0)
        self.readers = [
            [_Reader(i, m.operands[s], m) for s in ROW_INPUTS[m.op]] for i, m in enumerate(members)
        ]
        self.makers: dict[str, list[int]] = {}
        for i, m in enumerate(members):
            self.makers.setdefault(m.operands["y"], []).append(i)
        self.users: dict[str, list[_Reader]] = {}
        for reader in (r for rs in self.readers for r in rs):
            self.users.setdefault(reader.value, []).append(reader)
        self.rings = dict.fromkeys((*self.makers, *streamed), 1)
        self.steps: dict[str, list[int]] = {v: [] for v in self.rings}

    def run(self) -> Flow:
        order = bytearray()
        there: set[str] = set()
        while (step := self._next()) is not None:
            if step == INPUT_ROW:
                touched = self._advance_input()
            else:
                self.done[step] += 1
                self.unfinished = step if self.done[step] < self._goal(step, -1) else None
                touched = [self.members[step].operands["y"]]
                touched += [r.value for r in self.readers[step]]
            touched = [v for v in touched if v in self.rings]
            for value in there.union(touched):
                self.steps[value].append(len(order))
            for value in touched:
                (there.add if self._keep(value) else there.discard)(value)
            order.append(step)
        alive = {v: sum(1 << s for s in steps) for v, steps in self.steps.items()}
        return Flow(bytes(order), self.rings, alive)

    def _next(self) -> int | None:
        if self.unfinished is not None:
            return self.unfinished
        for i in range(len(self.members) - 1, -1, -1):
            if self.done[i] < self.heights[i] and self._ready(i):
                return i
        unfinished = any(n < self._height(v) for v, n in self.input_rows.items())
        return INPUT_ROW if unfinished else None

    def _height(self, value: str) -> int:
        return self.program.values[value].shape[0]

    def _goal(self, i: int, more: int = 0) -> int:
        """Rows of a member when the batch is complete that row `done + more` is in."""
        n = self.batches[i]
        return min(self.heights[i], ((self.done[i] + more) // n + 1) * n)

    def _ready(self, i: int) -> bool:
        last = self._goal(i) - 1
        return all(
            r.last_row(last, self._height(r.value)) < self._made(r.value) for r in self.readers[i]
        )

    def _made(self, value: str) -> int:
        """Rows of a value that exist; all of one that comes from outside."""
        if value in self.input_rows:
            return self.input_rows[value]
        makers = self.makers.get(value)
        return self._height(value) if makers is None else min(self.done[i] for i in makers)

    def _advance_input(self) -> list[str]:
        """The inputs of a network arrive one after the other."""
        for value, rows in self.input_rows.items():
            if rows < self._height(value):
                self.input_rows[value] += 1
                return [value]
        return []

    def _keep(self, value: str) -> int:
        """How many rows of a value are still needed; its ring must hold them."""
        newest = max(
            (self.done[i] for i in self.makers.get(value, ())),
            default=self.input_rows.get(value, 0),
        )
        oldest = min(
            (
                r.first_row(self.done[r.member])
                for r in self.users.get(value, ())
                if self.done[r.member] < self.heights[r.member]
            ),
            default=newest,
        )
        self.rings[value] = max(self.rings[value], newest - oldest)
        return newest - oldest
