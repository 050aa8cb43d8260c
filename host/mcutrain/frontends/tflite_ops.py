"""TFLite's operators, translated one by one: `TRANSLATORS` is the list of what is supported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from mcutrain.errors import InputError
from mcutrain.frontends.int8_layers import FULL_RANGE, Int8Weights, int8_weights
from mcutrain.frontends.layout import NO_PAD, Pad
from mcutrain.frontends.tflite_call import (
    ACTIVATION_FIELD,
    Call,
    Importer,
    Value,
    axes_of,
    map_shape_of,
    quantisation,
)
from mcutrain.frontends.tflite_file import FileOperator, FileTensor
from mcutrain.frontends.tflite_names import NONE, RELU, RELU6, RELU_N1_TO_1, SAME
from mcutrain.ir.graph import Array, QParams

_STANDALONE = {"RELU": RELU, "RELU_N1_TO_1": RELU_N1_TO_1, "RELU6": RELU6, "QUANTIZE": NONE}


# --- weights -------------------------------------------------------------------------------------


def _weights(call: Call, ohwi: Array, weight: FileTensor, axis: int) -> Int8Weights:
    c_out = ohwi.shape[0]
    if weight.zero_point.any():
        raise call.refuse("asymmetric weights are not supported", f"'{weight.name}'")
    if weight.scale.size not in (1, c_out) or (weight.scale.size > 1 and weight.axis != axis):
        why = f"'{weight.name}' has {weight.scale.size} scales along dimension {weight.axis}"
        raise call.refuse("weights need one scale, or one an output channel", why)
    x = call.importer.builder.q(call.value(0, pad=True).tensor)
    scale = np.broadcast_to(weight.scale, (c_out,)).copy()
    return int8_weights(ohwi, _bias(call, x.scale * scale), scale, call.name)


def _bias(call: Call, scale: Array) -> Array:
    """int32 biases, which must have the scale s_x * s_w; zeros where there are none."""
    if len(call.op.inputs) < 3 or call.op.inputs[2] < 0:
        return np.zeros(scale.size, np.int32)
    bias = call.constant(2, "INT32")
    if bias.zero_point.any() or bias.scale.size not in (0, 1, scale.size):
        raise call.refuse("biases must be symmetric, with the weights' scales", f"'{bias.name}'")
    if bias.scale.size and np.abs(bias.scale / scale - 1).max() > 1e-3:
        why = f"'{bias.name}' has scale {bias.scale[0]:.6g}, not {scale[0]:.6g}"
        raise call.refuse("the biases' scale must be that of input times weights", why)
    return call.data(bias).reshape(-1).astype(np.int32)


def _ohwi(call: Call) -> tuple[FileTensor, Array]:
    weight = call.constant(1, "INT8")
    data = call.data(weight)
    if data.ndim != 4:
        raise call.refuse("weights must have four dimensions", f"'{weight.name}' {weight.shape}")
    return weight, data


def conv2d_weights(call: Call) -> Int8Weights:
    """Weights of CONV_2D, stored as OHWI."""
    weight, data = _ohwi(call)
    return _weights(call, data, weight, axis=0)


def linear_weights(call: Call) -> Int8Weights:
    """Weights of FULLY_CONNECTED, stored as (C_out, n_in)."""
    weight = call.constant(1, "INT8")
    data = call.data(weight)
    if data.ndim != 2 or call.op.option(1, "b") != 0:
        raise call.refuse("weights must have two dimensions, not shuffled", f"'{weight.name}'")
    return _weights(call, data[:, None, None, :], weight, axis=0)


# --- operators -----------------------------------------------------------------------------------


def _window(call: Call, x: Value, kernel: tuple[int, int], stride: tuple[int, int]) -> Pad:
    """Padding of a window operator: what the file adds before it, and its own."""
    height, width, _ = call.importer.builder.tensors[x.tensor].shape
    if call.op.option(0, "b") != SAME:
        return x.pad
    top, left, bottom, right = x.pad
    own = []
    for size, k, s in zip(
        (height + top + bottom, width + left + right), kernel, stride, strict=True
    ):
        total = max((-(-size // s) - 1) * s + k - size, 0)
        own.append((total // 2, total - total // 2))
    return top + own[0][0], left + own[1][0], bottom + own[0][1], right + own[1][1]


def _conv(call: Call, weights: Int8Weights, groups: int, dilation_field: int) -> Value:
    x = call.value(0, "NHWC", pad=True)
    stride = (call.op.option(2, "i"), call.op.option(1, "i"))
    if any(call.op.option(dilation_field + i, "i", 1) != 1 for i in (0, 1)):
        raise call.refuse("a dilated convolution is not supported")
    kernel = (weights.weight.shape[1], weights.weight.shape[2])
    pad = _window(call, x, kernel, stride)
    if max(pad[0], pad[2]) >= kernel[0] or max(pad[1], pad[3]) >= kernel[1]:
        raise call.refuse("padding must be smaller than the window", f"{pad}, window {kernel}")
    attrs = {"stride": stride, "pad": pad, "groups": groups, **call.limits()}
    return call.emit("conv2d", (x.tensor,), "NHWC", attrs, **weights.params())


def _conv2d(call: Call) -> Value:
    weights = conv2d_weights(call)
    channels = call.importer.builder.tensors[call.value(0, pad=True).tensor].shape[2]
    return _conv(call, weights, max(channels // weights.weight.shape[3], 1), 4)


def _depthwise_conv2d(call: Call) -> Value:
    """Weights are (1, kh, kw, C_out); with a multiplier m, outputs m * c to m * c + m - 1 see c."""
    weight, data = _ohwi(call)
    weights = _weights(call, data.transpose(3, 1, 2, 0), weight, axis=3)
    channels = call.importer.builder.tensors[call.value(0, pad=True).tensor].shape[2]
    return _conv(call, weights, channels, 5)


def _fully_connected(call: Call) -> Value:
    params = linear_weights(call).params()
    return call.emit("linear", (call.flat(0),), axes_of(call.output), call.limits(), **params)


def _add(call: Call) -> Value:
    a, b = call.value(0), call.value(1)
    if a.axes != b.axes:
        raise call.refuse("both inputs must have their axes in one order", f"{a.axes}, {b.axes}")
    return call.emit("add", (a.tensor, b.tensor), a.axes, call.limits())


def _concatenation(call: Call) -> Value:
    values = [call.value(i) for i in range(len(call.op.inputs))]
    axes = {value.axes for value in values}
    axis = call.op.option(0, "i")
    if len(axes) > 1 or values[0].axes[axis] != "C":
        raise call.refuse("supported along channels only", f"axis {axis} of {sorted(axes)}")
    names = tuple(value.tensor for value in values)
    return _then_clamp(call, "concat", names, quantisation(call.output), values[0].axes, {})


def _then_clamp(
    call: Call, op: str, inputs: tuple[str, ...], q: QParams, axes: str, attrs: dict[str, Any]
) -> Value:
    """An operator that makes scale `q`, and a clamp if the file wants another or an activation."""
    limits = call.limits() if call.op.name in ACTIVATION_FIELD else FULL_RANGE
    builder = call.importer.builder
    if limits == FULL_RANGE and quantisation(call.output) == q:
        return Value(builder.emit(op, call.name, inputs, q, attrs), axes)
    name = builder.emit(op, f"{call.name}/{op}", inputs, q, attrs)
    return call.emit("clamp", (name,), axes, limits)


def _pooled(call: Call, op: str, x: Value, axes: str, **attrs: Any) -> Value:
    """A pool: its result has its input's scale."""
    return _then_clamp(call, op, (x.tensor,), call.importer.builder.q(x.tensor), axes, attrs)


