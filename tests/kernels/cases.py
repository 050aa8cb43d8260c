"""Cases of single instructions, and how to hold a C kernel against the numpy reference.

Every case is made from its key alone, so a failure message is enough to repeat it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from tests.kernels.bridge import KERNEL, Call

from mcutrain.ir.graph import Shape
from mcutrain.ir.inplace import inplace_pairs
from mcutrain.ir.instructions import INSTRUCTIONS
from mcutrain.ir.program import Instr, Program, Value
from mcutrain.ir.reference import REFERENCE
from mcutrain.ir.reference.runtime import DTYPES, Memory, Runtime

Array = npt.NDArray[Any]


@dataclass
class Case:
    """One instruction with all it reads.

    Attributes:
        key: (what, numbers...), identifies the case and seeds its data.
        errors: exponents of the error values so far; `error` appends.
    """

    op: str
    key: tuple[Any, ...]
    params: dict[str, int] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    exponents: list[int] = field(default_factory=list)
    predictors: list[int] = field(default_factory=list)
    l_top: int = -900
    label: int = 0
    lr: float = 0.0
    lr_head: float = 0.0

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(zlib.crc32(repr((self.op, self.key)).encode()))

    def put(self, slot: str, dtype: str, data: Any, shape: Shape | None = None, **kw: Any) -> None:
        """A value that the instruction reads (or updates)."""
        array = np.asarray(data)
        self.values[slot] = Value(slot, shape or (1, 1, array.size), dtype, data=array, **kw)

    def out(self, slot: str, dtype: str, shape: Shape, **kw: Any) -> None:
        """A value that it writes; what was there before must not matter."""
        value = Value(slot, shape, dtype, **kw)
        junk = self.rng.integers(0, 256, value.nbytes).astype(np.uint8)
        self.values[slot] = replace(value, data=junk.view(DTYPES[dtype]))

    def error(self, slot: str, q: Any, exponent: int) -> None:
        """An error that it reads."""
        self.put(slot, "s8", q, np.shape(q), error=len(self.exponents))
        self.exponents.append(exponent)
        self.predictors.append(0)

    def error_out(self, shape: Shape, predictor: int, share: int | None = None) -> None:
        """The error that it writes; `share` is the slot number of an exponent that it shares."""
        index = len(self.exponents) if share is None else share
        self.out("e_x", "s8", shape, error=index)
        if share is None:
            self.exponents.append(0)
            self.predictors.append(predictor)

    def mask(self, shape: Shape, share_of_ones: float = 0.8) -> None:
        """A mask that it reads."""
        bits = self.rng.random(np.prod(shape)) < share_of_ones
        self.put("mask", "bits", np.packbits(bits, bitorder="little"), shape)

    def int8(self, *shape: int, low: int = -128) -> Array:
        """Random int8, each rail with some probability of its own."""
        x = self.rng.integers(low, 128, shape)
        rails = self.rng.random(shape)
        return np.where(rails < 0.03, low, np.where(rails > 0.97, 127, x)).astype(np.int8)

    def program(self, alias: tuple[str, str] | None = None) -> Program:
        """A program of just this instruction; alias: (read, written) values of the same bytes."""
        values = dict(self.values)
        if alias:
            read, written = alias
            values[written] = replace(values[written], view_of=read)
        instr = Instr(self.op, "layer", {name: name for name in values}, self.params)
        return Program("case", values, (instr,), 0, (), "", len(self.exponents))

    def aliases(self) -> list[tuple[str, str] | None]:
        """Every way to run it: with buffers of their own, and in place where that is allowed."""
        return [None, *inplace_pairs(self.values, self.program().instrs[0])]


Run = Callable[[Instr, Memory, Runtime], None]


def distinct(cases: Iterable[Case]) -> list[Case]:
    """Each of them once: a kernel of 1, for one, has the same paddings twice in a grid."""
    return list({repr((case.op, case.key)): case for case in cases}.values())


def outcome(case: Case, run: Run, alias: tuple[str, str] | None = None) -> Mapping[str, Array]:
    """Everything that an instruction may change, by slot or counter name.

    alias: (read, written) slots that share their bytes.
    """
    program = case.program(alias)
    memory, instr = Memory(program), program.instrs[0]
    runtime = Runtime(
        seed=5,
        step=7,
        exponent=np.array(case.exponents, np.int16),
        predictor=np.array(case.predictors, np.int16),
        label=case.label,
        lr=case.lr,
        lr_head=case.lr_head,
        l_top=case.l_top,
    )
    run(instr, memory, runtime)
    changing = [slot.name for slot in INSTRUCTIONS[case.op].slots if not slot.scratch]
    found: dict[str, Array] = {n: memory.array(n) for n in changing if n in case.values}
    mask = memory.mask(instr)
    if mask is not None:  # the bits after the last mean nothing
        found["mask"] = mask
    for counter in ("exponent", "predictor", "l_top", "saturated", "clamped", "predicted", "loss"):
        found[counter] = np.asarray(getattr(runtime, counter))
    return found


def assert_same(expected: Mapping[str, Array], got: Mapping[str, Array], key: object) -> None:
    """Equal to the bit (floats, too), else index, expected, got and the case."""
    for name, want in expected.items():
        have = got[name]
        assert want.shape == have.shape, f"{name}: {want.shape}, {have.shape} in {key}"
        if want.dtype == np.float32:
            want, have = want.view(np.uint32), have.view(np.uint32)
        if not np.array_equal(want, have):
            index = tuple(int(i) for i in np.argwhere(want != have)[0])
            count = int((want != have).sum())
            raise AssertionError(
                f"{name}{list(index)}: expected {want[index]}, got {have[index]}"
                f" ({count} of {want.size} differ) in {key}"
            )


def check(case: Case, kernels: Any) -> Mapping[str, Array]:
    """Hold the C kernel against the reference; returns the result."""

    def kernel(instr: Instr, memory: Memory, runtime: Runtime) -> None:
        KERNEL[instr.op](Call(kernels, instr, memory, runtime))

    expected = outcome(case, REFERENCE[case.op])
    for alias in case.aliases():
        gone = alias[0] if alias else None
        want = {name: value for name, value in expected.items() if name != gone}
        assert_same(want, outcome(case, kernel, alias), (case.op, case.key, alias))
    return expected
