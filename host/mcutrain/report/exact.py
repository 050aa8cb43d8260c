"""The gradients that training in fp32 would see in the steps of a run, for comparison."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mcutrain.engine.engine import Engine
from mcutrain.image.program import program_of
from mcutrain.passes.network import network_of
from mcutrain.plan.scheme import plan_from_dict
from mcutrain.shadow import ShadowNetwork

Floats = npt.NDArray[np.float64]


class ExactGradients:
    """Gradients in fp32 (`mcutrain.shadow`) at the weights that an engine holds at the moment.

    Args:
        engine: runs an image with whole maps.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._program = program_of(engine.image)

    def _shadow(self) -> ShadowNetwork:
        graph = network_of(self._program, self._engine.tensor)
        plan = plan_from_dict(graph, self._program.info["plan"], graph.name)
        return ShadowNetwork(graph, plan)

    def squares(self, sample: bytes, label: int) -> dict[str, Floats]:
        """Squared norms by output channel (of depthwise layers, those that train), of integer
        weights and accumulators; keys are "LAYER weights" and "LAYER biases".

        Args:
            sample: the bytes of the engine's inputs, one after the other.
            label: its class.
        """
        inputs = self._engine.image.inputs
        ends = np.cumsum([t.count for t in inputs])[:-1]
        parts = np.split(np.frombuffer(sample, np.int8), ends)
        maps = {t.name: part.reshape(t.shape) for t, part in zip(inputs, parts, strict=True)}
        shadow = self._shadow()
        shadow.step(maps, label, 0.0, 0.0)
        found: dict[str, Floats] = {}
        for name, layer in shadow.layers.items():
            if layer.trains_bias:
                found[f"{name} biases"] = np.square(layer.bias_gradient, dtype=np.float64)
            if layer.weight is not None:
                squares = np.square(layer.weight_gradient, dtype=np.float64)
                found[f"{name} weights"] = squares.sum((2, 3)).reshape(-1)
        return found
