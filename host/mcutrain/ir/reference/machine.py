"""Runs a program in numpy: the definition of what an image computes, without its memory plan."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mcutrain.errors import InputError, InternalError
from mcutrain.ir import arith
from mcutrain.ir.graph import Array
from mcutrain.ir.program import STATE, CompiledProgram, Instr, Program
from mcutrain.ir.reference import REFERENCE
from mcutrain.ir.reference.head import refuse_not_finite
from mcutrain.ir.reference.runtime import Memory, Runtime

RNG, PREDICTOR, EXPONENT = "rng", "predictor", "exponent"

# Called after each instruction with its index and the bytes of the values it wrote, by name; spare
# bits of a last byte are 0.
Trace = Callable[[int, Instr, Mapping[str, bytes]], None]


@dataclass(frozen=True)
class StepResult:
    """What one training step reports.

    Attributes:
        loss: before the update.
        predicted: class, before the update.
        saturated: error elements beyond a rail.
        clamped: weights that a rail kept from moving as far as they should.
        skipped: instructions of the backward pass that need not run: the sample is learnt, or all
            errors that they read are 0. Of the latter, this machine runs all the same.
    """

    loss: np.float32
    predicted: int
    saturated: int
    clamped: int
    skipped: int


class Machine:
    """A program with memory of its own.

    Args:
        program: the program; its state values give the initial state.
        seed, step: random state instead of the program's own.

    Attributes:
        memory, runtime: everything that the program can see, for tests.
        trace: see `Trace`; None to do without.
        crcs_per_instruction: of the last run, one an instruction: CRC-32 over the values it wrote,
            in slot order; None for a part of a concatenation before its last: bytes are still open.
    """

    def __init__(
        self, program: Program, *, seed: int | None = None, step: int | None = None
    ) -> None:
        self.program = program
        self.memory = Memory(program)
        self.trace: Trace | None = None
        self.crcs_per_instruction: list[int | None] = []
        self._rng = self._vector(RNG, np.uint32, 2)
        if seed is not None:
            self._rng[0] = seed
        if step is not None:
            self._rng[1] = step
        self.runtime = Runtime(
            seed=int(self._rng[0]),
            step=int(self._rng[1]),
            exponent=self._vector(EXPONENT, np.int16, program.errors),
            predictor=self._vector(PREDICTOR, np.int16, program.errors),
        )

    def _vector(self, name: str, dtype: type[np.generic], size: int) -> Array:
        """The runtime's own state value, or memory outside of the program where it has none."""
        if name not in self.program.values:
            return np.zeros(size, dtype)
        vector = self.memory.array(name).reshape(-1)
        if vector.dtype != dtype or vector.size != size:
            raise InternalError(f"'{name}' must hold {size} x {np.dtype(dtype).name}")
        return vector

    def forward(self, sample: bytes | Array) -> arith.Floats:
        """Logits of a sample: the int8 bytes of all inputs, one behind the other.

        Raises:
            InputError: the sample has another size, or a logit is not finite.
        """
        self._fill(sample)
        self.crcs_per_instruction = []
        self._run(0, self.program.forward)
        logits = self.memory.array(self.program.logits).reshape(-1).copy()
        refuse_not_finite(self.program.instrs[self.program.forward - 1].layer, logits, "an output")
        return logits

    def train(
        self,
        sample: bytes | Array,
        label: int,
        lr: float,
        lr_head: float | None = None,
        learnt: float = 0.0,
    ) -> StepResult:
        """One training step; `lr_head` is `lr` where it is not given.

        Only the step counter changes where the loss is below `learnt`.

        Raises:
            InputError: a sample of another size, a label that is no class, a rate that is negative
                or not finite, or (then nothing was trained) a logit or error that is not finite.
        """
        lr_head = lr if lr_head is None else lr_head
        classes = self.program.values[self.program.logits].count
        if not 0 <= label < classes:
            raise InputError(f"label {label} is no class: there are {classes}")
        for one in (lr, lr_head):
            arith.rate(one)
        run = self.runtime
        run.label, run.lr, run.lr_head = label, lr, lr_head
        run.seed, run.step = int(self._rng[0]), int(self._rng[1])
        run.saturated = run.clamped = run.skipped = 0
        run.unrounded.clear()
        run.gradients.clear()
        self._fill(sample)
        first = self.program.forward + 1  # behind the loss
        self.crcs_per_instruction = []
        self._run(0, first)
        if run.loss < np.float32(learnt):
            run.skipped = len(self.program.instrs) - first
            self.crcs_per_instruction += [None] * run.skipped
        else:
            self._run(first, len(self.program.instrs))
        self._rng[1] = (run.step + 1) & 0xFFFFFFFF
        return StepResult(run.loss, run.predicted, run.saturated, run.clamped, run.skipped)

    def _fill(self, sample: bytes | Array) -> None:
        data = np.frombuffer(sample if isinstance(sample, bytes) else sample.tobytes(), np.int8)
        inputs: list[npt.NDArray[np.int8]] = [
            self.memory.array(name).reshape(-1) for name in self.program.inputs
        ]
        if data.size != sum(x.size for x in inputs):
            raise InputError(
                f"a sample has {data.size} bytes", why=f"{sum(x.size for x in inputs)} are needed"
            )
        for x in inputs:
            x[:], data = data[: x.size], data[x.size :]

    def _run(self, first: int, end: int) -> None:
        for index, instr in enumerate(self.program.instrs[first:end], first):
            self.runtime.skipped += self._has_no_error(instr)
            REFERENCE[instr.op](instr, self.memory, self.runtime)
            # An executor keeps only some rows of a ring: there is nothing to compare.
            whole = [n for n in instr.results() if self.program.values[n].rows is None]
            written = {name: self._bytes(name) for name in whole}
            self.crcs_per_instruction.append(self._crc(instr, written))
            if self.trace is not None and instr.op != "segment":
                self.trace(index, instr, written)

    def _has_no_error(self, instr: Instr) -> bool:
        """Whether an instruction of the backward pass makes zeros of zeros, or steps of 0."""
        if "e_y" not in instr.operands:
            return False
        read = [slot for slot in ("e_y", "skip") if slot in instr.operands]
        return not any(self.memory.read(instr, slot).any() for slot in read)

    def _bytes(self, name: str) -> bytes:
        """Contents of a value; what follows its last bit or nibble is not part of them."""
        value, data = self.program.values[name], bytearray(self.memory.raw(name))
        spare = {"bits": -value.count % 8, "nibbles": 4 * (value.count % 2)}.get(value.dtype, 0)
        data[-1] &= 0xFF >> spare
        return bytes(data)

    def _crc(self, instr: Instr, written: Mapping[str, bytes]) -> int | None:
        if instr.op == "segment":
            return None
        if instr.op == "rescale":
            x, y = (self.memory.value(instr, slot).shape[2] for slot in ("x", "y"))
            if instr.params["c0"] + x < y:
                return None
        crc = 0
        for data in written.values():
            crc = zlib.crc32(data, crc)
        return crc

    def state_bytes(self, compiled: CompiledProgram) -> bytes:
        """The trained state as it lies in the memory of an executor."""
        state = bytearray(compiled.state_bytes)
        for name, value in self.program.values.items():
            if value.space == STATE and value.view_of is None:
                at = compiled.value_offsets[name]
                state[at : at + value.nbytes] = self.memory.raw(name)
        return bytes(state)
