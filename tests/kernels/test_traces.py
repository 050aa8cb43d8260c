"""Ten training steps by the C executor and by the firmware's app, against the numpy reference.

`make sanitize` runs this with AddressSanitizer and UndefinedBehaviorSanitizer; tests/emulated has
the same for the boards.
"""

from __future__ import annotations

import numpy as np
import pytest
from tests.traces import (
    PROGRAMS,
    SKIPPING,
    assert_is_the_reference,
    by_device,
    by_engine,
    program,
    reference,
)

from mcutrain.devices import open_device
from mcutrain.engine import Engine
from mcutrain.errors import UsageError
from mcutrain.image.pack import pack
from mcutrain.ir.instructions import INSTRUCTIONS


@pytest.mark.parametrize("name", [*PROGRAMS, *SKIPPING])
def test_t06_ten_steps_of_the_engine_are_those_of_the_reference(name: str) -> None:
    assert_is_the_reference(name, by_engine(name))


@pytest.mark.parametrize("name", [*PROGRAMS, *SKIPPING])
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


def test_work_is_skipped_where_there_is_none() -> None:
    """An error of zeros ends its branch, a learnt sample ends the step."""
    backward = {n: len(program(n).program.instrs) - program(n).program.forward for n in SKIPPING}
    skipped = {name: [step.skipped for step in reference(name).steps] for name in SKIPPING}
    zero_head = [i.op for i in program("zero-head").program.instrs if "e_y" in i.operands]
    assert skipped["zero-head"] == [len(zero_head)] + 9 * [0]
    dead = [i for i in program("dead-branch").program.instrs if i.layer == "dw"]
    assert skipped["dead-branch"] == 10 * [sum("e_y" in i.operands for i in dead)]
    assert set(skipped["learnt"]) == {0, backward["learnt"] - 1}
    assert all(step.skipped == 0 for name in PROGRAMS for step in reference(name).steps)


def test_a_learnt_sample_changes_only_the_count_of_steps() -> None:
    engine = Engine(pack(program("mlp")))
    sample = bytes(engine.image.inputs[0].count)
    before = np.frombuffer(engine.state, np.uint8)
    loss = engine.train(sample, 1, 0.1, 0.1, learnt=100.0).loss
    changed = np.flatnonzero(before != np.frombuffer(engine.state, np.uint8))
    rng = next(t for t in engine.image.tensors if t.name == "rng")
    assert list(changed) == [rng.offset + 4]
    engine.train(sample, 1, 0.1, 0.1, learnt=loss)  # not below it: trained on
    assert (before != np.frombuffer(engine.state, np.uint8)).sum() > 1


@pytest.mark.parametrize("learnt", [-1.0, float("nan"), float("inf")])
def test_a_loss_that_cannot_be_is_refused(learnt: float) -> None:
    engine = Engine(pack(program("mlp")))
    state = engine.state
    with pytest.raises(UsageError, match="loss limit is negative"):
        engine.train(bytes(engine.image.inputs[0].count), 1, 0.1, 0.1, learnt=learnt)
    assert engine.state == state


def test_the_residual_trace_streams_its_input() -> None:
    instrs = program("streamed-residual").program.instrs
    assert any(i.op == "segment" for i in instrs)


def test_t45_the_deep_network_has_more_than_thirty_layers() -> None:
    layers = {i.layer for i in program("t45-deep").program.instrs if i.op in ("conv2d", "add")}
    assert len(layers) > 30
