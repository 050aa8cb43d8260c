"""The published simulator's own numbers (refdata oracle-golden), layer by layer.

The simulator computes in float32 and in units of integer steps of a layer's output. Each of its
errors is given to our arithmetic as a sum of int8 digits, so that rounding them plays no part.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcutrain.compile import compile_program
from mcutrain.engine import Engine
from mcutrain.image.pack import pack
from mcutrain.ir.graph import Graph, Node, QParams, Tensor
from mcutrain.ir.program import Instr
from mcutrain.ir.reference import REFERENCE
from mcutrain.ir.reference.machine import Machine
from mcutrain.plan import Plan

CONVS = (
    "conv3x3_s2",
    "pw_expand",
    "dw3x3_s1",
    "dw5x5_s2",
    "dw7x7_s1",
    "pw_project",
    "grouped3x3",
)
LAYERS = (*CONVS, "add", "avgpool")
SEEDS = 256
DIGITS = 4
FP32 = 2e-5  # of the largest element: sums of some hundred float32 products in another order


@dataclass(frozen=True, eq=False)
class Case:
    """One layer of the oracle: its settings and its arrays, maps NCHW and weights OIHW."""

    settings: dict[str, Any]
    arrays: dict[str, np.ndarray]

    def maps(self, name: str) -> Iterator[np.ndarray]:
        """The samples of a tensor, each HWC."""
        return (np.ascontiguousarray(m.transpose(1, 2, 0)) for m in self.arrays[name])

    def q(self, name: str) -> QParams:
        """Scale and zero point of x, x1, x2 or y."""
        return QParams(self.settings[f"{name}_scale"], self.settings[f"{name}_zero"])


@pytest.fixture(scope="module")
def golden(refdata: Path) -> dict[str, Case]:
    settings = json.loads((refdata / "oracle-golden.json").read_text())["cases"]
    with np.load(refdata / "oracle-golden.npz") as file:
        arrays = {name: file[name] for name in file.files}
    cases = {}
    for case in settings:
        own = {
            k.partition(".")[2]: v for k, v in arrays.items() if k.startswith(case["name"] + ".")
        }
        cases[case["name"]] = Case(case, own)
    return cases


def _node(case: Case) -> Node:
    """The case's layer, called `layer`."""
    op = case.settings["op"]
    if op == "add":
        return Node("add", "layer", ("x1", "x2"), "y", {"lo": -128, "hi": 127})
    if op == "global_avgpool":
        height, width = case.arrays["x"].shape[2:]
        attrs = {"kernel": (height, width), "stride": (1, 1), "pad": (0, 0, 0, 0)}
        return Node("avgpool", "layer", ("x",), "y", attrs)
    stride, pad = case.settings["stride"], case.settings["padding"]
    attrs = {"stride": (stride, stride), "pad": (pad,) * 4, "groups": case.settings["groups"]}
    params = {
        "weight": np.ascontiguousarray(case.arrays["w"].transpose(0, 2, 3, 1)),
        "bias": case.arrays["b"],
        "w_scale": case.arrays["w_scale"].astype(np.float64),
    }
    return Node("conv2d", "layer", ("x",), "y", attrs | {"lo": -128, "hi": 127}, params)


def _network(case: Case) -> Graph:
    """For each input of the layer a convolution that passes it on (so that errors go there), the
    layer, and a classifier.
    """
    node, name = _node(case), case.settings["name"]
    tensors, nodes, inputs = {}, [], []
    for x in node.inputs:
        _, c, h, w = case.arrays[x].shape
        q = QParams(0.1, 0) if name == "avgpool" else case.q(x)
        tensors |= {f"{x}_in": Tensor(f"{x}_in", (h, w, c), q), x: Tensor(x, (h, w, c), q)}
        # Identity with a scale of 64 / 64: the accumulator holds 64 * (x - z).
        params = {
            "weight": np.full((c, 1, 1, 1), 64, np.int8),
            "bias": np.zeros(c, np.int32),
            "w_scale": np.full(c, 1 / 64),
        }
        attrs = {"stride": (1, 1), "pad": (0, 0, 0, 0), "groups": c, "lo": -128, "hi": 127}
        nodes.append(Node("conv2d", f"{x}_pass", (f"{x}_in",), x, attrs, params))
        inputs.append(f"{x}_in")
    _, c, h, w = case.arrays["y"].shape
    tensors["y"] = Tensor("y", (h, w, c), tensors["x"].q if name == "avgpool" else case.q("y"))
    tensors["logits"] = Tensor("logits", (1, 1, 2))
    head = {"weight": np.zeros((2, 1, 1, h * w * c), np.float32), "bias": np.zeros(2, np.float32)}
    nodes += [node, Node("linear", "head", ("y",), "logits", {}, head)]
    return Graph(name, tuple(inputs), "logits", tensors, tuple(nodes))