def _pool(call: Call, op: str) -> Value:
    x = call.value(0, "NHWC", pad=op == "avgpool")
    stride = (call.op.option(2, "i"), call.op.option(1, "i"))
    kernel = (call.op.option(4, "i"), call.op.option(3, "i"))
    pad = _window(call, x, kernel, stride)
    if op == "avgpool" and pad != x.pad:
        raise call.refuse(
            "an average that leaves out padding is not supported",
            f"padding SAME adds {pad} to its input here; mcutrain's averages count padding",
        )
    return _pooled(call, op, x, "NHWC", kernel=kernel, stride=stride, pad=pad)


def _mean(call: Call) -> Value:
    """A mean over height, width or both, in any order of the axes."""
    x = call.value(0)
    gone = {x.axes[axis] for axis in call.integers(1)}
    if not gone <= {"H", "W"}:
        raise call.refuse("supported over height and width only", f"axes {sorted(gone)}")
    keep = call.op.option(0, "b")
    axes = x.axes if keep else "".join(axis for axis in x.axes if axis not in gone)
    height, width, _ = call.importer.builder.tensors[x.tensor].shape
    kernel = (height if "H" in gone else 1, width if "W" in gone else 1)
    if quantisation(call.output).scale < call.importer.builder.q(x.tensor).scale:
        return _fine_mean(call, x, axes, kernel)
    return _pooled(call, "avgpool", x, axes, kernel=kernel, stride=(1, 1), pad=NO_PAD)


