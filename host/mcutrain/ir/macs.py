"""Multiply-accumulates of an instruction, counted as the literature does: padding included."""

from __future__ import annotations

from collections.abc import Callable

from mcutrain.ir.program import Instr, Program, Value

FORWARD, DX, DW, REST = "forward", "dX", "dW + update", "rest"


def _slot(program: Program, instr: Instr, name: str) -> Value:
    return program.values[instr.operands[name]]


def _pixels(value: Value) -> int:
    return value.shape[0] * value.shape[1]


def _taps(instr: Instr) -> int:
    return instr.params["kh"] * instr.params["kw"]


def _conv2d(program: Program, instr: Instr) -> int:
    y = _slot(program, instr, "y")
    c_in = _slot(program, instr, "x").shape[2]
    return y.count * _taps(instr) * c_in // instr.params["groups"]


def _conv2d_dx(program: Program, instr: Instr) -> int:
    e_y = _slot(program, instr, "e_y")
    c_in = _slot(program, instr, "e_x").shape[2]
    return e_y.count * _taps(instr) * c_in // instr.params["groups"]


def _conv2d_dw(program: Program, instr: Instr) -> int:
    return _pixels(_slot(program, instr, "e_y")) * _slot(program, instr, "w").count


def _classifier(program: Program, instr: Instr) -> int:
    return _slot(program, instr, "w").count


_RULES: dict[str, tuple[str, Callable[[Program, Instr], int] | None]] = {
    "conv2d": (FORWARD, _conv2d),
    "add": (FORWARD, None),
    "avgpool": (FORWARD, None),
    "maxpool": (FORWARD, None),
    "rescale": (FORWARD, None),
    "gather": (FORWARD, None),
    "segment": (FORWARD, None),
    "head": (FORWARD, _classifier),
    "loss": (REST, None),
    "head_dx": (DX, _classifier),
    "head_dw": (DW, _classifier),
    "conv2d_dx": (DX, _conv2d_dx),
    "avgpool_dx": (DX, None),
    "maxpool_dx": (DX, None),
    "error_sum": (DX, None),
    "conv2d_dw": (DW, _conv2d_dw),
    "conv2d_db": (DW, None),
}


def phase(instr: Instr) -> str:
    """The part of a training step that an instruction belongs to."""
    return _RULES[instr.op][0]


def macs(program: Program, instr: Instr) -> int:
    """Multiply-accumulates of one instruction; 0 for what only adds, compares or copies."""
    rule = _RULES[instr.op][1]
    return 0 if rule is None else rule(program, instr)
