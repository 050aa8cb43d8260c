"""How few instructions a core with the DSP extension could take: a model, to hold kernels against.

It counts products, loads and unpacking with every operand widened to int16 once, and what each
result costs; no loops, no addresses, no spilled registers. Sixteen products, of four weights with
four pixels, take eight SMLAD, one load and two SXTB16 for the weights and two LDM for the pixels.
A depthwise kernel of odd width K works on planes: two outputs of a row take K + 1 SMLAD and
(K + 1) / 2 loads, beyond K = 3 as many of weights.
"""

from __future__ import annotations

from collections.abc import Callable

from mcutrain.ir.macs import macs
from mcutrain.ir.program import Instr, Program

PRODUCT = 13 / 16
RESULT = 7  # scale, round, add the zero point, saturate twice, store, load the multiplier
WIDEN = 1  # an element: a load, two SXTB16 and a store for four
WIDEN_PLANE = 2  # the same, apart by channel


def _is_depthwise(program: Program, instr: Instr, inputs: str) -> bool:
    groups = instr.params["groups"]
    return groups > 1 and groups == program.values[instr.operands[inputs]].shape[2]


def _depthwise_products(instr: Instr, outputs: int) -> float:
    pairs = (instr.params["kw"] + 2) // 2  # of taps that meet two outputs
    loads = pairs if instr.params["kw"] <= 3 else 2 * pairs
    return outputs * instr.params["kh"] * (2 * pairs + loads) / 2


def _convolution(program: Program, instr: Instr, inputs: str, results: str) -> float:
    read, made = (program.values[instr.operands[slot]].count for slot in (inputs, results))
    if _is_depthwise(program, instr, inputs):
        windows = made if results == "y" else read
        return _depthwise_products(instr, windows) + WIDEN_PLANE * read + RESULT * made
    return PRODUCT * macs(program, instr) + WIDEN * read + RESULT * made


def _conv2d(program: Program, instr: Instr) -> float:
    return _convolution(program, instr, "x", "y")


def _conv2d_dx(program: Program, instr: Instr) -> float:
    return _convolution(program, instr, "e_y", "e_x")


def _conv2d_dw(program: Program, instr: Instr) -> float:
    read, made = (program.values[instr.operands[slot]].count for slot in ("x", "w"))
    return PRODUCT * macs(program, instr) + WIDEN * read + RESULT * made


_RULES: dict[str, Callable[[Program, Instr], float]] = {
    "conv2d": _conv2d,
    "conv2d_dx": _conv2d_dx,
    "conv2d_dw": _conv2d_dw,
}


def limit(program: Program, instr: Instr) -> int:
    """Instructions that the model says are needed; 0 for what it does not know."""
    rule = _RULES.get(instr.op)
    return 0 if rule is None else round(rule(program, instr))
