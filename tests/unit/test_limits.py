"""The least instructions that the model allows, against counting by hand."""

from __future__ import annotations

from tests.networks import residual_network

from mcutrain.compile import compile_program
from mcutrain.ir.limits import limit
from mcutrain.plan.scheme import resolve_scheme


def test_limits_of_a_small_network() -> None:
    graph = residual_network(8)  # maps: 4x4 after the stem, 2x2 in the end
    program = compile_program(graph, resolve_scheme(graph, "full")).program
    limits = {(i.op, i.layer): limit(program, i) for i in program.instrs}
    pixels, wide, narrow = 16, 16, 8
    assert limits["conv2d", "b1.pw1"] == pixels * (13 * wide * narrow // 16 + narrow + 7 * wide)
    planes = 2 * pixels * wide + 7 * pixels * wide
    assert limits["conv2d", "b1.dw"] == pixels * wide * 9 + planes  # 18 for two outputs' taps
    assert limits["conv2d_dx", "b1.dw"] == limits["conv2d", "b1.dw"]
    updated = pixels * 13 * wide * narrow // 16 + pixels * narrow + 7 * wide * narrow
    assert limits["conv2d_dw", "b1.pw1"] == updated
    assert limits["add", "b1.add"] == limits["head", "classifier"] == 0
