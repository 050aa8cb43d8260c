"""Linear maps over windows: what a convolution does between its bias and its input.

Maps are (C, H * W) float32 that hold integers less their zero point, so that a tap outside of the
input contributes 0. Sums of a forward pass are exact below 2^24, in whatever order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

# Elements of a depthwise channel's matrix (outputs x inputs) up to which one product by it is
# faster than a sum over taps.
_MATRIX_ELEMENTS = 4096


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

    def windows(self, x: Floats) -> Floats:
        """(C, H * W) to (C, kh * kw, Ho * Wo): the taps of each window."""
        if self.pointwise:
            return x[:, None]
        (h, w), (t, left, b, r), (sh, sw) = self.size, self.pad, self.stride
        padded = np.pad(x.reshape(-1, h, w), ((0, 0), (t, b), (left, r)))
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

    def pairs(self) -> tuple[Ints, Ints, Ints]:
        """For each tap inside the input: its number in the kernel, output pixel, input pixel."""
        inside = np.arange(1, self.size[0] * self.size[1] + 1, dtype=np.float32)[None]
        source = self.windows(inside)[0].astype(np.int64) - 1
        tap, pixel = np.nonzero(source >= 0)
        return tap, pixel, source[tap, pixel]


class Product(Protocol):
    """A linear map by a weight (groups, C_out / groups, C_in / groups, kh * kw).

    It reads the weight anew at each use, unless it was made for a frozen one.
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
    """One input and output channel a group: a sum over taps."""

    def __init__(self, weight: Floats, geometry: Geometry) -> None:
        self._weight = weight
        self._geometry = geometry

    def forward(self, x: Floats) -> Floats:
        """As `Product`."""
        return np.asarray(np.einsum("ctp,ct->cp", self._geometry.windows(x), self._weight[:, 0, 0]))

    def input_gradient(self, g: Floats) -> Floats:
        """As `Product`."""
        return self._geometry.scatter(self._weight[:, 0, 0, :, None] * g[:, None])


class DepthwiseMatrices:
    """A frozen depthwise convolution of a small map: each channel's window sums as one matrix."""

    def __init__(self, weight: Floats, geometry: Geometry) -> None:
        self._weight = weight
        tap, pixel, source = geometry.pairs()
        (h, w), (ho, wo) = geometry.size, geometry.output
        self._matrices = np.zeros((len(weight), ho * wo, h * w), np.float32)
        self._matrices[:, pixel, source] = weight[:, 0, 0, tap]

    def forward(self, x: Floats) -> Floats:
        """As `Product`."""
        return (self._matrices @ x[:, :, None])[:, :, 0]

    def input_gradient(self, g: Floats) -> Floats:
        """As `Product`."""
        return (g[:, None] @ self._matrices)[:, 0]


def product_of(weight: Floats, geometry: Geometry, frozen: bool) -> Product:
    """The fastest way to the same sums; `weight` as in `Product`."""
    if weight.shape[1:3] != (1, 1):
        return Grouped(weight, geometry)
    (h, w), (ho, wo) = geometry.size, geometry.output
    if frozen and h * w * ho * wo <= _MATRIX_ELEMENTS:
        return DepthwiseMatrices(weight, geometry)
    return Depthwise(weight, geometry)


def weight_gradient(geometry: Geometry, groups: int, x: Floats, g: Floats) -> Floats:
    """Gradient of a weight from input (C_in, H * W) and error (C_out, Ho * Wo).

    Returns:
        (groups, C_out / groups, C_in / groups, kh * kw)
    """
    windows = geometry.windows(x)
    taps = windows.shape[1]
    if groups == len(x) == len(g):
        return np.asarray(np.einsum("ctp,cp->ct", windows, g)[:, None, None])
    rows = windows.reshape(groups, -1, windows.shape[2])
    gradient = g.reshape(groups, -1, g.shape[1]) @ rows.swapaxes(1, 2)
    return gradient.reshape(*gradient.shape[:2], -1, taps)
