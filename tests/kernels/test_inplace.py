"""In place: the error of a depthwise convolution's input over that of its output, bit for bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.networks import NetworkBuilder

from mcutrain.compile import compile_program, layout
from mcutrain.engine import Engine, verify
from mcutrain.image.pack import pack
from mcutrain.image.status import ImageRefusedError
from mcutrain.ir.graph import Graph
from mcutrain.ir.program import ARENA, CompiledProgram, Value
from mcutrain.ir.reference.machine import Machine
from mcutrain.plan import Plan


def _network(kernel: int | tuple[int, int], size: int, stride: int = 1) -> Graph:
    b = NetworkBuilder((size, size + 1, 3), 2, "depthwise")
    kh, kw = (kernel, kernel) if isinstance(kernel, int) else kernel
    pad = ((kh - 1) // 2, kw // 2, kh // 2, (kw - 1) // 2)
    x = b.conv("expand", "x", 10, relu=True)
    x = b.conv("dw", x, 10, kernel, stride, pad, groups=10, relu=True)
    return b.head(b.global_pool("pool", b.conv("project", x, 6)), 3)


def _compiled(graph: Graph, channels: tuple[int, ...] = ()) -> CompiledProgram:
    weights = {"dw": channels} if channels else {}
    return compile_program(graph, Plan(("expand",), weights))


def _together(compiled: CompiledProgram) -> bool:
    """Whether the two errors of the depthwise convolution share a buffer."""
    at = compiled.value_offsets
    return at["dw:0.error"] == at["expand:0.error"]


@pytest.mark.parametrize("size", [1, 4, 5, 9])
@pytest.mark.parametrize("kernel", [3, 5, 7, (2, 3), (1, 4)])
def test_the_bytes_are_those_of_the_reference(kernel: int | tuple[int, int], size: int) -> None:
    compiled = _compiled(_network(kernel, size))
    assert _together(compiled)
    engine, machine = Engine(pack(compiled)), Machine(compiled.program)
    rng = np.random.default_rng(0)
    for step in range(4):
        sample = rng.integers(-128, 128, size * (size + 1) * 3).astype(np.int8)
        got = engine.train(sample, step % 3, 0.05, 0.1)
        want = machine.train(sample, step % 3, 0.05, 0.1)
        assert (got.saturated, got.clamped) == (want.saturated, want.clamped)
        assert engine.state == machine.state_bytes(compiled)


def test_it_is_not_done_where_the_error_is_read_again() -> None:
    """Its own weight update comes after: the error of the output must survive."""
    assert not _together(_compiled(_network(3, 6), (1, 2, 7)))


def test_it_is_not_done_with_a_stride() -> None:
    assert not _together(_compiled(_network(3, 6, 2)))


def _status(compiled: CompiledProgram, values: dict[str, Value]) -> int | None:
    program = replace(compiled.program, values={**compiled.program.values, **values})
    try:
        verify(pack(replace(layout(program, compiled.model_hash), program=program)))
    except ImageRefusedError as error:
        return error.status
    return None


def test_too_little_scratch_is_refused() -> None:
    compiled = _compiled(_network(3, 6))
    scratch = compiled.program.values["dw.conv2d_dx.scratch"]
    assert scratch.space == ARENA
    assert scratch.nbytes == 6 * 7
    assert _status(compiled, {}) is None
    assert _status(compiled, {scratch.name: replace(scratch, shape=(1, 1, 41))}) == -35
