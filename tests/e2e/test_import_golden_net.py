"""One training step of MCUNet-5FPS against the published simulator's numbers (oracle-golden).

A chain amplifies single LSBs, so that our own forward pass differs from the simulator's in some
features by one. Gradients are therefore compared on the simulator's forward pass: it is repeated
here in PyTorch, bit for bit (its features are the published ones), and our backward pass runs on
its activations and masks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcutrain.compile import compile_program
from mcutrain.engine import Engine
from mcutrain.frontends import import_network
from mcutrain.image.pack import pack
from mcutrain.ir.graph import Graph, Node, QParams, Tensor
from mcutrain.ir.program import Program
from mcutrain.ir.reference import REFERENCE
from mcutrain.ir.reference.machine import Machine
from mcutrain.plan import Plan
from mcutrain.plan.plan import input_channels
from mcutrain.plan.scheme import trainable_layers

Arrays = dict[str, np.ndarray]

SEEDS = 256
FIRST_BIAS = 20
WEIGHTS = (21, 22, 24, 27, 30, 36, 39, 41)


@pytest.fixture(scope="module")
def net(refdata: Path) -> Arrays:
    with np.load(refdata / "oracle-golden.npz") as file:
        return {name[4:]: file[name] for name in file.files if name.startswith("net.")}


@pytest.fixture(scope="module")
def graph(refdata: Path, net: Arrays) -> Graph:
    """MCUNet with the oracle's float classifier of 10 classes."""
    whole = import_network(refdata / "mcunet-5fps.pkl")
    params = {"weight": np.ascontiguousarray(net["fc_w"][:, None, None, :]), "bias": net["fc_b"]}
    head = Node("linear", whole.head.name, whole.head.inputs, whole.output, {}, params)
    tensors = {**whole.tensors, whole.output: Tensor(whole.output, (1, 1, len(net["fc_b"])))}
    nodes = (*whole.nodes[:-1], head)
    return Graph(whole.name, whole.inputs, whole.output, tensors, nodes)


def _samples(net: Arrays) -> list[np.ndarray]:
    return [np.ascontiguousarray(x.transpose(1, 2, 0)) for x in net["x"]]


def test_chained_features_and_loss(net: Arrays, graph: Graph) -> None:
    """49 layers one after the other: features within 2 LSB, most of them equal."""
    engine = Engine(pack(compile_program(graph, Plan())))
    features, losses = [], []
    for x, label in zip(_samples(net), net["labels"], strict=True):
        with engine.trace() as written:
            losses.append(engine.train(x, int(label), 0.0).loss)
        data = next(v["avgpool"] for v in written.values() if "avgpool" in v)
        features.append(np.frombuffer(data, np.int8).astype(np.int64))
    lsb = np.abs(np.stack(features) - net["features"])
    assert lsb.max() <= 2
    assert (lsb > 0).mean() < 0.3
    assert np.mean(losses) == pytest.approx(float(net["loss"]), rel=0.02)


# --- the simulator's forward pass ----------------------------------------------------------------


def _q(graph: Graph, name: str) -> QParams:
    q = graph.tensors[name].q
    assert q is not None
    return q


def _unclamped(graph: Graph, node: Node, xs: list[Any]) -> Any:
    """Integer outputs before the clamp, (N, C, H, W) float32, rounded half to even."""
    import torch
    import torch.nn.functional as F

    qs, y = [_q(graph, name) for name in node.inputs], _q(graph, node.output)
    if node.op == "add":
        (a, b), (qa, qb) = xs, qs
        total = (a - qa.zero_point) * qa.scale + (b - qb.zero_point) * qb.scale
        return torch.round(total / y.scale) + y.zero_point
    weight = torch.from_numpy(node.params["weight"].astype(np.float32).transpose(0, 3, 1, 2).copy())
    top, left, bottom, right = node.attrs["pad"]
    padded = F.pad(xs[0] - qs[0].zero_point, (left, right, top, bottom))
    stride, groups = node.attrs["stride"], node.attrs["groups"]
    acc = torch.round(F.conv2d(padded, weight, None, stride, groups=groups))
    bias = torch.from_numpy(node.params["bias"].astype(np.float32))[:, None, None]
    scale = (qs[0].scale * node.params["w_scale"] / y.scale).astype(np.float32)
    return torch.round((acc + bias) * torch.from_numpy(scale)[:, None, None]) + y.zero_point


def simulate(graph: Graph, x: np.ndarray) -> tuple[Arrays, Arrays]:
    """Activations, and values before their clamps, of the published simulator; (N, H, W, C)."""
    import torch

    values = {graph.inputs[0]: torch.from_numpy(x.transpose(0, 3, 1, 2).astype(np.float32))}
    before = {}
    for node in graph.nodes[:-1]:
        xs = [values[name] for name in node.inputs]
        if node.op == "avgpool":
            values[node.output] = torch.round(xs[0].mean((2, 3), keepdim=True))
            continue
        before[node.output] = _unclamped(graph, node, xs)
        values[node.output] = torch.clamp(before[node.output], -128, 127)

    def nhwc(maps: dict[str, Any]) -> Arrays:
        return {name: m.permute(0, 2, 3, 1).numpy() for name, m in maps.items()}

    return nhwc(values), nhwc(before)


# --- our backward pass on it ---------------------------------------------------------------------


def _plan(graph: Graph) -> Plan:
    layers = trainable_layers(graph)
    weights = {layers[i].name: tuple(range(input_channels(graph, layers[i]))) for i in WEIGHTS}
    return Plan(tuple(n.name for n in layers[FIRST_BIAS:]), weights)


