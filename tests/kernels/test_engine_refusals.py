"""What the verifier refuses, one rule at a time: other tensors in a slot, other shapes, by hand."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest
from tests.image_cases import RawEngine, packed
from tests.networks import NetworkBuilder

from mcutrain.compile import compile_program
from mcutrain.image import format as fmt
from mcutrain.image.pack import pack, seal
from mcutrain.image.status import STATUSES
from mcutrain.image.unpack import Image, unpack
from mcutrain.ir.instructions import INSTRUCTIONS
from mcutrain.ir.program import (
    ARENA,
    CONST,
    STATE,
    CompiledProgram,
    Instr,
    MemoryPlan,
    Program,
    Value,
    value_bytes,
)
from mcutrain.plan.scheme import resolve_scheme

MUTATED = ("residual-full-4", "branches-8", "residual-last:2-0")
BLOCK = 16384
# Operands that may have another number of elements if window, groups or channels agree with it.
MAPS = {
    "conv2d": {"x", "y"},
    "avgpool": {"x", "y"},
    "rescale": {"x", "y"},
    "gather": {"x"},
    "conv2d_dx": {"e_x", "e_y"},
    "avgpool_dx": {"e_x", "e_y"},
    "error_sum": {"e0", "e1", "e_x"},
    "conv2d_dw": {"x", "e_y"},
    "conv2d_db": {"e_y"},
    "segment": {"order"},
}


def _attempt(image: bytes) -> int:
    engine = RawEngine(image, BLOCK)
    assert engine.status == 0 or engine.status in STATUSES
    if engine.status == 0:
        assert set(engine.run()) <= {0, -1, -14}
    engine.check()
    return engine.status


def _poke(image: bytes, fields: dict[int, tuple[str, float]]) -> bytes:
    """Numbers (struct code, value) put at their places."""
    bad = bytearray(image)
    for at, (code, value) in fields.items():
        struct.pack_into("<" + code, bad, at, value)
    return seal(bytes(bad))


def _instruction_at(image: bytes, index: int, field: str) -> int:
    start = fmt.HEADER.unpack(image)["program_offset"] + index * fmt.INSTRUCTION.size
    return int(start + fmt.INSTRUCTION.offset(field))


def _tensor_at(image: bytes, index: int, field: str) -> int:
    start = fmt.HEADER.unpack(image)["tensors_offset"] + index * fmt.TENSOR.size
    return int(start + fmt.TENSOR.offset(field))


def _slot(image: bytes, index: int, op: str, slot: str) -> int:
    return _instruction_at(image, index, "tensors") + 2 * fmt.slot_index(INSTRUCTIONS[op], slot)


def _first(image: Image, op: str, *slots: str) -> int:
    """The first instruction of that kind with those optional slots."""
    return next(
        i for i, x in enumerate(image.program) if x.op == op and set(slots) <= set(x.operands)
    )


@pytest.mark.parametrize("name", MUTATED)
def test_every_tensor_of_its_type_in_every_slot_is_refused_or_harmless(name: str) -> None:
    data = packed(name)
    image = unpack(data)
    statuses = set()
    for index, instr in enumerate(image.program):
        for slot in instr.operands:
            at = _slot(data, index, instr.op, slot)
            own = image.tensors[instr.operands[slot]]
            # Those of another type are refused at a glance: one of them is enough.
            alike = [i for i, t in enumerate(image.tensors) if t.dtype == own.dtype]
            other = next(i for i, t in enumerate(image.tensors) if t.dtype != own.dtype)
            for tensor in (*alike, other, fmt.NONE):
                statuses.add(_attempt(_poke(data, {at: ("H", tensor)})))
    assert statuses >= {0, -29, -30, -35, -36}


@pytest.mark.parametrize("name", [*MUTATED, "pools-full-8"])
def test_an_operand_of_another_size_is_refused_for_its_shape(name: str) -> None:
    data = packed(name)
    image = unpack(data)
    tried = set()
    for index, instr in enumerate(image.program):
        scratch = {s.name for s in INSTRUCTIONS[instr.op].slots if s.scratch}  # of any size
        for slot in instr.operands.keys() - MAPS.get(instr.op, set()) - scratch:
            own = image.tensors[instr.operands[slot]]
            kind = (own.dtype, own.space, own.error is None)
            at = _slot(data, index, instr.op, slot)
            for i, t in enumerate(image.tensors):
                alike = (t.dtype, t.space, t.error is None) == kind and not t.is_ring
                if alike and t.count != own.count:
                    engine = RawEngine(_poke(data, {at: ("H", i)}), BLOCK)
                    assert (engine.status, engine.place[0]) == (-30, index)
                    tried.add((instr.op, slot))
    assert len(tried) > 20


@pytest.mark.parametrize("name", MUTATED)
def test_every_tensor_of_another_shape_is_refused_or_harmless(name: str) -> None:
    """With the bytes of that shape, so that only the instructions can mind."""
    data = packed(name)
    statuses = set()
    for index, tensor in enumerate(unpack(data).tensors):
        h, w, c = tensor.shape
        shapes = {(h + i, w + j, c + k) for i in (-1, 0, 1) for j in (-1, 0, 1) for k in (-1, 0, 1)}
        shapes |= {(h, c, w), (w, h, c), (c, w, h), (1, 1, h * w * c), (h * w * c, 1, 1)}
        for shape in shapes - {(h, w, c)}:
            if min(shape) < 1:
                continue
            fields: dict[int, tuple[str, float]] = {
                _tensor_at(data, index, axis): ("H", size)
                for axis, size in zip("hwc", shape, strict=True)
            }
            size = value_bytes(tensor.dtype, shape[0] * shape[1] * shape[2])
            fields[_tensor_at(data, index, "bytes")] = ("I", size)
            statuses.add(_attempt(_poke(data, fields)))
    assert statuses >= {0, -24, -25, -26, -30}


def test_the_inputs_of_an_error_sum_come_without_gaps() -> None:
    data = packed("branches-8")
    image = unpack(data)
    index = _first(image, "error_sum", "e1")
    moved = image.program[index].operands["e1"]
    fields: dict[int, tuple[str, float]] = {
        _slot(data, index, "error_sum", "e1"): ("H", fmt.NONE),
        _slot(data, index, "error_sum", "e2"): ("H", moved),
    }
    assert _attempt(_poke(data, fields)) == -29


def test_a_shift_that_lets_errors_overflow_is_refused() -> None:
    """K = 576 leaves 7 fractional bits (SPEC-arithmetic, section 6): 8 are too many."""
    b = NetworkBuilder((4, 4, 2), 1, "wide")
    x = b.conv("first", "x", 3)
    x = b.conv("wide", x, 64, 3, 1, 1)
    graph = b.head(b.global_pool("pool", x), 2)
    data = pack(compile_program(graph, resolve_scheme(graph, "full", 8)))
    image = unpack(data)
    index = _first(image, "conv2d_dx")
    assert image.program[index].params["f"] == 7
    at = _instruction_at(data, index, "params")
    at += 4 * INSTRUCTIONS["conv2d_dx"].params.index("f")
    assert _attempt(data) == 0
    assert _attempt(_poke(data, {at: ("i", 8)})) == -31


def test_a_shift_that_lets_a_mean_overflow_is_refused() -> None:
    """17 * 17 * 255 * 2^15 is more than an int32 holds; 2^14 times is not."""
    b = NetworkBuilder((17, 17, 1), 1, "mean")
    graph = b.head(b.global_pool("pool", b.conv("first", "x", 2)), 2)
    data = pack(compile_program(graph, resolve_scheme(graph, "full", 8)))
    at = _instruction_at(data, _first(unpack(data), "avgpool"), "params")
    at += 4 * INSTRUCTIONS["avgpool"].params.index("shift")
    assert _attempt(_poke(data, {at: ("i", 14)})) == 0
    assert _attempt(_poke(data, {at: ("i", 15)})) == -31


def test_channels_of_a_weight_update_are_named_where_they_must_be() -> None:
    """A partly trained depthwise convolution has a table of its channels, a dense one has none."""
    data = packed("branches-8")
    image = unpack(data)
    table = image.program[_first(image, "conv2d_dw", "chan")].operands["chan"]
    for index, instr in enumerate(image.program):
        if instr.op == "conv2d_dw":
            value = fmt.NONE if "chan" in instr.operands else table
            at = _slot(data, index, "conv2d_dw", "chan")
            engine = RawEngine(_poke(data, {at: ("H", value)}), BLOCK)
            assert (engine.status, *engine.place) == (
                -29,
                index,
                fmt.slot_index(INSTRUCTIONS["conv2d_dw"], "chan"),
            )


# ---- programs by hand ----


def _program(values: list[Value], instrs: list[Instr], forward: int) -> CompiledProgram:
    """Every value in bytes of its own."""
    offsets: dict[str, int] = {}
    sizes = {ARENA: 0, STATE: 0, CONST: 0}
    for value in values:
        offsets[value.name] = sizes[value.space]
        sizes[value.space] += (value.nbytes + 3) // 4 * 4
    program = Program(
        "hand", {v.name: v for v in values}, tuple(instrs), forward, ("x",), "logits", 0
    )
    memory = MemoryPlan((), {}, sizes[ARENA], 0)
    return CompiledProgram(program, memory, offsets, sizes[STATE], sizes[CONST], bytes(16))


def _floats(name: str, shape: tuple[int, int, int], space: str) -> Value:
    data = None if space == ARENA else np.zeros(shape, np.float32)
    return Value(name, shape, "f32", space, data=data)


def _classifier(classes: int = 2) -> CompiledProgram:
    values = [
        Value("x", (1, 1, 1), "s8", scale=1.0),
        Value("rng", (1, 1, 2), "u32", STATE, data=np.zeros(2, np.uint32)),
        _floats("w", (classes, 1, 1), STATE),
        _floats("b", (1, 1, classes), STATE),
        _floats("logits", (1, 1, classes), ARENA),
        _floats("df", (1, 1, classes), ARENA),
    ]
    weights = {"w": "w", "b": "b"}
    return _program(
        values,
        [
            Instr("head", "c", {"x": "x", "logits": "logits"} | weights),
            Instr("loss", "c", {"logits": "logits", "df": "df"}),
            Instr("head_dw", "c", {"x": "x", "df": "df"} | weights),
        ],
        1,
    )


def _with_instrs(compiled: CompiledProgram, *order: int, forward: int) -> bytes:
    instrs = tuple(compiled.program.instrs[i] for i in order)
    return pack(
        replace(compiled, program=replace(compiled.program, instrs=instrs, forward=forward))
    )


def test_a_classifier_made_by_hand_runs() -> None:
    assert _attempt(pack(_classifier())) == 0
    assert _attempt(_with_instrs(_classifier(), 0, forward=1)) == 0


@pytest.mark.parametrize(
    ("order", "forward", "status"),
    [
        ((0, 1, 2), 2, -37),  # a loss in the forward pass
        ((0, 1, 2), 3, -37),  # an update in the forward pass
        ((0, 2, 1), 1, -36),  # an update before the loss: df is not there yet
        ((0, 1, 2, 1), 1, -37),  # two losses
        ((0, 1, 2, 0), 1, -37),  # forward instructions may be repeated, the head may not
        ((0, 0, 1), 0, -24),  # no forward pass
    ],
)
def test_the_order_of_instructions(order: tuple[int, ...], forward: int, status: int) -> None:
    assert _attempt(_with_instrs(_classifier(), *order, forward=forward)) == status


def test_more_classes_than_the_kernels_count_are_refused() -> None:
    compiled = _classifier()
    many = (2, 1, 40000)
    values = [
        *compiled.program.values.values(),
        _floats("many.w", many, CONST),
        _floats("many.b", many, CONST),
        _floats("many", many, ARENA),
    ]
    operands = {"x": "x", "w": "many.w", "b": "many.b", "logits": "many"}
    instrs = [Instr("head", "many", operands), *compiled.program.instrs]
    engine = RawEngine(pack(_program(values, instrs, 2)), 2**20)
    assert (engine.status, engine.place[0]) == (-30, 0)
    small = [
        replace(v, shape=(1, 1, 9), data=None if v.data is None else np.zeros(9, np.float32))
        if v.name.startswith("many")
        else v
        for v in values
    ]
    assert _attempt(pack(_program(small, instrs, 2))) == 0


def test_overlapping_states_are_refused() -> None:
    compiled = _classifier()
    offsets = dict(compiled.value_offsets)
    offsets["b"] = offsets["w"] + 4
    assert _attempt(pack(replace(compiled, value_offsets=offsets))) == -26


def test_a_buffer_that_overwrites_a_live_one_is_refused() -> None:
    """A wrong memory plan: df lies half over the logits that it is computed from."""
    compiled = _classifier()
    offsets = dict(compiled.value_offsets)
    offsets["df"] = offsets["logits"] + 4
    assert _attempt(pack(replace(compiled, value_offsets=offsets))) == -35
    offsets = dict(compiled.value_offsets)
    offsets["x"] = offsets["df"]  # head_dw would read df as x
    assert _attempt(pack(replace(compiled, value_offsets=offsets))) == -36
    offsets = dict(compiled.value_offsets)
    offsets["df"] = offsets["logits"]  # in place
    assert _attempt(pack(replace(compiled, value_offsets=offsets))) == 0


@pytest.mark.parametrize("field", ["copied", "filled", "value"])
def test_runs_that_do_not_make_up_the_state_are_refused(field: str) -> None:
    data = packed("residual-full-8")
    header = fmt.HEADER.unpack(data)
    at = header["initial_offset"] + fmt.RUN.offset(field)
    (old,) = struct.unpack_from("<I", data, at)
    for value in (old + 1, old + 4, 2**31, 2**32 - 1, 2**32 - 4, 2**32 - fmt.RUN.size):
        bad = _poke(data, {at: ("I", value if field != "value" else value | 0x100)})
        assert _attempt(bad) == -24
    for size in (0, 4, header["initial_bytes"] - 4, header["initial_bytes"] + 4):
        assert _attempt(_poke(data, {fmt.HEADER.offset("initial_bytes"): ("I", size)})) == -24
