"""The kernels for cores with the DSP extension, held against the plain ones of the host.

On the host their instructions are written in C (the module of fixture `dsp_module`), on an emulated
board they are the core's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from tests.kernels.bridge import KERNEL, Call
from tests.kernels.cases import Case, Run, assert_same, outcome
from tests.kernels.conv_cases import Conv, dw, dx, forward

from mcutrain.ir.program import Instr
from mcutrain.ir.reference.runtime import Memory, Runtime
from mcutrain.ir.scratch import scratch_bytes

GUARD = 64
PAD1, PAD2, PAD3 = (1,) * 4, (2,) * 4, (3,) * 4

# Channels and maps for which there are fast kernels, with every kind of remainder.
DENSE = (
    Conv((4, 4, 8), 16),
    Conv((3, 5, 8), 16),
    Conv((1, 6, 12), 8),
    Conv((1, 1, 20), 7),
    Conv((2, 4, 3), 5),
    Conv((2, 3, 33), 9),
    Conv((3, 4, 21), 8, trained=9),
    Conv((4, 4, 16), 24, trained=4),
    Conv((2, 8, 16), 8, trained=-1),
    Conv((3, 4, 96), 11),
    Conv((2, 6, 132), 9, trained=-1),
    Conv((9, 9, 3), 8, (3, 3), (2, 2), PAD1),
    Conv((6, 7, 4), 8, (3, 3), pad=(1, 0, 1, 2), trained=1),
    Conv((7, 9, 1), 16, (5, 3), (2, 1), (2, 1, 1, 0), zero=-128),
    Conv((6, 6, 8), 8, (1, 1), (2, 2)),
    Conv((2, 3, 1), 5),
)
DEPTHWISE = (
    *(
        Conv((7, w, 8), 8, (k, k), s, (k // 2,) * 4, groups=8, zero=z)
        for k in (3, 5, 7)
        for s in ((1, 1), (2, 2), (2, 1), (1, 2))
        for w, z in ((8, -128), (9, 3))
    ),
    Conv((4, 4, 12), 12, (5, 5), pad=PAD2, groups=12),
    Conv((4, 4, 4), 4, (7, 7), pad=PAD3, groups=4, trained=-1),
    Conv((1, 3, 4), 4, (3, 3), pad=PAD1, groups=4),
    Conv((8, 11, 8), 8, (7, 7), (2, 2), (2, 3, 3, 1), groups=8),
    Conv((9, 6, 8), 8, (5, 5), (1, 2), (4, 0, 1, 3), groups=8),
    Conv((5, 6, 5), 5, (3, 3), pad=PAD1, groups=5),
    Conv((5, 6, 8), 8, (3, 3), pad=PAD1, groups=8, trained=4),
    Conv((8, 9, 12), 12, (5, 5), (2, 2), (1, 1, 2, 2), groups=12, trained=7),
    Conv((9, 7, 16), 16, (7, 7), (2, 2), (2, 4, 3, 1), groups=16, trained=5),
    Conv((20, 16, 4), 4, (3, 3), pad=PAD1, groups=4),
)


def falling(case: Case) -> Case:
    """Channels in another order than the compiler's in each block of a depthwise convolution."""
    case.key = (*case.key, "falling")
    perm = case.values["perm"]
    case.values["perm"] = replace(perm, data=np.asarray(perm.data)[::-1].copy())
    return case


def other_r(case: Case) -> Case:
    """Factors of a depthwise convolution's error as no compiler makes them."""
    case.key = (*case.key, "r")
    r = case.values["r"]
    case.values["r"] = replace(r, data=(np.asarray(r.data) // 3).astype(np.int16))
    return case


CASES = [
    *(forward(s) for s in (*DENSE, *DEPTHWISE)),
    *(forward(s, mask=False) for s in (*DENSE, *DEPTHWISE)),
    *(forward(s, mask=m, shifted=False) for s in DENSE for m in (True, False)),
    *(forward(s, -100, 90, mask=m) for s in (*DENSE[::3], *DEPTHWISE[::5]) for m in (True, False)),
    *(forward(s, rails=r) for s in (*DENSE[::3], *DEPTHWISE[::4]) for r in ("high", "low")),
    *(dx(s) for s in (*DENSE, *DEPTHWISE)),
    *(dx(s, skip=-12) for s in (*DENSE[::2], *DEPTHWISE[::3])),
    *(dx(s, masked=False, predictor=2500) for s in (*DENSE[::2], *DEPTHWISE[::3])),
    *(dx(s, predictor=-300, dead="none") for s in (*DENSE[::3], *DEPTHWISE[::4])),
    *(dx(s, rails=True, dead="none") for s in (*DENSE[::3], *DEPTHWISE[::4])),
    *(dx(s, dead="all") for s in (DENSE[0], DEPTHWISE[0])),
    *(falling(make(s)) for s in DEPTHWISE if s.trained > 0 for make in (forward, dx)),
    *(other_r(dx(s)) for s in DEPTHWISE[:8:3]),
    *(dw(s, bits) for s in (*DENSE, *DEPTHWISE) for bits in (0, 4, 8)),
    *(dw(s, rails=True, e_y=-10) for s in (*DENSE[::2], *DEPTHWISE[::3])),
]


def wanted(case: Case) -> int:
    """Bytes of scratch memory that the case's instruction can use."""
    program = case.program()
    return scratch_bytes(program.values, program.instrs[0])


def sizes(case: Case) -> list[int]:
    """None, as much as is of use, more, and less: the kernels choose others at some of these."""
    full = wanted(case)
    return sorted({0, full, full + 100, *(full * i // 16 // 4 * 4 for i in range(1, 16))})


def with_scratch(run: Callable[[Call], None], k: Any, nbytes: int) -> Run:
    """An instruction with scratch memory of any contents, and nothing written beside it."""

    def kernel(instr: Instr, memory: Memory, runtime: Runtime) -> None:
        guarded = np.full(nbytes + 2 * GUARD, 0xA5, np.uint8)
        scratch = guarded[GUARD : GUARD + nbytes]
        run(Call(k, instr, memory, runtime, scratch))
        assert (guarded[:GUARD] == 0xA5).all(), f"wrote before {nbytes} bytes of scratch"
        assert (guarded[GUARD + nbytes :] == 0xA5).all(), f"wrote behind {nbytes} bytes of scratch"

    return kernel


def plain(module: Any) -> Run:
    """The plain kernel."""

    def kernel(instr: Instr, memory: Memory, runtime: Runtime) -> None:
        KERNEL[instr.op](Call(module, instr, memory, runtime))

    return kernel


def check_fast(case: Case, module: Any, k: Any, nbytes: int) -> None:
    """Hold the kernel of `k` with so much scratch memory against the plain one of `module`."""
    for alias in case.aliases():
        run = with_scratch(lambda call: KERNEL[call.instr.op](call), k, nbytes)
        want = outcome(case, plain(module), alias)
        assert_same(want, outcome(case, run, alias), (case.op, case.key, alias, nbytes))
