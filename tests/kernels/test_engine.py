"""The executor against the numpy reference: the same bytes after every instruction."""

from __future__ import annotations

import gc
import signal

import numpy as np
import pytest
from tests.image_cases import CASES, case, packed, samples

from mcutrain.engine import Engine, HookEvent
from mcutrain.errors import InputError, UsageError
from mcutrain.image.status import DivergedError, ImageRefusedError
from mcutrain.ir.reference.machine import Machine


def _open_parts(engine: Engine, index: int) -> bool:
    """Whether an instruction wrote a part of a concatenation, whose other bytes are still open."""
    instr = engine.image.program[index]
    if instr.op != "rescale":
        return False
    x, y = (engine.image.tensors[instr.operands[s]].shape[2] for s in ("x", "y"))
    return instr.params["c0"] + x < y


@pytest.mark.parametrize("name", CASES)
def test_ten_steps_give_the_bytes_of_the_reference(name: str) -> None:
    compiled = case(name)
    engine, machine = Engine(packed(name)), Machine(compiled.program)
    want: dict[int, dict[str, bytes]] = {}
    machine.trace = lambda index, _instr, written: want.update({index: dict(written)})
    for sample, label in samples(compiled, 10):
        want.clear()
        expected = machine.train(sample, label, 0.05, 0.02)
        with engine.trace() as found:
            result = engine.train(sample, label, 0.05, 0.02)
        assert found.keys() == want.keys()
        for index in want:
            if not _open_parts(engine, index):
                assert found[index] == want[index], engine.image.program[index]
        assert result.loss_bits == expected.loss.view(np.uint32)
        assert (result.predicted, result.saturated, result.clamped) == (
            expected.predicted,
            expected.saturated,
            expected.clamped,
        )
    assert result.step == 10
    assert engine.state == machine.state_bytes(compiled)
    assert engine.state != Engine(packed(name)).state


@pytest.mark.parametrize("name", ["residual-full-8", "branches-4"])
def test_logits_and_crcs_are_those_of_the_reference(name: str) -> None:
    compiled = case(name)
    engine, machine = Engine(packed(name)), Machine(compiled.program)
    for sample, label in samples(compiled, 3):
        logits = engine.forward(sample)
        assert logits.tobytes() == machine.forward(sample).tobytes()
        with engine.trace_crcs() as crcs:
            engine.train(sample, label, 0.05, 0.02)
        machine.train(sample, label, 0.05, 0.02)
        for index, crc in enumerate(machine.crcs_per_instruction):
            assert crc is None or crcs[index] == crc


def test_forward_changes_no_state() -> None:
    engine = Engine(packed("branches-8"))
    before = engine.state
    engine.forward(samples(case("branches-8"), 1)[0][0])
    assert engine.state == before


def test_state_goes_out_and_in_again() -> None:
    name = "residual-full-4"
    compiled = case(name)
    first, second = Engine(packed(name)), Engine(packed(name))
    data = samples(compiled, 6)
    for sample, label in data[:3]:
        first.train(sample, label, 0.05, 0.02)
    second.state = first.state
    for sample, label in data[3:]:
        assert first.train(sample, label, 0.05, 0.02) == second.train(sample, label, 0.05, 0.02)
    assert first.state == second.state
    first.reset()
    assert first.state == Engine(packed(name)).state


def test_a_pushed_state_is_checked() -> None:
    name = "residual-full-4"
    engine = Engine(packed(name))
    initial = engine.state
    at = {t.name: t for t in engine.image.tensors if t.space == "state"}
    weights = next(t for t in at.values() if t.dtype == "s8" and t.shape != (1, 1, 1))
    bias = next(t for t in at.values() if t.dtype == "s32")
    for tensor, value in ((weights, b"\x80"), (bias, b"\xff\xff\xff\x7f")):
        bad = bytearray(initial)
        bad[tensor.offset : tensor.offset + len(value)] = value
        with pytest.raises(ImageRefusedError, match="layer"):
            engine.state = bytes(bad)
        assert engine.state == initial
    with pytest.raises(InputError, match="does not belong"):
        engine.state = initial[:-1]


def test_what_cannot_be_trained_changes_nothing() -> None:
    name = "residual-full-8"
    engine = Engine(packed(name))
    sample, label = samples(case(name), 1)[0]
    engine.train(sample, label, 0.05, 0.02)
    before = engine.state
    for bad_label in (4, -1, 2**33):
        with pytest.raises(UsageError, match="label"):
            engine.train(sample, bad_label, 0.05, 0.02)
    for lr, lr_head in ((-0.1, 0.1), (0.1, -0.1), (float("nan"), 0.1), (0.1, float("inf"))):
        with pytest.raises(UsageError, match="rate"):
            engine.train(sample, label, lr, lr_head)
    for bad in (sample[:-1], sample + b"\0", np.zeros((8, 8, 4), np.int8)):
        with pytest.raises(InputError, match="does not fit"):
            engine.train(bad, label, 0.05, 0.02)
    assert engine.state == before


