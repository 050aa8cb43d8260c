"""What each network operator computes in real numbers: the references of `mcutrain.ir.ops`.

Maps are (N, H, W, C) float32 or float64 and results have the dtype of the first input. Padding
reads 0 (max pools: nothing). Written for calibration, so whole batches go through matrix products.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mcutrain.ir.graph import Array, Node


def _windows(x: Array, node: Node, kernel: tuple[int, int], fill: float) -> Array:
    """Strided view (N, H_out, W_out, C, kh, kw) of the padded input."""
    top, left, bottom, right = node.attrs["pad"]
    sh, sw = node.attrs["stride"]
    if top or left or bottom or right:
        x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)
    view = np.lib.stride_tricks.sliding_window_view(x, kernel, axis=(1, 2))
    return view[:, ::sh, ::sw]


def _clamped(y: Array, node: Node) -> Array:
    """`y` within the node's folded clamp; an open side is None."""
    lo, hi = node.attrs.get("clamp", (None, None))
    return y if lo is None and hi is None else np.clip(y, lo, hi)


def conv2d(node: Node, xs: Sequence[Array]) -> Array:
    """Grouped 2-D convolution, bias, clamp. Depthwise is groups = C_in."""
    x = xs[0]
    weight = node.params["weight"].astype(x.dtype)
    c_out, kh, kw, c_group = weight.shape
    groups = node.attrs["groups"]
    windows = _windows(x, node, (kh, kw), 0.0)
    if c_group == 1 and c_out == groups:
        y = np.zeros(windows.shape[:4], x.dtype)
        for ky in range(kh):
            for kx in range(kw):
                y += windows[..., ky, kx] * weight[:, ky, kx, 0]
    else:
        per = c_out // groups
        parts = []
        for g in range(groups):
            columns = windows[:, :, :, g * c_group : (g + 1) * c_group]
            block = weight[g * per : (g + 1) * per].transpose(3, 1, 2, 0)
            parts.append(np.tensordot(columns, block, axes=3))
        y = np.concatenate(parts, axis=-1)
    return _clamped(y + node.params["bias"].astype(x.dtype), node)


def linear(node: Node, xs: Sequence[Array]) -> Array:
    """Matrix product with the input flat in HWC order, bias, clamp."""
    x = xs[0].reshape(xs[0].shape[0], -1)
    weight = node.params["weight"].astype(x.dtype)
    y = x @ weight.reshape(weight.shape[0], -1).T + node.params["bias"].astype(x.dtype)
    return _clamped(y, node)[:, None, None, :]


def add(node: Node, xs: Sequence[Array]) -> Array:
    """Sum of two maps of one shape, clamp."""
    return _clamped(xs[0] + xs[1], node)


def concat(node: Node, xs: Sequence[Array]) -> Array:  # noqa: ARG001 (one signature for all operators)
    """Maps of one (H, W), one after the other along C."""
    return np.concatenate(list(xs), axis=-1)


def clamp(node: Node, xs: Sequence[Array]) -> Array:
    """A clamp that no producer could take over."""
    return _clamped(xs[0], node)


def avgpool(node: Node, xs: Sequence[Array]) -> Array:
    """Mean of each window; padding counts as 0 and is counted."""
    kernel = tuple(node.attrs["kernel"])
    return np.asarray(_windows(xs[0], node, kernel, 0.0).mean(axis=(-2, -1)), xs[0].dtype)


def maxpool(node: Node, xs: Sequence[Array]) -> Array:
    """Largest value of each window's taps inside the input."""
    kernel = tuple(node.attrs["kernel"])
    return np.asarray(_windows(xs[0], node, kernel, -np.inf).max(axis=(-2, -1)), xs[0].dtype)