def _plan(graph: Graph) -> Plan:
    trained = {n.name: n for n in graph.nodes[:-1] if n.op == "conv2d"}
    channels = {k: graph.tensors[n.inputs[0]].shape[2] for k, n in trained.items()}
    return Plan(tuple(trained), {k: tuple(range(c)) for k, c in channels.items()})


# --- forward -------------------------------------------------------------------------------------


def _by_machine(graph: Graph, sample: np.ndarray) -> np.ndarray:
    machine = Machine(compile_program(graph, Plan(head=False)).program)
    machine.forward(sample)
    return machine.memory.array("y").copy()


def _by_engine(graph: Graph, sample: np.ndarray) -> np.ndarray:
    engine = Engine(pack(compile_program(graph, Plan(head=False))))
    with engine.trace() as written:
        engine.forward(sample.tobytes())
    data = next(values["y"] for values in written.values() if "y" in values)
    return np.frombuffer(data, np.int8).reshape(graph.tensors["y"].shape)


RUNNERS = {"reference": _by_machine, "engine": _by_engine}


@pytest.mark.parametrize("runner", RUNNERS)
def test_outputs_of_each_layer(golden: dict[str, Case], runner: str) -> None:
    """Within one LSB, at most 1e-4 of the elements differ; of the pool's, those on a tie."""
    differing = elements = 0
    for name in LAYERS:
        case = golden[name]
        graph = _network(case)
        inputs = [list(case.maps(x)) for x in graph.nodes[-2].inputs]
        for i, wanted in enumerate(case.maps("y")):
            sample = np.concatenate([maps[i].reshape(-1) for maps in inputs])
            got = RUNNERS[runner](graph, sample)
            lsb = np.abs(got.astype(np.int64) - wanted)
            assert lsb.max() <= 1, name
            if name == "avgpool":
                mean = inputs[0][i].mean((0, 1), dtype=np.float64)
                lsb = lsb[0, 0][np.abs(mean - np.floor(mean) - 0.5) > 1e-9]
            differing += int((lsb > 0).sum())
            elements += lsb.size
    assert elements > 4000
    assert differing <= 1e-4 * elements, f"{differing} of {elements}"


# --- backward ------------------------------------------------------------------------------------


def _digits(real: np.ndarray) -> Iterator[tuple[np.ndarray, int]]:
    """int8 tensors and exponents whose sum is `real` up to 2^-28 of its largest element."""
    exponent = int(np.floor(np.log2(np.abs(real).max()))) - 5
    for _ in range(DIGITS):
        digit = np.clip(np.rint(np.ldexp(real, -exponent)), -127, 127)
        real = real - np.ldexp(digit, exponent)
        yield digit.astype(np.int8), exponent
        exponent -= 7


