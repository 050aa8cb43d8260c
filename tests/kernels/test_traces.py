"""Ten training steps by the C executor and by the firmware's app, against the numpy reference.

`make sanitize` runs this with AddressSanitizer and UndefinedBehaviorSanitizer; tests/emulated has
the same for the boards.
"""

from __future__ import annotations

import numpy as np
import pytest
from tests.traces import (
    PROGRAMS,
    assert_is_the_reference,
    by_device,
    by_engine,
    program,
    reference,
)

from mcutrain.devices import open_device
from mcutrain.engine import Engine
from mcutrain.image.pack import pack
from mcutrain.ir.instructions import INSTRUCTIONS


@pytest.mark.parametrize("name", PROGRAMS)
def test_t06_ten_steps_of_the_engine_are_those_of_the_reference(name: str) -> None:
    assert_is_the_reference(name, by_engine(name))


@pytest.mark.parametrize("name", PROGRAMS)
def test_t06_ten_steps_of_the_app_are_those_of_the_reference(name: str) -> None:
    with open_device("host") as session:
        session.open(pack(program(name)))
        assert_is_the_reference(name, by_device(name, session))


def test_the_traces_use_every_instruction() -> None:
    assert {i.op for name in PROGRAMS for i in program(name).program.instrs} == set(INSTRUCTIONS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_steps_do_something(name: str) -> None:
    """Losses, errors and every trained tensor change, or equal traces would mean little."""
    compiled, trace = program(name), reference(name)
    assert len({s.loss_bits for s in trace.steps}) == len(trace.steps)
    for index, instr in enumerate(compiled.program.instrs):
        if instr.op.endswith(("_dx", "_dw", "_db")) or instr.op == "error_sum":
            assert len({s.crcs[index] for s in trace.steps}) > 1, (instr.op, instr.layer)
    before = np.frombuffer(Engine(pack(compiled)).state, np.uint8)
    after = np.frombuffer(trace.state, np.uint8)
    for value in compiled.program.values.values():
        if value.space == "state" and value.view_of is None:
            at = compiled.value_offsets[value.name]
            part = slice(at, at + value.nbytes)
            assert (before[part] != after[part]).any(), value.name


def test_the_residual_trace_streams_its_input() -> None:
    instrs = program("streamed-residual").program.instrs
    assert any(i.op == "segment" for i in instrs)


def test_t45_the_deep_network_has_more_than_thirty_layers() -> None:
    layers = {i.layer for i in program("t45-deep").program.instrs if i.op in ("conv2d", "add")}
    assert len(layers) > 30
