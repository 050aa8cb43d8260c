"""Sliding windows over (H, W, C) maps, and exact matrix products of integers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.ir.arith import Ints
from mcutrain.ir.graph import Shape
from mcutrain.ir.program import Instr


def _tap_slices(instr: Instr, out: Shape) -> Iterator[tuple[slice, slice]]:
    """For each tap in (ky, kx) order: the padded rows and columns it reads, one an output pixel."""
    p = instr.params
    for ky in range(p["kh"]):
        for kx in range(p["kw"]):
            rows = slice(ky, ky + p["sh"] * (out[0] - 1) + 1, p["sh"])
            yield rows, slice(kx, kx + p["sw"] * (out[1] - 1) + 1, p["sw"])


def _padded_shape(instr: Instr, x: Shape, out: Shape) -> Shape:
    """Shape with the padding on top and left, and all rows and columns that a window reads."""
    p = instr.params
    h = max(p["pt"] + x[0], p["sh"] * (out[0] - 1) + p["kh"])
    w = max(p["pl"] + x[1], p["sw"] * (out[1] - 1) + p["kw"])
    return h, w, x[2]


def gather_taps(x: npt.NDArray[Any], instr: Instr, out: Shape, fill: int) -> Ints:
    """(H_out, W_out, kh * kw, C): what each output's window reads; `fill` outside the map."""
    shape: Shape = x.shape[0], x.shape[1], x.shape[2]
    padded = np.full(_padded_shape(instr, shape, out), fill, np.int64)
    top, left = instr.params["pt"], instr.params["pl"]
    padded[top : top + shape[0], left : left + shape[1]] = x
    return np.stack([padded[tap] for tap in _tap_slices(instr, out)], axis=2)


def scatter_taps(taps: Ints, instr: Instr, x: Shape) -> Ints:
    """The transpose of `gather_taps`: (H_out, W_out, kh * kw, C) added up where it was read."""
    out: Shape = taps.shape[0], taps.shape[1], taps.shape[3]
    padded = np.zeros(_padded_shape(instr, x, out), np.int64)
    for t, tap in enumerate(_tap_slices(instr, out)):
        padded[tap] += taps[:, :, t]
    top, left = instr.params["pt"], instr.params["pl"]
    return padded[top : top + x[0], left : left + x[1]]


def product(a: Ints, b: Ints) -> Ints:
    """a @ b of integers whose partial sums stay below 2^53: binary64 is exact there, and fast."""
    result: Ints = np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64)
    return result