@dataclass(eq=False)
class Backward:
    """The layer's instructions on a machine of their own, run one by one on errors from outside."""

    case: Case

    def __post_init__(self) -> None:
        graph = _network(self.case)
        self.node = graph.nodes[-2]
        self.program = compile_program(graph, _plan(graph)).program
        self.q = {name: t.q for name, t in graph.tensors.items()}
        self.machine = Machine(self.program)
        self.machine.runtime.predictor[:] = -(2**15)  # exponents at their floor: no bit is lost
        self.y_scale = self.q["y"].scale  # type: ignore[union-attr]

    def forward(self, index: int) -> None:
        """Put a sample's inputs in place, and run the layer; below it nothing is cut off."""
        memory = self.machine.memory
        for x in self.node.inputs:
            memory.array(x)[:] = list(self.case.maps(x))[index]
            if f"{x}.mask" in self.program.values:
                memory.array(f"{x}.mask")[:] = 255
        for instr in self.program.instrs[: self.program.forward]:
            if instr.layer == "layer":
                self.run(instr)

    def run(self, instr: Instr) -> None:
        REFERENCE[instr.op](instr, self.machine.memory, self.machine.runtime)

    def mask(self) -> np.ndarray:
        """1 where the output was not cut off."""
        value = self.program.values.get("y.mask")
        shape = self.program.values["y"].shape
        if value is None:
            return np.ones(shape)
        packed = self.machine.memory.array("y.mask")
        return np.unpackbits(packed, count=value.count, bitorder="little").reshape(shape)

    def give(self, digit: np.ndarray, exponent: int) -> None:
        """Make an int8 tensor the error of the layer's output."""
        name = "y.error"
        self.machine.memory.array(name)[:] = digit
        index = self.program.values[name].error
        assert index is not None
        self.machine.runtime.exponent[index] = exponent

    def instrs(self, *ops: str) -> list[Instr]:
        """The layer's instructions of the backward pass."""
        back = self.program.instrs[self.program.forward :]
        return [i for i in back if i.op in ops and i.layer == "layer"]

    def error_instr(self, x: str) -> Instr:
        """The instruction that makes the error of an input."""
        back = self.program.instrs[self.program.forward :]
        return next(i for i in back if i.operands.get("e_x") == f"{x}.error")


def _close(got: np.ndarray, wanted: np.ndarray, what: str) -> None:
    scale = np.abs(wanted).max()
    assert scale > 0, what
    assert np.abs(got - wanted).max() <= FP32 * scale, (
        f"{what}: {np.abs(got - wanted).max() / scale:.2e} of the largest"
    )


def _compensated(back: Backward) -> np.ndarray:
    """Factors per channel that undo the rounding of r[o], which is checked to be at most 1/2."""
    (instr,) = back.instrs("conv2d_dx")
    r = back.machine.memory.wide(instr, "r").reshape(-1)
    groups, f = instr.params["groups"], instr.params["f"]
    scale = back.node.params["w_scale"].reshape(groups, -1)
    exact = (scale / scale.max(1, keepdims=True) * 2.0**f).reshape(-1)
    assert np.abs(r - exact).max() <= 0.5
    return exact / r


@pytest.mark.parametrize("name", CONVS)
def test_unrounded_errors_of_convolutions(golden: dict[str, Case], name: str) -> None:
    case = golden[name]
    back = Backward(case)
    factors = _compensated(back)
    x_scale = case.q("x").scale
    for i, (gy, wanted) in enumerate(zip(case.maps("gy"), case.maps("gx"), strict=True)):
        back.forward(i)
        got = np.zeros(wanted.shape)
        for digit, exponent in _digits(gy / back.y_scale * back.mask() * factors):
            back.give(digit, exponent)
            back.run(back.error_instr("x"))
            got += back.machine.runtime.unrounded["x.error"]
        _close(got * x_scale, wanted, f"{name}: error of x")


@pytest.mark.parametrize("name", CONVS)
def test_gradients_of_convolutions_and_their_scaling(golden: dict[str, Case], name: str) -> None:
    """dW and dB in the simulator's units, and after the quantization-aware scaling."""
    case = golden[name]
    back = Backward(case)
    (dw,), (db,) = back.instrs("conv2d_dw"), back.instrs("conv2d_db")
    weight, bias = dw.operands["w"], db.operands["bias"]
    sums: dict[str, np.ndarray] = {}
    for i, gy in enumerate(case.maps("gy")):
        back.forward(i)
        for digit, exponent in _digits(gy / back.y_scale * back.mask()):
            back.give(digit, exponent)
            for instr in (dw, db):
                back.run(instr)
            for value in (weight, bias):
                part = back.machine.runtime.gradients[value]
                sums[value] = sums.get(value, 0.0) + part
    ohwi = np.ascontiguousarray(case.arrays["gw"].transpose(0, 2, 3, 1)).shape
    g_weight, g_bias = sums[weight].reshape(ohwi), sums[bias].reshape(-1)
    s_x, s_w = case.q("x").scale, back.node.params["w_scale"]
    wide = s_w[:, None, None, None]
    _close(g_weight * s_x * wide, case.arrays["gw"].transpose(0, 2, 3, 1), f"{name}: dW")
    _close(g_bias * s_x * s_w, case.arrays["gb"], f"{name}: dB")
    c_weight, c_bias = (_constants(back, instr) for instr in (dw, db))
    scaled = g_weight * c_weight[:, None, None, None]
    _close(scaled, case.arrays["gw_qas"].transpose(0, 2, 3, 1), f"{name}: dW after scaling")
    _close(g_bias * c_bias, case.arrays["gb_qas"], f"{name}: dB after scaling")


