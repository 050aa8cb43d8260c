"""Row by row execution: the same bytes as whole maps, in less memory; bad orders are refused."""

from __future__ import annotations

import struct
from dataclasses import replace
from itertools import groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.networks import NetworkBuilder, residual_network

from mcutrain.compile import Savings, compile_program, layout
from mcutrain.engine import Engine, verify
from mcutrain.errors import ImageError
from mcutrain.image.pack import pack, seal
from mcutrain.image.status import ImageRefusedError
from mcutrain.image.unpack import unpack
from mcutrain.ir.graph import Graph
from mcutrain.ir.instructions import INPUT_ROW
from mcutrain.ir.program import CompiledProgram
from mcutrain.ir.reference.machine import Machine
from mcutrain.plan.scheme import resolve_scheme, trainable_layers


@st.composite
def networks(draw: st.DrawFn) -> Graph:
    """Up to twelve layers: convolutions of kernel 1 to 7, strides, pools, residuals, odd sizes."""
    size = draw(st.integers(5, 65))
    b = NetworkBuilder((size, size + draw(st.integers(0, 3)), 2), draw(st.integers(0, 99)))
    x = "x"
    for i in range(draw(st.integers(2, 12))):
        h, w, c = b.tensors[x].shape
        kind = draw(st.sampled_from(("conv", "dw", "block", "avgpool", "maxpool", "clamp")))
        k = draw(st.integers(1, min(7, h, w)))
        pad = draw(st.integers(0, k - 1))
        stride = draw(st.integers(1, 2))
        if kind == "conv":
            x = b.conv(f"l{i}", x, draw(st.integers(1, 6)), k, stride, pad, relu=True)
        elif kind == "dw" and c > 1:
            x = b.conv(f"l{i}", x, c, k, stride, pad, groups=c)
        elif kind == "block" and k % 2:
            y = b.conv(f"l{i}a", x, 5, relu=True)
            y = b.conv(f"l{i}b", y, 5, k, 1, k // 2, groups=5, relu=True)
            x = b.add(f"l{i}", x, b.conv(f"l{i}c", y, c))
        elif kind in ("avgpool", "maxpool"):
            x = b.pool(kind, f"l{i}", x, k, stride, pad)
        elif kind == "clamp":
            x = b.clamp(f"l{i}", x, -100, 90)
    return b.head(b.global_pool("pool", x), 3)


def _both(graph: Graph, scheme: str) -> tuple[CompiledProgram, CompiledProgram]:
    kind, _, count = scheme.partition(":")
    if count:
        scheme = f"{kind}:{min(int(count), len(trainable_layers(graph)))}"
    plan = resolve_scheme(graph, scheme)
    return compile_program(graph, plan), compile_program(graph, plan, savings=Savings(rows=False))


def _same_bytes(graph: Graph, scheme: str, steps: int) -> None:
    by_rows, whole = _both(graph, scheme)
    engines = Engine(pack(by_rows)), Engine(pack(whole))
    rng = np.random.default_rng(1)
    for step in range(steps):
        sample = rng.integers(-128, 128, graph.tensors["x"].size).astype(np.int8)
        a, b = (e.train(sample, step % 3, 0.02, 0.02) for e in engines)
        assert a == b
    assert engines[0].state == engines[1].state
    assert engines[0].high_water() <= by_rows.pool_bytes


@settings(max_examples=60, deadline=None, derandomize=True)
@given(networks(), st.sampled_from(("head", "bias:2", "last:2", "full")))
def test_rows_and_whole_maps_give_the_same_bytes(graph: Graph, scheme: str) -> None:
    _same_bytes(graph, scheme, 3)


@pytest.mark.slow
@settings(max_examples=1000, deadline=None, derandomize=True)
@given(networks(), st.sampled_from(("head", "bias:2", "last:2", "full")))
def test_twenty_steps_of_many_networks(graph: Graph, scheme: str) -> None:
    _same_bytes(graph, scheme, 20)


@pytest.mark.parametrize("size", [23, 24, 31])
def test_windows_in_batches_of_rows_give_the_same_bytes(size: int) -> None:
    graph = residual_network(size)
    program = _both(graph, "last:2")[0].program
    at = next(i for i, instr in enumerate(program.instrs) if instr.op == "segment")
    order = program.values[program.instrs[at].operands["order"]].data
    assert order is not None
    members = program.instrs[at + 1 :]
    depthwise = next(i for i, instr in enumerate(members) if instr.params.get("groups", 1) > 1)
    runs = [len(list(g)) for member, g in groupby(order.reshape(-1)) if member == depthwise]
    assert runs[:-1] == [4] * (len(runs) - 1)  # the last ones may be fewer
    _same_bytes(graph, "last:2", 5)


def test_a_streamed_step_is_that_of_the_reference() -> None:
    graph = residual_network(24)
    by_rows, whole = _both(graph, "head")
    assert by_rows.memory.arena_bytes < whole.memory.arena_bytes / 2
    engine, machine = Engine(pack(by_rows)), Machine(by_rows.program)
    rng = np.random.default_rng(0)
    for step in range(5):
        sample = rng.integers(-128, 128, 24 * 24 * 3).astype(np.int8)
        with engine.trace_crcs() as crcs:
            engine.train(sample, step % 4, 0.1, 0.1)
        machine.train(sample, step % 4, 0.1, 0.1)
        wanted = {i: c for i, c in enumerate(machine.crcs_per_instruction) if c is not None}
        assert crcs == wanted
    assert engine.state == machine.state_bytes(by_rows)


def test_rows_are_used_only_where_they_save_memory() -> None:
    by_rows, whole = _both(residual_network(16), "full")
    assert by_rows.memory.arena_bytes == whole.memory.arena_bytes
    assert not any(i.op == "segment" for i in by_rows.program.instrs)


def _streamed() -> CompiledProgram:
    return _both(residual_network(16), "head")[0]


def _order(compiled: CompiledProgram) -> tuple[str, np.ndarray]:
    segment = compiled.program.instrs[0]
    assert segment.op == "segment"
    name = segment.operands["order"]
    data = compiled.program.values[name].data
    assert data is not None
    return name, data.copy()


def _with_order(compiled: CompiledProgram, order: np.ndarray) -> bytes:
    name, _ = _order(compiled)
    value = replace(compiled.program.values[name], data=order, shape=(1, 1, order.size))
    program = replace(compiled.program, values={**compiled.program.values, name: value})
    return pack(layout(program, compiled.model_hash))


def _refusal(image: bytes) -> int | None:
    """The status with which the executor refuses an image, None if it does not."""
    try:
        verify(image)
    except ImageRefusedError as error:
        return error.status
    return None


def test_every_swap_of_neighbours_is_refused_or_right() -> None:
    """Exchanging two steps either changes nothing that matters, or the verifier sees it."""
    compiled = _streamed()
    _, order = _order(compiled)
    sample = np.random.default_rng(3).integers(-128, 128, 16 * 16 * 3).astype(np.int8)
    wanted = Engine(pack(compiled)).forward(sample).tobytes()
    refused = 0
    for i in range(len(order) - 1):
        changed = order.copy()
        changed[[i, i + 1]] = changed[[i + 1, i]]
        image = _with_order(compiled, changed)
        if _refusal(image) is None:
            assert Engine(image).forward(sample).tobytes() == wanted
        else:
            assert _refusal(image) == -38
            refused += 1
    assert refused > len(order) / 3


@pytest.mark.parametrize("what", ["missing", "extra", "unknown member", "input row"])
def test_an_order_that_is_not_whole_is_refused(what: str) -> None:
    compiled = _streamed()
    _, order = _order(compiled)
    members = compiled.program.instrs[0].params["members"]
    changed = {
        "missing": order[:-1],
        "extra": np.append(order, order[-1]),
        "unknown member": np.where(order == members - 1, members, order),
        "input row": np.append(order, np.uint8(INPUT_ROW)),
    }[what].astype(np.uint8)
    assert _refusal(_with_order(compiled, changed)) == -38


def test_a_ring_of_one_row_less_is_refused() -> None:
    compiled = _streamed()
    values = compiled.program.values
    rings = [n for n, v in values.items() if v.rows is not None and v.rows > 1]
    assert rings
    for name in rings:
        rows = values[name].rows
        assert rows is not None
        smaller = {**values, name: replace(values[name], rows=rows - 1)}
        program = replace(compiled.program, values=smaller)
        assert _refusal(pack(layout(program, compiled.model_hash))) == -38, name


def test_members_that_share_memory_are_refused() -> None:
    compiled = _streamed()
    image = pack(compiled)
    unpacked = unpack(image)
    tensors = unpacked.header["tensors_offset"]
    rings = [i for i, t in enumerate(unpacked.tensors) if t.is_ring]
    first, second = rings[0], rings[1]
    moved = bytearray(image)
    offset = unpacked.tensors[first].offset
    struct.pack_into("<I", moved, tensors + 24 * second + 12, offset)
    with pytest.raises(ImageError):
        verify(seal(bytes(moved)))


def test_input_in_pieces_of_every_size() -> None:
    compiled = _streamed()
    sample = np.random.default_rng(5).integers(-128, 128, 16 * 16 * 3).astype(np.int8)
    engine = Engine(pack(compiled))
    wanted = engine.forward(sample).tobytes()
    for size in (1, 7, 47, 48, 49, 500, 768):
        parts = [sample[i : i + size] for i in range(0, sample.size, size)]
        assert engine.forward_pieces(parts).tobytes() == wanted
