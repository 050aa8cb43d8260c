"""Linear maps over windows: what a convolution does between its bias and its input.

Maps are (C, H * W) float32 that hold integers less their zero point, so that a tap outside of the
input contributes 0. Sums of a forward pass are exact below 2^24, in whatever order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mcutrain.engine.build import load

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Geometry:
    """A window over a map.

    Attributes:
        size: (H, W) of the input.
        kernel, stride: (kh, kw), (sh, sw).
        pad: top, left, bottom, right.
    """

    size: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    pad: tuple[int, int, int, int]

    @property
    def output(self) -> tuple[int, int]:
        """(H, W) of the output."""
        (h, w), (kh, kw), (sh, sw), (t, left, b, r) = self.size, self.kernel, self.stride, self.pad
        return (h + t + b - kh) // sh + 1, (w + left + r - kw) // sw + 1

    @property
    def pointwise(self) -> bool:
        """Whether each output pixel sees its own input pixel only."""
        return self.kernel == self.stride == (1, 1) and not any(self.pad)

    def windows(self, x: Floats, outside: float = 0.0) -> Floats:
        """(C, H * W) to (C, kh * kw, Ho * Wo): the taps of each window."""
        if self.pointwise:
            return x[:, None]
        (h, w), (t, left, b, r), (sh, sw) = self.size, self.pad, self.stride
        padded = np.pad(x.reshape(-1, h, w), ((0, 0), (t, b), (left, r)), constant_values=outside)
        view = np.lib.stride_tricks.sliding_window_view(padded, self.kernel, (1, 2))[:, ::sh, ::sw]
        taps = self.kernel[0] * self.kernel[1]
        return view.transpose(0, 3, 4, 1, 2).reshape(len(x), taps, -1)

    def scatter(self, taps: Floats) -> Floats:
        """The transpose of `windows`: (C, kh * kw, Ho * Wo) to (C, H * W), summed."""
        if self.pointwise:
            return taps[:, 0]
        (h, w), (t, left, b, r), (sh, sw) = self.size, self.pad, self.stride
        padded = np.zeros((len(taps), h + t + b, w + left + r), np.float32)
        ho, wo = self.output
        for tap, plane in enumerate(taps.transpose(1, 0, 2)):
            i, j = divmod(tap, self.kernel[1])
            rows, columns = slice(i, i + sh * ho, sh), slice(j, j + sw * wo, sw)
            padded[:, rows, columns] += plane.reshape(-1, ho, wo)
        return padded[:, t : t + h, left : left + w].reshape(len(taps), -1)


class Product(Protocol):
    """A linear map by a weight (groups, C_out / groups, C_in / groups, kh * kw).

    It reads the weight anew at each use.
    """

    def forward(self, x: Floats) -> Floats:
        """(C_in, H * W) to (C_out, Ho * Wo)."""

    def input_gradient(self, g: Floats) -> Floats:
        """(C_out, Ho * Wo) to (C_in, H * W)."""


class Grouped:
    """Any convolution, as one matrix product a group over its windows."""

    def __init__(self, weight: Floats, geometry: Geometry) -> None:
        self._weight = weight
        self._geometry = geometry

    def _matrix(self) -> Floats:
        groups, outputs = self._weight.shape[:2]
        return self._weight.reshape(groups, outputs, -1)

    def _windows(self, x: Floats) -> Floats:
        groups, _, inputs, taps = self._weight.shape
        return self._geometry.windows(x).reshape(groups, inputs * taps, -1)

    def forward(self, x: Floats) -> Floats:
        """As `Product`."""
        y = self._matrix() @ self._windows(x)
        return y.reshape(-1, y.shape[2])

    def input_gradient(self, g: Floats) -> Floats:
        """As `Product`."""
        groups, outputs, inputs, taps = self._weight.shape
        columns = self._matrix().swapaxes(1, 2) @ g.reshape(groups, outputs, -1)
        return self._geometry.scatter(columns.reshape(groups * inputs, taps, -1))


class Depthwise:
    """One input and output channel a group; in C, for numpy has no fast way to it."""

    def __init__(self, weight: Floats, geometry: Geometry) -> None:
        self._weight = weight
        self._kernel = DepthwiseKernel(geometry, len(weight))

    def forward(self, x: Floats) -> Floats:
        """As `Product`."""
        return self._kernel.forward(x, self._weight)

    def input_gradient(self, g: Floats) -> Floats:
        """As `Product`."""
        return self._kernel.input_gradient(g, self._weight)


class DepthwiseKernel:
    """The C functions for one geometry and number of channels."""

    def __init__(self, geometry: Geometry, channels: int) -> None:
        module = load()
        self._ffi, self._lib = module.ffi, module.lib
        (h, w), (ho, wo) = geometry.size, geometry.output
        (kh, kw), (sh, sw), pad = geometry.kernel, geometry.stride, geometry.pad
        numbers = (channels, h, w, kh, kw, sh, sw, pad[0], pad[1], ho, wo)
        self._windows = self._ffi.new("mcutrain_windows *", numbers)
        self._scratch = np.empty(self._lib.mcutrain_depthwise_scratch(self._windows), np.float32)
        self._inputs, self._taps, self._outputs = ((channels, n) for n in (h * w, kh * kw, ho * wo))

    def forward(self, x: Floats, weight: Floats) -> Floats:
        """(C, H * W) and a weight of C * kh * kw to (C, Ho * Wo)."""
        return self._call(self._lib.mcutrain_depthwise, x, weight, self._outputs)

    def input_gradient(self, g: Floats, weight: Floats) -> Floats:
        """(C, Ho * Wo) to (C, H * W)."""
        return self._call(self._lib.mcutrain_depthwise_dx, g, weight, self._inputs)

    def weight_gradient(self, x: Floats, g: Floats) -> Floats:
        """(C, kh * kw)."""
        return self._call(self._lib.mcutrain_depthwise_dw, x, g, self._taps)

    def _call(self, function: Any, a: Floats, b: Floats, shape: tuple[int, int]) -> Floats:
        result = np.empty(shape, np.float32)
        operands = (self._scratch, np.ascontiguousarray(a), np.ascontiguousarray(b), result)
        function(self._windows, *(self._ffi.from_buffer("float[]", o) for o in operands))
        return result


def product_of(weight: Floats, geometry: Geometry) -> Product:
    """The fastest way to the same sums; `weight` as in `Product`."""
    depthwise = weight.shape[1:3] == (1, 1)
    return Depthwise(weight, geometry) if depthwise else Grouped(weight, geometry)


def weight_gradient(geometry: Geometry, groups: int, x: Floats, g: Floats) -> Floats:
    """Gradient of a weight from input (C_in, H * W) and error (C_out, Ho * Wo).

    Returns:
        (groups, C_out / groups, C_in / groups, kh * kw)
    """
    if groups == len(x) == len(g):
        return DepthwiseKernel(geometry, groups).weight_gradient(x, g)[:, None, None]
    windows = geometry.windows(x)
    taps = windows.shape[1]
    rows = windows.reshape(groups, -1, windows.shape[2])
    gradient = g.reshape(groups, -1, g.shape[1]) @ rows.swapaxes(1, 2)
    return gradient.reshape(*gradient.shape[:2], -1, taps)