def _fine_mean(call: Call, x: Value, axes: str, kernel: tuple[int, int]) -> Value:
    """A mean that is stored finer than its input: a depthwise convolution with weights of one.

    An average pool has its input's scale, so that it would round away what the file keeps.
    """
    channels = call.importer.builder.tensors[x.tensor].shape[2]
    ones = np.ones((channels, *kernel, 1), np.int8)
    scale = np.full(channels, 1 / (kernel[0] * kernel[1]))
    params = int8_weights(ones, np.zeros(channels, np.int32), scale, call.name).params()
    attrs = {"stride": (1, 1), "pad": NO_PAD, "groups": channels, **FULL_RANGE}
    return call.emit("conv2d", (x.tensor,), axes, attrs, **params)


def _reshape(call: Call) -> Value:
    tensor, axes = call.flat(0), axes_of(call.output)
    shape = map_shape_of(call.output, axes)
    builder = call.importer.builder
    if builder.tensors[tensor].shape == shape:
        return Value(tensor, axes)
    name = builder.emit("reshape", call.name, (tensor,), builder.q(tensor), {"shape": shape})
    return Value(name, axes)


def _transpose(call: Call) -> Value:
    """Nothing moves: the layers that follow see the map with its axes in another order."""
    x, order = call.value(0), call.integers(1)
    if sorted(order) != list(range(len(x.axes))):
        raise call.refuse("the permutation does not fit its input", f"{order} of {x.axes}")
    return replace(x, axes="".join(x.axes[axis] for axis in order))


def _pad(call: Call) -> Value:
    """Zeros that the next convolution or average pool adds itself."""
    x = call.value(0, "NHWC", pad=True)
    builder = call.importer.builder
    if quantisation(call.output) != builder.q(x.tensor):
        raise call.refuse("padding must not change the scale")
    if call.op.name == "PADV2":
        fill = int(call.data(call.constant(2, "INT8")).reshape(-1)[0])
        if fill != builder.q(x.tensor).zero_point:
            raise call.refuse("padding with anything but zero is not supported", f"{fill}")
    amounts = call.integers(1)
    if len(amounts) != 4 or any(amounts[0]) or any(amounts[3]):
        raise call.refuse("supported on height and width only", f"{amounts}")
    (top, bottom), (left, right) = amounts[1:3]
    pad = (x.pad[0] + top, x.pad[1] + left, x.pad[2] + bottom, x.pad[3] + right)
    return replace(x, pad=pad)


def _clamp(call: Call) -> Value:
    """A stand-alone activation function, or another scale."""
    x = call.value(0)
    return call.emit("clamp", (x.tensor,), x.axes, call.limits(_STANDALONE[call.op.name]))


TRANSLATORS: dict[str, Callable[[Call], Value]] = {
    "CONV_2D": _conv2d,
    "DEPTHWISE_CONV_2D": _depthwise_conv2d,
    "FULLY_CONNECTED": _fully_connected,
    "ADD": _add,
    "CONCATENATION": _concatenation,
    "AVERAGE_POOL_2D": lambda call: _pool(call, "avgpool"),
    "MAX_POOL_2D": lambda call: _pool(call, "maxpool"),
    "MEAN": _mean,
    "RESHAPE": _reshape,
    "SQUEEZE": _reshape,
    "EXPAND_DIMS": _reshape,
    "TRANSPOSE": _transpose,
    "PAD": _pad,
    "PADV2": _pad,
    "QUANTIZE": _clamp,
    **dict.fromkeys(("RELU", "RELU6", "RELU_N1_TO_1"), _clamp),
}


def translate(importer: Importer, op: FileOperator) -> None:
    """Add the nodes of one operator.

    Raises:
        UnsupportedError: there is no counterpart; names the tensor.
        InputError: the file contradicts itself.
    """
    if op.outputs[0] in importer.values:
        return  # the conversion of an input
    call = importer.call(op)
    if op.name not in TRANSLATORS:
        raise call.refuse("supported only at the end of a network")
    value = TRANSLATORS[op.name](call)
    made, told = importer.builder.tensors[value.tensor].shape, call.output
    if value.pad == NO_PAD and map_shape_of(told, value.axes) != made:
        raise InputError(
            "the file's shapes do not fit its operators",
            where=call.name,
            why=f"{told.shape} in the file, (H, W, C) = {made} by {op.name}",
        )
    importer.values[op.outputs[0]] = value
