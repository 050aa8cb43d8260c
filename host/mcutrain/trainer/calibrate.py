"""First exponents of errors, from steps that change nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from mcutrain.compile import PREDICTOR, with_state
from mcutrain.engine.engine import Engine
from mcutrain.image.pack import pack
from mcutrain.ir.program import CompiledProgram


def calibrated(
    compiled: CompiledProgram, samples: Iterable[tuple[bytes, int]], seed: int = 0
) -> CompiledProgram:
    """The program with initial exponent predictors that fit the samples.

    Runs training steps at rate 0 on the host engine. A classifier that is still all zero would
    pass no error on, so that a random one stands in for it meanwhile.

    Args:
        compiled: a program.
        samples: input bytes and label; labels are taken modulo the number of classes.
        seed: of the stand-in.
    """
    program = compiled.program
    if program.errors == 0:
        return compiled
    head = next(i for i in program.instrs if i.op == "head")
    weight = program.values[head.operands["w"]]
    assert weight.data is not None  # lowering gave it its weights
    stand_in = weight.data
    if not stand_in.any():
        rng = np.random.Generator(np.random.PCG64(seed))
        spread = 1 / math.sqrt(weight.shape[2])
        stand_in = rng.normal(0, spread, weight.data.shape).astype(np.float32)
    engine = Engine(pack(with_state(compiled, {weight.name: stand_in})))
    classes = program.values[program.logits].count
    for sample, label in samples:
        engine.train(sample, label % classes, 0.0, 0.0)
    return with_state(compiled, {PREDICTOR: engine.tensor(PREDICTOR).reshape(-1)})
