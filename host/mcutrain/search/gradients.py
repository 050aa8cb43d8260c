"""How much the loss depends on each layer's input channels and biases: squared gradient norms.

Two squares say different things. The mean of squares is what a parameter could do for single
samples; but much of that is noise, the more the earlier the layer. The square of the mean is what
it does for all of them in one step; but later steps are of use to some of them only. The score is
their geometric mean. With N samples the square of the mean is estimated without bias as
(|sum g|^2 - sum |g|^2) / (N (N - 1)).

Large squares alone mislead: a channel that is hardly ever zero has a large gradient, but most of it
is what a bias could do as well, and there is one of those already. So the inputs of a layer are
taken without their mean over all samples; what remains of a weight's gradient is its own.

The ranking by norm per byte is that of TraDy ("Study of Training Dynamics for Memory-Constrained
Fine-Tuning", 2025), which takes raw means of squares. The gradients are those of the int8 backward
pass itself, at rate 0: its errors are read as the engine makes them.
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
    """Geometric means of the mean squared gradient and the squared mean gradient, in real units.

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


class _Squares:
    """Squares of a layer's gradients, by channel of the last axis: their sums.

    With the mean m of an input channel, the gradient of its weights is g - m b for inputs without
    their mean, where b is the gradient of the biases of the outputs that see the channel. All sums
    follow from those of g and b, whatever m turns out to be.
    """

    def __init__(self, gradient: _Floats) -> None:
        self._total, self._bias_total = np.zeros_like(gradient), np.zeros(gradient.shape[1:])
        self._gradients, self._products, self._biases, self._means = np.zeros(
            (4, gradient.shape[-1])
        )
        self._seen = 0

    def add(self, gradient: _Floats, bias: _Floats, means: _Floats) -> None:
        """A sample's gradients, (taps, outputs, channels) and (outputs, channels), and the means of
        its input channels.
        """
        self._total += gradient
        self._bias_total += bias
        self._gradients += np.square(gradient).sum(axis=(0, 1))
        self._products += (gradient * bias).sum(axis=(0, 1))
        self._biases += len(gradient) * np.square(bias).sum(axis=0)
        self._means += means
        self._seen += 1

    def scores(self, samples: int) -> _Floats:
        """(channels,), not below 0; samples that were not added had no gradient."""
        m = self._means / self._seen
        squares = self._gradients - 2 * m * self._products + m**2 * self._biases
        total = np.square(self._total - m * self._bias_total).sum(axis=(0, 1))
        mean = (total - squares) / (samples * max(1, samples - 1))
        return np.asarray(np.sqrt(np.maximum(squares / samples, 0.0) * np.maximum(mean, 0.0)))


class GradientWatch:
    """Adds up gradients while the engine trains."""

    def __init__(self, compiled: CompiledProgram, engine: Engine) -> None:
        self.program = compiled.program
        self._read = Gradients(engine, compiled.program)
        self._weights: dict[str, _Squares] = {}
        self._biases: dict[str, _Squares] = {}

    def scores(self, samples: int) -> Scores:
        """What was found in so many training steps; a step without gradients counts as zeros."""
        layers = {}
        for name, biases in self._biases.items():
            weights = self._weights.get(name)
            channels = np.zeros(0) if weights is None else weights.scores(samples)
            layers[name] = LayerScore(channels, float(biases.scores(samples)[0]))
        return Scores(layers, samples)

    def note(self, index: int, event: HookEvent) -> None:
        """What the engine calls around each instruction."""
        instr = self.program.instrs[index]
        if event is not HookEvent.BEFORE or instr.op not in ("conv2d_dw", "conv2d_db"):
            return
        bias = self._read.bias(instr)
        if instr.op == "conv2d_db":
            one = bias[None, :, None]  # all biases together, as the weights of a channel are
            none = np.zeros(1)
            self._biases.setdefault(instr.layer, _Squares(one)).add(one, none[None], none)
            return
        gradient, means = self._read.weight(instr), self._read.input_means(instr)
        groups = len(bias) // gradient.shape[1]  # an input channel is seen by its group's outputs
        seen = np.repeat(bias.reshape(groups, -1).T, len(means) // groups, axis=1)
        self._weights.setdefault(instr.layer, _Squares(gradient)).add(gradient, seen, means)


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
    weight = _softmax_regression(features, labels, graph.tensors[graph.output].size)
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
