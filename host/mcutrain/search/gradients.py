"""How much the loss depends on each layer's input channels and biases: squared gradient norms.

A step of gradient descent on a parameter lowers the loss by the rate times its squared gradient, so
the norm says what training it is worth. The ranking by norm per byte is that of TraDy ("Study of
Training Dynamics for Memory-Constrained Fine-Tuning", 2025). The gradients are those of the int8
backward pass itself, at rate 0: its errors are read as the engine makes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from mcutrain.compile import EXPONENT, Savings, compile_program
from mcutrain.engine.engine import Engine, HookEvent
from mcutrain.image.pack import pack
from mcutrain.ir.graph import Array, Graph
from mcutrain.ir.program import CompiledProgram, Instr, Value
from mcutrain.plan.plan import MAX_PIXELS, Plan
from mcutrain.plan.scheme import trainable_layers
from mcutrain.trainer import calibrated

CALIBRATION = 32
_HEAD_STEPS = 50

Sample = tuple[bytes, int]
_Floats = npt.NDArray[np.float64]


@dataclass
class LayerScore:
    """Mean over samples of squared gradient norms in real units.

    Attributes:
        channels: one a trained input channel (depthwise: channel), as plans count them.
        bias: of the layer's biases together.
    """

    channels: _Floats
    bias: float = 0.0


@dataclass
class Scores:
    """Scores by layer, and how many samples they are the mean of."""

    layers: dict[str, LayerScore] = field(default_factory=dict)
    samples: int = 0


def score(graph: Graph, samples: Sequence[Sample]) -> Scores:
    """Score every layer of a quantised network that can train.

    Args:
        graph: its classifier may be fresh: it is fitted to the samples first, else no error would
            come back from it.
        samples: input bytes and label; a few hundred are enough.
    """
    fitted = _with_fitted_head(graph, samples)
    compiled = compile_program(fitted, _full(fitted), savings=Savings(rows=False))
    compiled = calibrated(compiled, samples[:CALIBRATION])
    engine = Engine(pack(compiled))
    watch = GradientWatch(compiled, engine)
    with engine.hook(watch.note):
        for data, label in samples:
            engine.train(data, label, 0.0, 0.0)
    return watch.mean(len(samples))


def _full(graph: Graph) -> Plan:
    """All layers, but for the weights of maps too large to train them."""
    layers = trainable_layers(graph)
    weights = {}
    for node in layers:
        h, w, _ = graph.tensors[node.output].shape
        x = graph.tensors[node.inputs[0]]
        if h * w <= MAX_PIXELS:
            weights[node.name] = tuple(range(x.size if node.op == "linear" else x.shape[2]))
    return Plan(tuple(n.name for n in layers), weights, fraction_bits=0)


class GradientWatch:
    """Adds up squared gradients while the engine trains."""

    def __init__(self, compiled: CompiledProgram, engine: Engine) -> None:
        self.engine = engine
        self.program = compiled.program
        self.sums = Scores()

    def mean(self, count: int) -> Scores:
        """The sums divided by the number of samples."""
        layers = {
            name: LayerScore(s.channels / count, s.bias / count)
            for name, s in self.sums.layers.items()
        }
        return Scores(layers, count)

    def note(self, index: int, event: HookEvent) -> None:
        """What the engine calls around each instruction."""
        instr = self.program.instrs[index]
        if event is not HookEvent.BEFORE or instr.op not in ("conv2d_dw", "conv2d_db"):
            return
        e_y = self._error(instr)
        if instr.op == "conv2d_db":
            self._layer(instr, 0).bias += float((e_y.sum(axis=(0, 1)) ** 2).sum())
            return
        x, value = self._input(instr)
        per_channel = _channel_norms(instr, x, e_y, self.program.values[instr.operands["w"]])
        layer = self._layer(instr, per_channel.size)
        layer.channels += per_channel * value.scale**2

    def _layer(self, instr: Instr, channels: int) -> LayerScore:
        found = self.sums.layers.setdefault(instr.layer, LayerScore(np.zeros(0)))
        if channels and not found.channels.size:
            found.channels = np.zeros(channels)
        return found

    def _error(self, instr: Instr) -> _Floats:
        name = instr.operands["e_y"]
        index = self.program.values[name].error
        assert index is not None  # the verifier made sure
        exponent = int(self.engine.tensor(EXPONENT).reshape(-1)[index])
        return np.ldexp(self.engine.tensor(name).astype(np.float64), exponent)

    def _input(self, instr: Instr) -> tuple[_Floats, Value]:
        value = self.program.values[instr.operands["x"]]
        x = self.engine.tensor(value.name).astype(np.float64)
        return x - value.zero_point, value


def _channel_norms(instr: Instr, x: _Floats, e_y: _Floats, w: Value) -> _Floats:
    """Sum over outputs and taps of dW ** 2, by input channel; (c_in,)."""
    p = instr.params
    h, width, _ = e_y.shape
    bottom = max(0, (h - 1) * p["sh"] + p["kh"] - p["pt"] - x.shape[0])
    right = max(0, (width - 1) * p["sw"] + p["kw"] - p["pl"] - x.shape[1])
    padded = np.pad(x, ((p["pt"], bottom), (p["pl"], right), (0, 0)))
    groups, c_in = p["groups"], x.shape[2]
    depthwise = groups > 1 and w.shape[2] == 1 and w.shape[0] == c_in
    errors = np.ascontiguousarray(e_y.reshape(h * width, groups, -1).transpose(1, 2, 0))
    norms = np.zeros(c_in)
    for ky in range(p["kh"]):
        for kx in range(p["kw"]):
            rows = slice(ky, ky + (h - 1) * p["sh"] + 1, p["sh"])
            columns = slice(kx, kx + (width - 1) * p["sw"] + 1, p["sw"])
            taps = padded[rows, columns].reshape(h * width, c_in)
            if depthwise:
                norms += (taps * e_y.reshape(h * width, c_in)).sum(axis=0) ** 2
                continue
            inputs = taps.reshape(h * width, groups, -1).transpose(1, 0, 2)
            norms += np.square(errors @ inputs).sum(axis=1).reshape(c_in)
    return norms


def _with_fitted_head(graph: Graph, samples: Sequence[Sample]) -> Graph:
    """The network with a classifier that a few steps of gradient descent fitted to the samples."""
    compiled = compile_program(graph, Plan(head=False))
    head = next(i for i in compiled.program.instrs if i.op == "head")
    value = compiled.program.values[head.operands["x"]]
    engine = Engine(pack(compiled))
    features = np.empty((len(samples), value.count + 1))
    for row, (data, _) in zip(features, samples, strict=True):
        engine.forward(data)
        row[:-1] = (engine.tensor(value.name).reshape(-1) - float(value.zero_point)) * value.scale
        row[-1] = 1.0
    labels = np.array([label for _, label in samples])
    weight = _softmax_regression(features, labels, len(graph.classes))
    node = graph.head
    params = {
        "weight": weight[:, :-1].reshape(node.params["weight"].shape).astype(np.float32),
        "bias": weight[:, -1].astype(np.float32),
    }
    return replace(graph, nodes=(*graph.nodes[:-1], replace(node, params=params)))


def _softmax_regression(features: _Floats, labels: Array, classes: int) -> _Floats:
    """Weights (classes, features) after some full-batch steps from 0, at a rate that is stable."""
    weight = np.zeros((classes, features.shape[1]))
    wanted = np.eye(classes)[labels]
    rate = 2.0 / (features**2).sum(axis=1).mean()
    for _ in range(_HEAD_STEPS):
        logits = features @ weight.T
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        weight -= rate * (p - wanted).T @ features / len(labels)
    return weight
