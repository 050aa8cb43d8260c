"""Both trainers behind one face, so that one loop drives them over the same samples."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mcutrain.engine import CachedEngine
from mcutrain.image.status import DivergedError
from mcutrain.ir import arith
from mcutrain.ir.graph import Array, Graph
from mcutrain.ir.program import CompiledProgram
from mcutrain.plan import Plan
from mcutrain.shadow import ShadowNetwork


class Learner(Protocol):
    """Trains in place, from the network's initial weights on."""

    def step(self, prefix: bytes, label: int, rate: float, head_rate: float) -> None:
        """One step; the rates are for one sample.

        Raises:
            DivergedError: a logit is not finite.
        """

    def predict(self, prefix: bytes) -> npt.NDArray[np.float32]:
        """Logits (classes)."""


class Int8Learner:
    """The arithmetic of an image."""

    def __init__(self, engine: CachedEngine, seed: int) -> None:
        self._engine = engine
        engine.reset(seed)

    def step(self, prefix: bytes, label: int, rate: float, head_rate: float) -> None:
        """As `Learner`."""
        self._engine.train(prefix, label, rate, head_rate)

    def predict(self, prefix: bytes) -> npt.NDArray[np.float32]:
        """As `Learner`."""
        return self._engine.forward(prefix)


class ShadowLearner:
    """The fp32 shadow, on the same prefixes."""

    def __init__(self, engine: CachedEngine, graph: Graph, plan: Plan, scaled: bool) -> None:
        self._network = ShadowNetwork(graph, plan, scaled)
        self._places = {}
        start = 0
        for tensor in engine.boundary:
            self._places[tensor.name] = (slice(start, start + tensor.count), tensor.shape)
            start += tensor.count

    def _maps(self, prefix: bytes) -> dict[str, Array]:
        whole = np.frombuffer(prefix, np.int8)
        places = ((name, self._places[name]) for name in self._network.boundary)
        return {name: whole[place].reshape(shape) for name, (place, shape) in places}

    def step(self, prefix: bytes, label: int, rate: float, head_rate: float) -> None:
        """As `Learner`."""
        result = self._network.step(self._maps(prefix), label, rate, head_rate)
        if not np.isfinite(result.loss):
            raise DivergedError("the loss of the fp32 shadow is not finite")

    def predict(self, prefix: bytes) -> npt.NDArray[np.float32]:
        """As `Learner`."""
        return self._network.predict(self._maps(prefix))

    def map_of(self, prefix: bytes, name: str) -> Array:
        """A tensor of the forward pass as int8 (H, W, C)."""
        return self._network.map_of(self._maps(prefix), name)


def unscaled(graph: Graph, compiled: CompiledProgram) -> CompiledProgram:
    """The program without quantization-aware scaling: each integer follows its own gradient.

    The constant of a weight becomes s_x * s_w instead of s_x / s_w, that of a bias s_x * s_w
    instead of 1 / (s_x * s_w).
    """
    values = dict(compiled.program.values)
    for instr in compiled.program.instrs:
        if instr.op not in ("conv2d_dw", "conv2d_db"):
            continue
        node = graph.node(instr.layer)
        q = graph.tensors[node.inputs[0]].q
        assert q is not None
        mant, exp = (instr.operands[slot] for slot in ("mant", "exp"))
        product = q.scale * np.asarray(node.params["w_scale"], np.float64)
        present: Any = values[mant].data
        fixed = arith.fixed(np.where(present.reshape(-1) == 0, 0.0, product), node.name)
        new: Iterable[tuple[str, Array]] = zip((mant, exp), fixed, strict=True)
        for name, data in new:
            values[name] = replace(values[name], data=data.reshape(present.shape))
    return replace(compiled, program=replace(compiled.program, values=values))