class Step:
    """The step on one sample from the simulator's forward pass on."""

    def __init__(self, graph: Graph, program: Program, x: np.ndarray, label: int) -> None:
        self.machine = Machine(program)
        self.machine.runtime.label = label
        self.features = self._fill(program, *simulate(graph, x[None]))
        self._instrs = [
            instr
            for at, instr in enumerate(program.instrs)
            if at >= program.forward or instr.op == "head"
        ]
        for warm_up in range(8):
            self._run(2**31 + warm_up)
        self._predictor = self.machine.runtime.predictor + 100  # room, so that nothing saturates

    def _fill(self, program: Program, values: Arrays, before: Arrays) -> np.ndarray:
        for name in program.values:
            tensor = name.removesuffix(".mask")
            if name in values:
                self.machine.memory.array(name)[...] = values[name][0]
            elif tensor != name and tensor in before:
                inside = (before[tensor] >= -128) & (before[tensor] <= 127)
                packed = np.packbits(inside.reshape(-1), bitorder="little")
                self.machine.memory.array(name)[:] = packed
        return values["avgpool"].reshape(-1)

    def _run(self, seed: int) -> None:
        self.machine.runtime.seed = seed
        for instr in self._instrs:
            REFERENCE[instr.op](instr, self.machine.memory, self.machine.runtime)

    def gradients(self, seed: int) -> Arrays:
        """By trained value, in real units but for the weights' scale of the input."""
        self.machine.runtime.predictor[:] = self._predictor
        self.machine.runtime.saturated = 0
        self._run(seed)
        assert self.machine.runtime.saturated == 0
        return {name: g.reshape(-1).copy() for name, g in self.machine.runtime.gradients.items()}


def _means(net: Arrays, graph: Graph, seeds: int) -> tuple[Arrays, Arrays]:
    """Mean over seeds and samples of each gradient, and its standard error."""
    program = compile_program(graph, _plan(graph)).program
    means: dict[str, Any] = {}
    variances: dict[str, Any] = {}
    for i, (x, label) in enumerate(zip(_samples(net), net["labels"], strict=True)):
        step = Step(graph, program, x, int(label))
        assert np.array_equal(step.features, net["features"][i]), "this is not the simulator"
        # Other seeds for each sample: the same ones would round all of them alike.
        runs = [step.gradients(seed + i * seeds) for seed in range(seeds)]
        for name in runs[0]:
            stack = np.stack([run[name] for run in runs])
            means[name] = means.get(name, 0.0) + stack.mean(0) / 4
            variances[name] = variances.get(name, 0.0) + stack.var(0, ddof=1) / seeds / 16
    return means, {name: np.sqrt(v) for name, v in variances.items()}


def _pairs(net: Arrays, graph: Graph) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """For each trained value of a layer: the published gradient, and the factor of ours to it."""
    pairs = {}
    for i, node in enumerate(trainable_layers(graph)):
        s_x, s_w = _q(graph, node.inputs[0]).scale, node.params["w_scale"]
        if f"c{i}.gb" in net:
            pairs[f"{node.name}.bias"] = (net[f"c{i}.gb"], s_x * s_w)
        if f"c{i}.gw" in net:
            shape = node.params["weight"].shape
            factor = np.broadcast_to(s_x * s_w[:, None, None, None], shape).reshape(-1)
            gradient = net[f"c{i}.gw"].transpose(0, 2, 3, 1).reshape(-1)
            pairs[f"{node.name}.trained"] = (gradient, factor)
    assert len(pairs) == 22 + len(WEIGHTS)
    return pairs


@pytest.mark.torch
def test_gradients_of_a_whole_step(net: Arrays, graph: Graph) -> None:
    """Every published gradient with few seeds: the classifier's to fp32, the others' directions."""
    means, _ = _means(net, graph, seeds=4)
    for ours, theirs in (("weight", "fc_gw"), ("bias", "fc_gb")):
        wanted = net[theirs].reshape(-1)
        got = means[f"{graph.head.name}.{ours}"]
        assert np.abs(got - wanted).max() <= 1e-5 * np.abs(wanted).max()
    for name, (wanted, factor) in _pairs(net, graph).items():
        got = means[name] * factor
        cosine = got @ wanted / np.linalg.norm(got) / np.linalg.norm(wanted)
        assert cosine > 0.99, f"{name}: {cosine:.4f}"


@pytest.mark.slow
@pytest.mark.torch
def test_gradients_of_a_whole_step_agree_on_average(net: Arrays, graph: Graph) -> None:
    """Mean over rounding seeds: within 4 standard errors as often as chance has it.

    Below the last layer the channels' scales r[o] have 8 bits: an error of up to 2^-9 of the
    largest scale in each term, which the sum over channels brings to some 2^-8 of the gradients.
    """
    means, errors = _means(net, graph, seeds=SEEDS)
    last = trainable_layers(graph)[-1].name
    for name, (wanted, factor) in _pairs(net, graph).items():
        got, error = means[name] * factor, errors[name] * factor
        fixed = 0.0 if name.startswith(last) else 2.0**-8 * np.sqrt((wanted**2).mean())
        live = error > 0
        assert live.mean() > 0.3, name
        z = np.divide(got - wanted, np.hypot(error, fixed), out=np.zeros(got.shape), where=live)
        # Chance puts 6.3e-5 of the elements beyond 4. The weights of one output channel see the
        # same errors, so that they go beyond together: channels are counted.
        channels = len(graph.node(name.rpartition(".")[0]).params["bias"])
        beyond = (np.abs(z) > 4).reshape(channels, -1).any(1).sum()
        assert beyond <= 1 + 3 * 6.3e-5 * live.sum(), f"{name}: {beyond} channels"
        assert np.sqrt((z[live] ** 2).mean()) < 1.3, name
        assert abs(z[live].mean()) < 4 / np.sqrt(live.sum()) + 0.1, name
