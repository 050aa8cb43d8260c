"""A network that trains as the published simulator does, from where its plan begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mcutrain.ir.graph import Array, Graph
from mcutrain.plan import Plan
from mcutrain.shadow.layers import Conv, layer_of, to_map
from mcutrain.shadow.windows import Floats


@dataclass(frozen=True)
class Result:
    """Cross-entropy and largest logit of a step before its update."""

    loss: float
    predicted: int


class ShadowNetwork:
    """fp32 shadow weights over an int8 forward pass; stochastic gradient descent, one sample a
    step, no momentum.

    Args:
        graph: a quantised network.
        plan: what trains; its `fraction_bits` mean nothing here.
        scaled: whether gradients are divided by the squared scales (quantization-aware scaling).

    Attributes:
        boundary: the tensors that `step` and `predict` take: those which the part that trains
            reads and which no training changes.
        layers: name -> trained layer, with its gradients of the last step.

    Raises:
        InputError: the plan does not fit the network.
    """

    def __init__(self, graph: Graph, plan: Plan, scaled: bool = True) -> None:
        plan.check(graph)
        self._graph, self._scaled = graph, scaled
        moving: set[str] = set()
        self._nodes = []
        for node in graph.nodes[:-1]:
            own = node.name in plan.weights or node.name in plan.biases
            if own or not moving.isdisjoint(node.inputs):
                moving.add(node.output)
                wanted = [x in moving for x in node.inputs]
                self._nodes.append((node, layer_of(graph, node, plan), wanted))
        read = [x for node, _, _ in self._nodes for x in node.inputs] + list(graph.head.inputs)
        self.boundary = tuple(dict.fromkeys(x for x in read if x not in moving))
        layers = {n.name: layer for n, layer, _ in self._nodes if isinstance(layer, Conv)}
        self.layers = {name: layer for name, layer in layers.items() if layer.trains}
        self._features = graph.head.inputs[0]
        self._trains_head = plan.head
        self._head_grad = len(self.layers) > 0
        self._load_head()

    def _load_head(self) -> None:
        tensor, params = self._graph.tensors[self._features], self._graph.head.params
        assert tensor.q is not None
        self._feature_scale = np.float32(tensor.q.scale)
        h, w, c = tensor.shape
        classes = len(params["bias"])
        weight = params["weight"].reshape(classes, h, w, c).transpose(0, 3, 1, 2)
        #: (classes, C * H * W) and (classes,), float32; updated in place.
        self.head_weight: Floats = np.ascontiguousarray(weight).reshape(classes, -1).copy()
        self.head_bias: Floats = params["bias"].astype(np.float32)

    def predict(self, boundary: Mapping[str, Array]) -> Floats:
        """Logits (classes) of a sample: int8 (H, W, C) for each name in `boundary`."""
        return np.asarray(self.head_weight @ self.features(boundary) + self.head_bias)

    def features(self, boundary: Mapping[str, Array]) -> Floats:
        """What the classifier sees: real numbers (C * H * W)."""
        return self._forward(boundary)[0]

    def map_of(self, boundary: Mapping[str, Array], name: str) -> Array:
        """A tensor of the forward pass as int8 (H, W, C)."""
        tensor = self._graph.tensors[name]
        assert tensor.q is not None
        h, w, c = tensor.shape
        integers = self._forward(boundary)[1][name] + np.float32(tensor.q.zero_point)
        return np.asarray(integers.astype(np.int8).reshape(c, h, w).transpose(1, 2, 0))

    def _forward(self, boundary: Mapping[str, Array]) -> tuple[Floats, dict[str, Floats]]:
        """Real features (C * H * W), and the maps of all tensors."""
        maps = {}
        for name in self.boundary:
            q = self._graph.tensors[name].q
            assert q is not None
            maps[name] = to_map(boundary[name], q)
        for node, layer, _ in self._nodes:
            maps[node.output] = layer.forward([maps[x] for x in node.inputs])
        return maps[self._features].reshape(-1) * self._feature_scale, maps

    def step(
        self, boundary: Mapping[str, Array], label: int, rate: float, head_rate: float
    ) -> Result:
        """One step on one sample: int8 (H, W, C) for each name in `boundary`."""
        features, maps = self._forward(boundary)
        logits = self.head_weight @ features + self.head_bias
        exponentials = np.exp(logits - logits.max())
        total = exponentials.sum()
        result = Result(float(np.log(total) - (logits[label] - logits.max())), int(logits.argmax()))
        df = exponentials / total
        df[label] -= 1
        if self._head_grad:
            self._backward((self.head_weight.T @ df) * self._feature_scale, maps)
        if self._trains_head:
            df *= np.float32(head_rate)
            self.head_weight -= df[:, None] * features
            self.head_bias -= df
        for layer in self.layers.values():
            layer.update(rate, self._scaled)
        return result

    def _backward(self, features: Floats, maps: Mapping[str, Floats]) -> None:
        """Leaves its gradients in each layer."""
        errors: dict[str, Any] = {self._features: features.reshape(maps[self._features].shape)}
        for node, layer, wanted in reversed(self._nodes):
            if node.output not in errors:
                continue
            for name, g in zip(
                node.inputs, layer.backward(errors.pop(node.output), wanted), strict=True
            ):
                if g is not None:
                    shaped = g.reshape(maps[name].shape)
                    errors[name] = errors[name] + shaped if name in errors else shaped