def _with_weights(engine: Engine, weights: np.ndarray) -> None:
    head = next(i for i in engine.image.program if i.op == "head")
    w = engine.image.tensors[head.operands["w"]]
    state = bytearray(engine.state)
    state[w.offset : w.offset + w.nbytes] = weights.astype("<f4").tobytes()
    engine.state = bytes(state)


def _diverges(engine: Engine, sample: bytes, label: int) -> None:
    before = engine.state
    for _ in range(2):
        with pytest.raises(DivergedError, match="smaller --rate"):
            engine.train(sample, label, 0.05, 0.02)
        assert engine.state == before


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_a_logit_that_is_not_finite_stops_the_step(value: float) -> None:
    name = "residual-full-8"
    engine = Engine(packed(name))
    _with_weights(engine, np.full((4, 12), value))
    sample, label = samples(case(name), 1)[0]
    _diverges(engine, sample, label)
    with pytest.raises(DivergedError):
        engine.forward(sample)


def test_an_error_that_is_not_finite_stops_the_step() -> None:
    """The logits are finite, the sum of weights times their errors is not."""
    name = "residual-full-8"
    engine = Engine(packed(name))
    sample, label = samples(case(name), 1)[0]
    engine.forward(sample)
    head = next(i for i in engine.image.program if i.op == "head")
    x = engine.image.tensors[head.operands["x"]]
    feature = int(np.argmax(engine.tensor(x.name).reshape(-1)))
    assert engine.tensor(x.name).reshape(-1)[feature] > x.zero_point
    weights = np.zeros((4, 12), np.float32)
    weights[:, feature] = np.finfo(np.float32).max
    weights[label, feature] *= -1
    _with_weights(engine, weights)
    assert np.isfinite(engine.forward(sample)).all()
    _diverges(engine, sample, label)


@pytest.mark.parametrize("name", CASES)
def test_planned_memory_is_the_memory_used(name: str) -> None:
    """Not a byte less than planned, and not one of the memory behind it."""
    compiled = case(name)
    engine = Engine(packed(name), extra_memory=1000)
    assert engine.block_bytes == compiled.pool_bytes + 1000
    sample, label = samples(compiled, 1)[0]
    for _ in range(2):
        engine.reset()
        engine.repaint()
        engine.train(sample, label, 0.05, 0.02)
    assert engine.high_water() == compiled.pool_bytes


def test_a_failing_hook_is_raised_and_ends() -> None:
    name = "residual-head-8"
    engine = Engine(packed(name))
    sample, label = samples(case(name), 1)[0]

    def fail(index: int, after: bool) -> None:
        if (index, after) == (2, True):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"), engine.hook(fail):
        engine.train(sample, label, 0.05, 0.02)
    engine.train(sample, label, 0.05, 0.02)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer that interrupts")
def test_ctrl_c_is_not_lost_wherever_it_meets_a_hook(capfd: pytest.CaptureFixture[str]) -> None:
    name = "residual-head-8"
    engine = Engine(packed(name))
    sample, label = samples(case(name), 1)[0]

    def train_until(seconds: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        for _ in range(1000):
            engine.train(sample, label, 0.05, 0.02)

    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    gc.collect()
    gc.disable()  # Python itself drops what arises in a finalizer, such as those of older engines
    try:
        for round_ in range(100):
            with pytest.raises(KeyboardInterrupt), engine.hook(lambda _index, _event: None):
                train_until(0.001 + 0.00001 * round_)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        gc.enable()
        signal.signal(signal.SIGALRM, before)
    assert not capfd.readouterr().err  # where C's interface prints what it drops


@pytest.mark.parametrize("name", ["branches-0", "residual-last:2-0"])
def test_the_hook_sees_every_run_of_an_instruction_and_its_end(name: str) -> None:
    engine = Engine(packed(name))
    calls: list[tuple[int, HookEvent]] = []
    sample, label = samples(case(name), 1)[0]
    with engine.hook(lambda index, event: calls.append((index, event))):
        engine.train(sample, label, 0.05, 0.02)
    program = engine.image.program
    real = [i for i, instr in enumerate(program) if instr.op != "segment"]
    assert [i for i, event in calls if event is HookEvent.DONE] == real
    runs = [call for call in calls if call[1] is not HookEvent.DONE]
    assert [e for _, e in runs] == [HookEvent.BEFORE, HookEvent.AFTER] * (len(runs) // 2)
    assert all(a[0] == b[0] for a, b in zip(runs[::2], runs[1::2], strict=True))
    assert {i for i, _ in runs} == set(real)


def test_tensors_have_names_and_shapes() -> None:
    engine = Engine(packed("residual-full-4"))
    assert engine.tensor("rng").tolist() == [[[7, 0]]]
    with pytest.raises(InputError, match="no tensor 'nonsense'"):
        engine.tensor("nonsense")


def test_every_instruction_is_covered() -> None:
    from mcutrain.ir.instructions import INSTRUCTIONS

    assert {i.op for name in CASES for i in case(name).program.instrs} == set(INSTRUCTIONS)