def _constants(back: Backward, instr: Instr) -> np.ndarray:
    """The factors of an update as the image holds them."""
    mant, exp = (back.machine.memory.wide(instr, slot).reshape(-1) for slot in ("mant", "exp"))
    return np.ldexp(mant.astype(np.float64), -exp)


def test_errors_of_the_addition(golden: dict[str, Case]) -> None:
    """Both inputs get the masked error, each in its own scale."""
    case = golden["add"]
    back = Backward(case)
    for i, gy in enumerate(case.maps("gy")):
        back.forward(i)
        for x, key in (("x1", "gx1"), ("x2", "gx2")):
            got = np.zeros(gy.shape)
            for digit, exponent in _digits(gy / back.y_scale * back.mask()):
                back.give(digit, exponent)
                back.run(back.error_instr(x))
                got += back.machine.runtime.unrounded[f"{x}.error"]
            _close(got * case.q(x).scale, list(case.maps(key))[i], f"add: error of {x}")


def test_error_of_the_average_pool(golden: dict[str, Case]) -> None:
    case = golden["avgpool"]
    back = Backward(case)
    for i, (gy, wanted) in enumerate(zip(case.maps("gy"), case.maps("gx"), strict=True)):
        back.forward(i)
        got = np.zeros(wanted.shape)
        for digit, exponent in _digits(gy.astype(np.float64)):
            back.give(digit, exponent)
            back.run(back.error_instr("x"))
            got += back.machine.runtime.unrounded["x.error"]
        _close(got, wanted, "avgpool: error of x")


@pytest.mark.parametrize("name", CONVS)
def test_int8_errors_agree_on_average(golden: dict[str, Case], name: str) -> None:
    """Mean over rounding seeds within 4 standard errors of the simulator's."""
    case = golden[name]
    back = Backward(case)
    x_scale, factors = case.q("x").scale, _compensated(back)
    gy, wanted = next(case.maps("gy")), next(case.maps("gx"))
    back.forward(0)
    real = gy / back.y_scale * back.mask() * factors
    exponent = int(np.floor(np.log2(np.abs(real).max()))) - 5
    instr, rng = back.error_instr("x"), np.random.default_rng(1)
    e = _exponent_for(np.abs(wanted).max() / x_scale)
    runs = []
    for seed in range(SEEDS):
        # The error itself comes stochastically rounded, as from the layer above.
        given = np.floor(np.ldexp(real, -exponent) + rng.uniform(size=real.shape))
        back.give(given.astype(np.int8), exponent)
        back.machine.runtime.seed = seed
        back.machine.runtime.predictor[:] = e * 256 + PREDICTOR_OF_0
        back.run(instr)
        index = back.program.values["x.error"].error
        assert index is not None
        real_error = back.machine.memory.array("x.error").astype(np.float64)
        runs.append(np.ldexp(real_error, int(back.machine.runtime.exponent[index])))
    assert back.machine.runtime.saturated == 0
    stack = np.stack(runs) * x_scale
    error = stack.std(0, ddof=1) / np.sqrt(SEEDS)
    live = error > 0
    assert live.mean() > 0.3
    z = (stack.mean(0) - wanted)[live] / error[live]
    # Chance puts 6e-5 of the elements beyond 4 standard errors.
    assert (np.abs(z) > 4).sum() <= 1 + 1e-3 * z.size
    assert abs(z.mean()) < 4 / np.sqrt(z.size)


PREDICTOR_OF_0 = 1788 - 85 - 255  # predicts the exponent 0 (SPEC-arithmetic, section 7; L_top = 0)


def _exponent_for(largest: float) -> int:
    """The exponent that puts the largest error at about 100, clear of the rails."""
    return int(np.ceil(np.log2(largest / 100)))
