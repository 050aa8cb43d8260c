"""A float graph and ranges into an int8 graph (docs/SPEC-arithmetic.md, sections 1, 2 and 4).

Nodes are taken in order, since a layer's weight scales depend on its input's scale (its biases must
fit int32) and its output's scale on both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from mcutrain.errors import InputError, UsageError
from mcutrain.ir import arith
from mcutrain.ir.graph import Array, Graph, Node, QParams, Tensor
from mcutrain.ir.ops import OPS
from mcutrain.ir.verify import is_quantised, verify
from mcutrain.quantize.calibrate import STEPS, Range, calibrate
from mcutrain.quantize.inputs import PIXEL_ZERO_POINT, Samples, named

WEIGHT_MAX = 127
BIAS_LIMIT = 2**29  # leaves the accumulator room for z_x * sum(w) and for the products
DEAD_INPUT_SCALE = 1 / STEPS  # of an input that was 0 in all samples


def quantize(
    graph: Graph, samples: Samples, *, method: str = "mse", pixel_scale: float = 1 / 255
) -> Graph:
    """Quantise a float graph; the classifier stays float32.

    Args:
        graph: a float graph, not changed.
        samples: data as the network will get them, (N, H, W, C), or one such array by input name.
            An input whose samples are uint8 gets q = pixel - 128 with the scale `pixel_scale`.
        method: see `calibrate`.
        pixel_scale: real size of one step of uint8 data, as the float network was trained.

    Raises:
        InputError: the samples do not fit; or the graph is quantised already.
        UnsupportedError: a layer cannot be computed without overflow; names it.
        UsageError: unknown method, or a pixel scale that is not positive.
    """
    if is_quantised(graph):
        raise InputError("the network is quantised already", where=graph.name)
    if not (np.isfinite(pixel_scale) and pixel_scale > 0):
        raise UsageError(f"the pixel scale must be positive, got {pixel_scale}")
    data = named(graph, samples)
    ranges = calibrate(graph, data, method=method, pixel_scale=pixel_scale)
    tensors: dict[str, Tensor] = {}
    for name in graph.inputs:
        pixels = data[name].dtype == np.uint8
        q = QParams(pixel_scale, PIXEL_ZERO_POINT) if pixels else qparams(ranges[name])
        tensors[name] = replace(graph.tensors[name], q=q)
    nodes = []
    for node in graph.nodes[:-1]:
        made, q = _quantised(node, tensors, ranges)
        nodes.append(made)
        tensors[node.output] = replace(graph.tensors[node.output], q=q)
    tensors[graph.output] = graph.tensors[graph.output]
    return verify(replace(graph, tensors=tensors, nodes=(*nodes, graph.head)))


def qparams(wanted: Range, least_scale: float = 0.0) -> QParams:
    """The scale and zero point that represent a range, 0 exactly among them.

    Args:
        wanted: the range; empty if the tensor was 0 in all samples.
        least_scale: finer steps than this would be lost on the accumulator.
    """
    scale = max((wanted.hi - wanted.lo) / STEPS, least_scale) or DEAD_INPUT_SCALE
    zero_point = round(-128 - wanted.lo / scale)
    return QParams(scale, min(max(zero_point, -128), 127))


def _quantised(
    node: Node, tensors: Mapping[str, Tensor], ranges: Mapping[str, Range]
) -> tuple[Node, QParams]:
    spec = OPS[node.op]
    inputs = [_q(tensors[name]) for name in node.inputs]
    if spec.same_q:
        return node, inputs[0]
    if not spec.params:
        # A step of an add's or rescale's sum is worth an input step; 1/128 of one is below any use.
        q = qparams(ranges[node.output], max(x.scale for x in inputs) / 128)
        return replace(node, attrs=_limits(node, q)), q
    w_scale = weight_scales(node, inputs[0].scale)
    q = qparams(ranges[node.output], 2 * inputs[0].scale * float(w_scale.max()))
    params = _int8_params(node, inputs[0], w_scale, q)
    return replace(node, attrs=_limits(node, q), params=params), q


def _q(tensor: Tensor) -> QParams:
    assert tensor.q is not None
    return tensor.q


def _limits(node: Node, q: QParams) -> dict[str, object]:
    """The attributes with the folded clamp as int8 limits of the output."""
    attrs = {key: value for key, value in node.attrs.items() if key != "clamp"}
    if not OPS[node.op].clamps:
        return attrs
    lo, hi = node.attrs.get("clamp", (None, None))
    steps = [-128 if lo is None else _step(lo, q), 127 if hi is None else _step(hi, q)]
    return {**attrs, "lo": steps[0], "hi": steps[1]}


def _step(value: float, q: QParams) -> int:
    return int(min(max(round(value / q.scale) + q.zero_point, -128), 127))


def weight_scales(node: Node, input_scale: float) -> Array:
    """One scale an output channel, float64 (C_out,): max |w| / 127, larger where the bias needs it.

    A channel without weights gets the layer's median scale, so that training can wake it up.
    """
    weight = node.params["weight"].astype(np.float64)
    scale = np.abs(weight).reshape(len(weight), -1).max(axis=1) / WEIGHT_MAX
    alive = scale > 0
    scale[~alive] = np.median(scale[alive]) if alive.any() else 1 / WEIGHT_MAX
    bias = np.abs(node.params["bias"].astype(np.float64))
    return np.asarray(np.maximum(scale, bias / (input_scale * BIAS_LIMIT)))


def _int8_params(node: Node, x: QParams, w_scale: Array, y: QParams) -> dict[str, Array]:
    real = node.params["weight"].astype(np.float64)
    weight = np.rint(real / w_scale[:, None, None, None])
    weight = np.clip(weight, -WEIGHT_MAX, WEIGHT_MAX).astype(np.int8)
    rows = weight.reshape(len(weight), -1).astype(np.int64)
    bias = np.rint(node.params["bias"].astype(np.float64) / (x.scale * w_scale)).astype(np.int64)
    # The bound of section 4 for frozen weights; where some train, the compiler tightens it.
    _, shift = arith.multiplier(x.scale * w_scale / y.scale, node.name)
    reach = arith.reach(np.abs(rows).sum(axis=1), 0)
    bound = arith.bias_bound(shift, reach, node.name).astype(np.int64)
    offset = x.zero_point * rows.sum(axis=1)
    bias = np.clip(bias - offset, -bound, bound) + offset
    return {"weight": weight, "bias": bias.astype(np.int32), "w_scale": w_scale}
