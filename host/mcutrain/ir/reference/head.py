"""Classifier and loss in binary32 (SPEC-arithmetic, sections 7, 9 and 10).

Every sum is a loop over its index: `np.sum`, `np.dot` and `@` would add in another order.
"""

from __future__ import annotations

import numpy as np

from mcutrain.errors import InputError
from mcutrain.ir import arith
from mcutrain.ir.program import Instr
from mcutrain.ir.reference.errors import saturate
from mcutrain.ir.reference.runtime import Memory, Runtime, error_index


def _features(instr: Instr, memory: Memory) -> arith.Floats:
    x = memory.value(instr, "x")
    offset = (memory.wide(instr, "x").reshape(-1) - x.zero_point).astype(np.float32)
    return np.asarray(offset * np.float32(x.scale), np.float32)


def _weights(instr: Instr, memory: Memory, classes: int) -> arith.Floats:
    return memory.read(instr, "w").reshape(classes, -1)


def refuse_not_finite(layer: str, values: arith.Floats, what: str) -> None:
    """Raise InputError unless every value is finite."""
    if not np.isfinite(values).all():
        raise InputError(
            f"{what} of the classifier is not finite",
            where=layer,
            hint="train with a smaller rate for the classifier",
        )


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def head(instr: Instr, memory: Memory, _: Runtime) -> None:
    """Logits of the features."""
    xf = _features(instr, memory)
    logits = memory.read(instr, "b").reshape(-1).copy()
    weights = _weights(instr, memory, logits.size)
    for c in range(xf.size):
        logits += weights[:, c] * xf[c]
    memory.read(instr, "logits").reshape(-1)[:] = logits


@np.errstate(over="ignore", under="ignore")
def loss(instr: Instr, memory: Memory, runtime: Runtime) -> None:
    """Softmax cross-entropy, its derivative, and the predicted class."""
    logits = memory.read(instr, "logits").reshape(-1).copy()
    refuse_not_finite(instr.layer, logits, "an output")
    largest = logits.max()
    p = arith.exp_f32(logits - largest)
    total = np.float32(0)
    for value in p:
        total += value
    runtime.loss = arith.log_f32(total) + (largest - logits[runtime.label])
    runtime.predicted = int(np.argmax(logits))
    target = np.zeros_like(p)
    target[runtime.label] = 1
    memory.read(instr, "df").reshape(-1)[:] = p / total - target


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def head_dx(instr: Instr, memory: Memory, runtime: Runtime) -> None:
    """The top error: of the features, in int8, with the step's L_top."""
    df = memory.read(instr, "df").reshape(-1)
    weights = _weights(instr, memory, df.size)
    df_x = np.zeros(weights.shape[1], np.float32)
    for j in range(df.size):
        df_x += weights[j] * df[j]
    memory.read(instr, "scratch").reshape(-1)[:] = df_x
    refuse_not_finite(instr.layer, df_x, "an error")
    amax = np.abs(df_x).max()
    e, runtime.l_top = arith.top_exponent(amax)
    runtime.exponent[error_index(memory, instr.operands["e_x"])] = e
    v = np.zeros(df_x.size, np.int64)
    if amax >= arith.SMALLEST_NORMAL:
        half = (16 - e) >> 1
        scaled = (df_x * np.float32(2.0**half)) * np.float32(2.0 ** (16 - e - half))
        v = (np.trunc(scaled).astype(np.int64) + runtime.random(instr, v.size)) >> 16
    shape = memory.value(instr, "e_x").shape
    saturate(instr, memory, runtime, v.reshape(shape), df_x.astype(np.float64).reshape(shape))


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def head_dw(instr: Instr, memory: Memory, runtime: Runtime) -> None:
    """One step of the classifier."""
    df = memory.read(instr, "df").reshape(-1)
    xf = _features(instr, memory)
    weights, bias = _weights(instr, memory, df.size), memory.read(instr, "b").reshape(-1)
    step = df * np.float32(runtime.lr_head)
    weights -= step[:, None] * xf
    bias -= step
    shape = memory.value(instr, "w").shape
    runtime.gradients[instr.operands["w"]] = np.outer(df, xf).astype(np.float64).reshape(shape)
    runtime.gradients[instr.operands["b"]] = df.astype(np.float64)
