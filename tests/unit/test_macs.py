"""Counts of multiply-accumulates against counting by hand."""

from __future__ import annotations

from tests.networks import residual_network

from mcutrain.compile import compile_program
from mcutrain.ir.instructions import INSTRUCTIONS
from mcutrain.ir.macs import DW, DX, FORWARD, REST, macs, phase
from mcutrain.ir.program import Instr
from mcutrain.plan import Plan
from mcutrain.plan.scheme import resolve_scheme


def test_every_instruction_belongs_to_a_phase() -> None:
    for name in INSTRUCTIONS:
        assert phase(Instr(name, "layer", {})) in (FORWARD, DX, DW, REST)


def test_counts_of_a_small_network() -> None:
    graph = residual_network(8)  # maps: 4x4 after the stem, 2x2 in the end
    program = compile_program(graph, resolve_scheme(graph, "full")).program
    counts = {(i.op, i.layer): macs(program, i) for i in program.instrs}
    assert counts["conv2d", "stem"] == 16 * 8 * 27
    assert counts["conv2d", "b1.dw"] == counts["conv2d_dx", "b1.dw"] == 16 * 16 * 9
    assert counts["conv2d", "b1.pw1"] == counts["conv2d_dw", "b1.pw1"] == 16 * 16 * 8
    assert counts["conv2d_dx", "b2.dw"] == 4 * 24 * 9
    assert counts["head", "classifier"] == counts["head_dw", "classifier"] == 4 * 12
    assert counts["add", "b1.add"] == counts["conv2d_db", "b2.dw"] == 0


def test_a_partly_trained_layer_counts_its_trained_channels() -> None:
    program = compile_program(residual_network(8), Plan(weights={"b1.pw1": (1, 4)})).program
    (update,) = (i for i in program.instrs if i.op == "conv2d_dw")
    assert macs(program, update) == 16 * 16 * 2
