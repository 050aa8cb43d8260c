"""Gradients of a training step, in real units, from the errors and maps that an engine holds.

An image has no gradients in memory: an update multiplies an error with a saved input and changes
the weight at once. So they are computed anew, before the update, from the same int8 tensors.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mcutrain.compile import EXPONENT
from mcutrain.engine.engine import Engine
from mcutrain.ir.program import Instr, Program, Value

Floats = npt.NDArray[np.float64]


class Gradients:
    """Reads gradients before an update runs (conv2d_dw, conv2d_db).

    Args:
        engine: runs the program.
        program: of the engine's image, with the names of its tensors.
    """

    def __init__(self, engine: Engine, program: Program) -> None:
        self._engine = engine
        self._program = program

    def bias(self, instr: Instr) -> Floats:
        """dL/d(bias), (outputs,), of a conv2d_db."""
        return np.asarray(self._error(instr).sum(axis=(0, 1)))

    def weight(self, instr: Instr) -> Floats:
        """dL/d(weight) of a conv2d_dw, (taps, outputs that see an input channel, c_in)."""
        error = self._error(instr)
        if "chan" in instr.operands:  # of a depthwise layer that trains in part
            error = error[:, :, self._engine.tensor(instr.operands["chan"]).reshape(-1)]
        w = self._program.values[instr.operands["w"]]
        return _weight_gradient(instr, self._input(instr), error, w)

    def input_means(self, instr: Instr) -> Floats:
        """Means over the map of what a conv2d_dw multiplies errors with, (c_in,)."""
        return np.asarray(self._input(instr).mean(axis=(0, 1)))

    def _input(self, instr: Instr) -> Floats:
        x = self._program.values[instr.operands["x"]]
        centred = self._engine.tensor(x.name).astype(np.float64) - x.zero_point
        return np.asarray(centred * x.scale)

    def _error(self, instr: Instr) -> Floats:
        name = instr.operands["e_y"]
        index = self._program.values[name].error
        assert index is not None  # the verifier made sure
        exponent = int(self._engine.tensor(EXPONENT).reshape(-1)[index])
        return np.asarray(np.ldexp(self._engine.tensor(name).astype(np.float64), exponent))


def is_depthwise(instr: Instr, channels: int, w: Value) -> bool:
    """Whether each of the trained input channels has a kernel of its own."""
    return bool(instr.params["groups"] > 1 and w.shape[2] == 1 and w.shape[0] == channels)


def _weight_gradient(instr: Instr, x: Floats, e_y: Floats, w: Value) -> Floats:
    """dW as (taps, outputs that see an input channel, c_in)."""
    p = instr.params
    h, width, _ = e_y.shape
    bottom = max(0, (h - 1) * p["sh"] + p["kh"] - p["pt"] - x.shape[0])
    right = max(0, (width - 1) * p["sw"] + p["kw"] - p["pl"] - x.shape[1])
    padded = np.pad(x, ((p["pt"], bottom), (p["pl"], right), (0, 0)))
    groups, c_in = p["groups"], x.shape[2]
    depthwise = is_depthwise(instr, c_in, w)
    found = []
    for ky in range(p["kh"]):
        for kx in range(p["kw"]):
            rows = slice(ky, ky + (h - 1) * p["sh"] + 1, p["sh"])
            columns = slice(kx, kx + (width - 1) * p["sw"] + 1, p["sw"])
            taps = padded[rows, columns].reshape(h * width, c_in)
            if depthwise:
                found.append((taps * e_y.reshape(h * width, c_in)).sum(axis=0)[None])
                continue
            errors = e_y.reshape(h * width, groups, -1).transpose(1, 2, 0)
            inputs = taps.reshape(h * width, groups, -1).transpose(1, 0, 2)
            found.append((errors @ inputs).transpose(1, 0, 2).reshape(-1, c_in))
    return np.stack(found)
