"""The numpy reference against plain loops over the definition, and the machine that runs it."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from tests.kernels import conv_cases as conv
from tests.kernels.cases import Case, outcome
from tests.kernels.other_cases import head_dx
from tests.networks import residual_network

from mcutrain.compile import compile_program
from mcutrain.errors import InputError, InternalError
from mcutrain.ir import arith
from mcutrain.ir.program import CompiledProgram, Instr, Program
from mcutrain.ir.reference import REFERENCE
from mcutrain.ir.reference.machine import Machine
from mcutrain.ir.reference.runtime import Memory, Runtime
from mcutrain.plan.scheme import resolve_scheme

# Every kind of layer, small enough for loops in Python.
SMALL = [
    conv.Conv((5, 4, 2), 3, (3, 3), (2, 1), (2, 1, 0, 1), zero=13),
    conv.Conv((3, 4, 4), 4, (2, 2), (1, 1), (1, 0, 0, 1), groups=2, trained=-1),
    conv.Conv((4, 4, 3), 3, (3, 3), (1, 1), (1, 1, 1, 1), groups=3, trained=2),
    conv.Conv((3, 3, 5), 3, (3, 2), (1, 2), (1, 1, 1, 0), trained=3, zero=-128),
]


def _weight(shape: conv.Conv, case: Case, o: int, tap: int, c: int) -> int:
    """Weight of output o for channel c of the input, 0 if they are not in one group."""
    per_group, outs = shape.x[2] // shape.groups, shape.c_out // shape.groups
    if c // per_group != o // outs:
        return 0
    blocks = [case.values[s].data for s in ("w_trained", "w_frozen") if s in case.values]
    if "perm" not in case.values:
        return int(np.asarray(blocks[0])[o, tap, c % per_group])
    place = np.asarray(case.values["perm"].data).tolist().index(c)
    block, place = (0, place) if place < shape.trained else (1, place - shape.trained)
    w = np.asarray(blocks[block])
    return int(w[place, tap, 0] if shape.depthwise else w[o, tap, place])


def _pairs(shape: conv.Conv) -> list[tuple[tuple[int, int], tuple[int, int], int]]:
    """((oy, ox), (iy, ix), tap) wherever a window has a tap, inside the input or not."""
    (kh, kw), (sh, sw), (top, left, _, _) = shape.kernel, shape.stride, shape.pad
    return [
        ((oy, ox), (oy * sh + ky - top, ox * sw + kx - left), ky * kw + kx)
        for oy, ox, ky, kx in np.ndindex(*shape.y[:2], kh, kw)
    ]


def _taps(shape: conv.Conv, tap: int) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """(output, input) pixels that one tap connects."""
    return [(out, at) for out, at, t in _pairs(shape) if t == tap and _inside(shape, at)]


def _inside(shape: conv.Conv, at: tuple[int, int]) -> bool:
    return 0 <= at[0] < shape.x[0] and 0 <= at[1] < shape.x[1]


@pytest.mark.parametrize("shape", SMALL)
def test_t39_conv2d_is_the_definition(shape: conv.Conv) -> None:
    case = conv.forward(shape, -90, 100)
    x, bias, mult, shift = (
        np.asarray(case.values[s].data).astype(int) for s in ("x", "bias", "mult", "shift")
    )
    acc = np.tile(bias, (*shape.y[:2], 1))
    for out, at, tap in _pairs(shape):
        for o, c in np.ndindex(shape.c_out, shape.x[2]):
            value = x[(*at, c)] if _inside(shape, at) else shape.zero
            acc[(*out, o)] += _weight(shape, case, o, tap, c) * value
    p = case.values["y"].zero_point + (((acc << shift) * mult + 2**31) >> 32)
    got = outcome(case, REFERENCE["conv2d"])
    assert np.array_equal(got["y"], np.clip(p, -90, 100))
    assert np.array_equal(got["mask"], (p >= -90) & (p <= 100))


@pytest.mark.parametrize("shape", SMALL)
@pytest.mark.parametrize("predictor", [-800, 300])
def test_conv2d_dx_is_the_definition(shape: conv.Conv, predictor: int) -> None:
    case = conv.dx(shape, predictor=predictor, skip=-11)
    e_y, r, mant, exp, skip = (
        np.asarray(case.values[s].data).astype(int) for s in ("e_y", "r", "mant", "exp", "skip")
    )
    acc = np.zeros(shape.x, int)
    for out, at, tap in _pairs(shape):
        if _inside(shape, at):
            for o, c in np.ndindex(shape.c_out, shape.x[2]):
                acc[(*at, c)] += e_y[(*out, o)] * r[o] * _weight(shape, case, o, tap, c)
    f, live = case.params["f"], exp[mant > 0]
    e = max((case.l_top + predictor + 85 - 1788 + 255) >> 8, -12 + 32 - f - int(live.min()))
    mask = np.unpackbits(np.asarray(case.values["mask"].data), bitorder="little")
    key, expected, saturated = arith.random_key(5, 7, 17), np.zeros(shape.x, int), 0
    for i, at in enumerate(np.ndindex(*shape.x)):
        group = at[2] // (shape.x[2] // shape.groups)
        n = int(exp[group]) + f - 32 + e + 12
        m = 0 if n > 31 or mant[group] == 0 else math.floor(mant[group] / 2**n + (n > 0) / 2)
        random = int(arith.random_bits(key, i))
        v = (int(acc[at]) * m + (int(skip[at]) << (32 - 11 - e)) + (random << 16)) >> 32
        expected[at] = min(max(v, -127), 127) if mask[i] else 0
        saturated += int(mask[i]) * (abs(v) > 127)
    got = outcome(case, REFERENCE["conv2d_dx"])
    assert got["exponent"][-1] == e
    assert np.array_equal(got["e_x"], expected)
    assert got["saturated"] == saturated


@pytest.mark.parametrize("shape", SMALL[1:])
@pytest.mark.parametrize("bits", [0, 4, 8])
def test_conv2d_dw_is_the_definition(shape: conv.Conv, bits: int) -> None:
    case = conv.dw(shape, bits, lr=0.05)
    names = ("e_y", "x", "w", "mant", "exp", "bias", "shift")
    e_y, x, w, mant, exp, bias, shift = (
        np.asarray(case.values[s].data).astype(int).reshape(case.values[s].shape) for s in names
    )
    chan = case.values.get("chan")
    got, key = outcome(case, REFERENCE["conv2d_dw"]), arith.random_key(5, 7, 23)
    moved = np.zeros(shape.c_out, int)
    for i, (row, tap, col) in enumerate(np.ndindex(*w.shape)):
        o = row if chan is None else int(np.asarray(chan.data)[row])
        c = row if shape.depthwise else o // (shape.c_out // shape.groups) * w.shape[2] + col
        d = sum(
            int(e_y[(*out, o)]) * (int(x[(*at, c)]) - shape.zero) for out, at in _taps(shape, tap)
        )
        m, e, r = (int(v) for v in (mant[0, 0, o], exp[0, 0, o], arith.random_bits(key, i)))
        step = int(arith.update_step(d, m, e, arith.rate(0.05), -20, bits, r))
        frac = 0 if bits == 0 else _fraction(np.asarray(case.values["frac"].data), i, bits)
        low, high = -127 * 2**bits, 127 * 2**bits + 2**bits - 1
        master = min(max((int(w[row, tap, col]) << bits) + frac - step, low), high)
        assert got["w"][row, tap, col] == master >> bits
        if bits:
            assert _fraction(got["frac"].reshape(-1), i, bits) == master % 2**bits
        moved[o] += (master >> bits) - int(w[row, tap, col])
    limit = ((2**31 - 1) >> shift.reshape(-1)) - case.params["reach"]
    assert np.array_equal(
        got["bias"].reshape(-1), np.clip(bias.reshape(-1) - shape.zero * moved, -limit, limit)
    )


def _fraction(stored: np.ndarray, i: int, bits: int) -> int:
    byte = int(stored[i] if bits == 8 else stored[i >> 1])
    return byte if bits == 8 else byte >> 4 * (i & 1) & 15


@pytest.mark.parametrize("fraction_of_lsb", [0.003, 0.02, -0.05])
@pytest.mark.parametrize("bits", [0, 4, 8])
def test_t17_steps_below_one_lsb_move_weights_on_average(bits: int, fraction_of_lsb: float) -> None:
    """1,000 steps of a constant gradient: their mean is the exact step, for weights and biases."""
    steps, count, lr = 1000, 64, 0.01
    case = Case("conv2d_dw", ("t17", bits, fraction_of_lsb))
    case.error("e_y", np.full((1, 1, count), 100 if fraction_of_lsb > 0 else -100), -9)
    case.put("x", "s8", [50], (1, 1, 1), zero_point=10)
    case.put("w", "s8", np.zeros(count, np.int8), (count, 1, 1))
    if bits:
        half = np.full(count if bits == 8 else count // 2, 0x80 if bits == 8 else 0x88, np.uint8)
        case.put("frac", "u8" if bits == 8 else "nibbles", half, (count, 1, 1))
    scale = abs(fraction_of_lsb) / 2**bits / (lr * 2.0**-9 * 100 * 40)  # of a master's LSB
    mant, exp = arith.fixed(np.full(count, scale))
    for slot, dtype, data in (("mant", "s32", mant), ("exp", "s8", exp)):
        case.put(slot, dtype, data)
    case.put("bias", "s32", np.zeros(count, np.int32))
    case.put("shift", "u8", np.zeros(count, np.uint8))
    window = {"kh": 1, "kw": 1, "sh": 1, "sw": 1, "pt": 0, "pl": 0, "groups": 1}
    case.params = window | {"bits": bits, "reach": 0, "rng": 3}
    program = case.program()
    memory = Memory(program)
    exponent = np.array([-9], np.int16)
    for step in range(steps):
        runtime = Runtime(seed=1, step=step, exponent=exponent, predictor=exponent * 0, lr=lr)
        REFERENCE["conv2d_dw"](program.instrs[0], memory, runtime)
    master = memory.array("w").astype(int).reshape(-1) << bits
    if bits:
        frac = memory.array("frac").reshape(-1)
        master += [_fraction(frac, i, bits) - 2 ** (bits - 1) for i in range(count)]
    p = abs(fraction_of_lsb)
    error = math.sqrt(p * (1 - p) / (steps * count))
    assert abs(-master.mean() / steps - fraction_of_lsb) < 4 * error
    assert np.count_nonzero(master) > count // 2


# --- the machine -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compiled() -> CompiledProgram:
    graph = residual_network()
    return compile_program(graph, resolve_scheme(graph, "full"), seed=3)


def _sample(seed: int = 0) -> bytes:
    return np.random.default_rng(seed).integers(-128, 128, 192).astype(np.int8).tobytes()


def _train(machine: Machine, steps: int = 3) -> list[float]:
    return [float(machine.train(_sample(i), i % 4, 1e-4, 1e-2).loss) for i in range(steps)]


def test_a_run_depends_on_seed_and_step_alone(compiled: CompiledProgram) -> None:
    runs = {}
    for seed, step in ((3, 0), (3, 0), (4, 0), (3, 1)):
        machine = Machine(compiled.program, seed=seed, step=step)
        _train(machine)
        runs.setdefault((seed, step), set()).add(machine.state_bytes(compiled))
    assert [len(states) for states in runs.values()] == [1, 1, 1]
    assert len({s for states in runs.values() for s in states}) == 3


def test_t16_state_continues_where_it_was(compiled: CompiledProgram) -> None:
    """Three steps and three more from the state that they left are six."""
    whole, half = Machine(compiled.program), Machine(compiled.program)
    _train(whole, 6)
    _train(half, 3)
    state = {name: half.memory.array(name).copy() for name in _state_values(compiled.program)}
    values = {
        name: replace(value, data=state[name]) if name in state else value
        for name, value in compiled.program.values.items()
    }
    rest = Machine(replace(compiled.program, values=values))
    for i in range(3, 6):
        rest.train(_sample(i), i % 4, 1e-4, 1e-2)
    assert rest.state_bytes(compiled) == whole.state_bytes(compiled)


def _state_values(program: Program) -> list[str]:
    return [n for n, v in program.values.items() if v.space == "state" and v.view_of is None]


def test_the_loss_of_a_repeated_sample_falls(compiled: CompiledProgram) -> None:
    machine = Machine(compiled.program)
    losses = [float(machine.train(_sample(), 2, 1e-3, 0.1).loss) for _ in range(30)]
    assert losses[-1] < losses[0] / 2


def test_a_rate_of_zero_changes_nothing_that_trains(compiled: CompiledProgram) -> None:
    machine, kept = Machine(compiled.program), ("rng", "predictor", "exponent")
    before = {n: machine.memory.raw(n) for n in _state_values(compiled.program) if n not in kept}
    machine.train(_sample(), 0, 0.0)
    assert before == {n: machine.memory.raw(n) for n in before}


def test_forward_is_the_forward_pass_of_a_step(compiled: CompiledProgram) -> None:
    machine = Machine(compiled.program)
    logits = machine.forward(_sample())
    forward = list(machine.crcs_per_instruction)
    machine.train(_sample(), 1, 1e-4)
    assert machine.crcs_per_instruction[: len(forward)] == forward
    assert logits.dtype == np.float32
    assert logits.shape == (4,)


def test_trace_shows_what_each_instruction_wrote(compiled: CompiledProgram) -> None:
    machine, seen = Machine(compiled.program), []

    def trace(index: int, instr: Instr, written: Mapping[str, bytes]) -> None:
        assert list(written) == list(instr.results())
        seen.append((index, zlib.crc32(b"".join(written.values()))))

    machine.trace = trace
    machine.train(_sample(), 0, 1e-4)
    assert seen == list(enumerate(machine.crcs_per_instruction))


def test_bad_arguments_are_named(compiled: CompiledProgram) -> None:
    machine = Machine(compiled.program)
    for arguments, text in (
        ((b"\0" * 191, 0, 0.1), "191 bytes"),
        ((_sample(), 4, 0.1), "label 4"),
        ((_sample(), 0, -0.1), "learning rate"),
        ((_sample(), 0, 0.1, math.nan), "learning rate"),
    ):
        with pytest.raises(InputError, match=text):
            machine.train(*arguments)


def test_logits_that_are_not_finite_end_the_step(compiled: CompiledProgram) -> None:
    machine = Machine(compiled.program)
    machine.memory.array("classifier.weight")[:] = np.inf
    state = machine.state_bytes(compiled)
    with pytest.raises(InputError, match="not finite"):
        machine.train(_sample(), 1, 0.1)
    with pytest.raises(InputError, match="not finite"):
        machine.forward(_sample())
    assert machine.state_bytes(compiled) == state


def test_errors_that_are_not_finite_end_the_step() -> None:
    case = head_dx((1, 1, 3), 2, 0.5)
    case.put("df", "f32", np.float32([1, 1]))
    case.put("w", "f32", np.full((1, 2, 3), 3e38, np.float32), (1, 2, 3))
    with pytest.raises(InputError, match="not finite"):
        outcome(case, REFERENCE["head_dx"])


def test_data_of_another_size_than_its_shape_is_refused(compiled: CompiledProgram) -> None:
    values = dict(compiled.program.values)
    values["rng"] = replace(values["rng"], data=np.zeros(3, np.uint32))
    with pytest.raises(InternalError, match="rng"):
        Machine(replace(compiled.program, values=values))
