"""How much the loss depends on each layer's input channels and biases: squared gradient norms.

A small step of gradient descent on a parameter lowers the loss by the rate times the square of its
mean gradient, so that says what training it is worth. The mean of squared gradients would also
count what differs from sample to sample: in early layers that is nearly everything, and training
on it is noise. With N samples the square of the mean g is estimated without bias as
(|sum g|^2 - sum |g|^2) / (N (N - 1)).

The ranking by norm per byte is that of TraDy ("Study of Training Dynamics for Memory-Constrained
Fine-Tuning", 2025). The gradients are those of the int8 backward pass itself, at rate 0: its
errors are read as the engine makes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from mcutrain.compile import Savings, compile_program
from mcutrain.engine.engine import Engine, HookEvent
from mcutrain.engine.gradients import Gradients
from mcutrain.image.pack import pack
from mcutrain.ir.graph import Array, Graph
from mcutrain.ir.program import CompiledProgram
from mcutrain.plan.plan import MAX_PIXELS, Plan
from mcutrain.plan.scheme import trainable_layers
from mcutrain.trainer import calibrated

CALIBRATION = 32
_HEAD_STEPS = 50

Sample = tuple[bytes, int]
_Floats = npt.NDArray[np.float64]


@dataclass
class LayerScore:
    """Squared norms of mean gradients in real units, not below 0.

    Attributes:
        channels: one an input channel (depthwise: channel), as plans count them; empty where the
            weights cannot train.
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
    return watch.scores(len(samples))


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


class _Mean:
    """The squared norm of a mean gradient, by channel: its sums."""

    def __init__(self) -> None:
        self.total: _Floats | None = None
        self.squares: _Floats | None = None

    def add(self, gradient: _Floats) -> None:
        """A sample's gradient, (..., channels)."""
        squares = _norms(gradient)
        if self.total is None or self.squares is None:
            self.total, self.squares = gradient, squares
        else:
            self.total += gradient
            self.squares += squares

    def norms(self, samples: int) -> _Floats:
        """(channels,); samples that were not added had no gradient."""
        if self.total is None or self.squares is None:
            return np.zeros(0)
        unbiased = (_norms(self.total) - self.squares) / (samples * max(1, samples - 1))
        return np.maximum(unbiased, 0.0)


def _norms(gradient: _Floats) -> _Floats:
    return np.asarray(np.square(gradient).reshape(-1, gradient.shape[-1]).sum(axis=0))


class GradientWatch:
    """Adds up gradients while the engine trains."""

    def __init__(self, compiled: CompiledProgram, engine: Engine) -> None:
        self.program = compiled.program
        self._read = Gradients(engine, compiled.program)
        self.weights: dict[str, _Mean] = {}
        self.biases: dict[str, _Mean] = {}

    def scores(self, samples: int) -> Scores:
        """What was found in so many training steps."""
        layers = {
            name: LayerScore(
                self.weights.get(name, _Mean()).norms(samples), float(bias.norms(samples).sum())
            )
            for name, bias in self.biases.items()
        }
        return Scores(layers, samples)

    def note(self, index: int, event: HookEvent) -> None:
        """What the engine calls around each instruction."""
        instr = self.program.instrs[index]
        if event is not HookEvent.BEFORE or instr.op not in ("conv2d_dw", "conv2d_db"):
            return
        if instr.op == "conv2d_db":
            self.biases.setdefault(instr.layer, _Mean()).add(self._read.bias(instr)[:, None])
        else:
            self.weights.setdefault(instr.layer, _Mean()).add(self._read.weight(instr))


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
