"""Convolutions, their errors and updates with the fast kernels, in random cases."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest
from tests.kernels import fast
from tests.kernels.bridge import Call
from tests.kernels.cases import Run, assert_same, outcome
from tests.kernels.conftest import ROOT, VECTOR_UNITS, compile_kernels
from tests.kernels.guard_pages import GuardedMemory, GuardPages
from tests.kernels.random_conv import Random, random_case

from mcutrain.ir.program import Instr
from mcutrain.ir.reference import REFERENCE
from mcutrain.ir.reference.runtime import Memory, Runtime

BLOCK = 100
GUARDED = 1000


@pytest.mark.parametrize("first", range(0, 2000, BLOCK))
def test_any_case(first: int, kernel_module: ModuleType, dsp_module: ModuleType) -> None:
    for number in range(first, first + BLOCK):
        random = random_case(number)
        case, key = random.case, (number, random.case.op, random.case.key)
        for alias in case.aliases():
            want = outcome(case, fast.plain(kernel_module), alias)
            for nbytes in (random.nbytes, fast.wanted(case)):
                run = fast.with_scratch(random.run, dsp_module, nbytes)
                assert_same(want, outcome(case, run, alias), (key, alias, nbytes, random.rows))
        if number % 20 == 0:
            want = outcome(case, REFERENCE[case.op])
            assert_same(want, outcome(case, fast.plain(kernel_module)), key)


def guarded(random: Random, module: Any, pages: GuardPages, nbytes: int) -> Run:
    """The case's instruction, with nothing it may touch beside its values and scratch memory."""

    def run(instr: Instr, memory: Memory, runtime: Runtime) -> None:
        pages.clear()
        inside = GuardedMemory(memory.program, memory, pages)
        scratch = pages.room(nbytes)
        random.run(Call(module, instr, inside, runtime, scratch))
        GuardedMemory.copy(inside, memory)

    return run


def main(unit: str) -> None:
    """What the test below runs as a process of its own; says which case it is about to run."""
    folder = ROOT / "build" / "tests" / "kernels"
    plain = compile_kernels(folder)
    fast_kernels = compile_kernels(folder, "MCT_DSP_IN_C" if unit == "dsp" else "MCT_SIMD")
    if unit != "dsp" and not fast_kernels.lib.mct_simd_select(unit.encode()):
        return  # this processor has none
    pages = GuardPages()
    for number in range(GUARDED):
        print(number, flush=True)
        random = random_case(number)
        for alias in random.case.aliases():
            want = outcome(random.case, fast.plain(plain), alias)
            full = fast.wanted(random.case)
            for at_end, nbytes in (
                (True, full),
                (False, full),
                (True, random.nbytes // 4 * 4),
            ):
                pages.at_end = at_end
                run = guarded(random, fast_kernels, pages, nbytes)
                got = outcome(random.case, run, alias)
                assert_same(want, got, (number, random.case.key, alias))
    print("done")


@pytest.mark.parametrize("unit", ["dsp", *VECTOR_UNITS])
def test_nothing_beside_the_values_is_read_or_written(unit: str) -> None:
    code = f"from tests.kernels.test_random_conv import main\nmain({unit!r})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    last = done.stdout.split()[-1:]
    if done.returncode == 0 and last == []:
        pytest.skip(f"this processor has no {unit}")
    assert done.returncode == 0, f"case {last}: {done.returncode} {done.stderr}"
    assert last == ["done"]
