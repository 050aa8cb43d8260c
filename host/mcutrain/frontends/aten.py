"""PyTorch's operators, translated one by one: `TRANSLATORS` is the list of what is supported.

Works on a functionalised export, so nothing is changed in place. Knows PyTorch only by the names
and arguments of its operators: nothing here imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mcutrain.errors import UnsupportedError
from mcutrain.frontends.layout import NO_PAD, Order, Pad, Value, flat_order, map_shape, reshaped
from mcutrain.ir.graph import Array, Node, Tensor
from mcutrain.ir.verify import MAX_WINDOW

SUPPORTED = (
    "Conv1d/2d, Linear, BatchNorm1d/2d, ReLU, ReLU6, Hardtanh, clamp, +, cat along channels, "
    "AvgPool1d/2d, AdaptiveAvgPool1d/2d, MaxPool1d/2d, mean over height and width, "
    "zero padding before a convolution, flatten, view, Dropout, Identity, a softmax at the end"
)
NO_PAD_HERE = "zero padding is supported only before a convolution or an average pool"


@dataclass(frozen=True, eq=False)
class Call:
    """One call in the traced network.

    Attributes:
        layer: the user's name for it: module path, or module path and operator.
        args: arguments by name: `Value`, weights as arrays, plain values.
        shape: the result's shape without the batch.
        at_end: only the network's output uses the result.
    """

    layer: str
    args: Mapping[str, Any]
    shape: tuple[int, ...]
    at_end: bool

    def __getitem__(self, name: str) -> Any:
        return self.args[name]

    def refuse(
        self, message: str, why: str | None = None, hint: str | None = None
    ) -> UnsupportedError:
        """An error that names the user's layer."""
        return UnsupportedError(message, where=self.layer, why=why, hint=hint)


@dataclass(eq=False)
class Builder:
    """The graph as it grows. `scales` names the nodes that stand for a batch norm."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    scales: list[str] = field(default_factory=list)

    def emit(
        self,
        op: str,
        call: Call,
        inputs: Sequence[Value],
        attrs: Mapping[str, Any] | None = None,
        params: Mapping[str, Array] | None = None,
        order: Order | None = None,
    ) -> Value:
        """Add a node and its tensor of the call's shape, its elements in `order`."""
        for x in inputs:
            if x.pad != NO_PAD and op not in ("conv2d", "avgpool"):
                raise call.refuse(NO_PAD_HERE)
        shape = map_shape(call.shape)
        if shape is None:
            raise call.refuse(f"a result of shape {call.shape} is not supported")
        name = self.unique(call.layer)
        self.tensors[name] = Tensor(name, shape)
        names = tuple(x.tensor for x in inputs)
        self.nodes.append(Node(op, name, names, name, attrs or {}, params or {}))
        return Value(name, call.shape, order)

    def unique(self, name: str) -> str:
        """The name, or name@1, name@2, ... where a module is called more than once."""
        if name not in self.tensors:
            return name
        count = 1
        while f"{name}@{count}" in self.tensors:
            count += 1
        return f"{name}@{count}"


def _pair(value: Any) -> tuple[int, int]:
    values = [int(v) for v in value] if isinstance(value, list | tuple) else [int(value)]
    return (values[0], values[-1])


def _map_input(call: Call, name: str) -> Value:
    x: Value = call[name]
    if len(x.shape) != 3:
        raise call.refuse(f"needs a map (C, H, W), got {x.shape}")
    return x


def _tensor_input(call: Call, value: Any) -> Value:
    if not isinstance(value, Value):
        raise call.refuse("an operand is a constant, not a tensor", hint=f"supported: {SUPPORTED}")
    return value


def _float32(value: Any) -> Array:
    return np.asarray(value, np.float32)


def _bias(call: Call, count: int) -> Array:
    return np.zeros(count, np.float32) if call["bias"] is None else _float32(call["bias"])


def _conv_pad(call: Call, kernel: tuple[int, int]) -> Pad:
    padding = call["padding"]
    if padding == "valid":
        return NO_PAD
    if padding == "same":
        # PyTorch puts the odd zero to the bottom and right; "same" needs stride 1 there.
        (top, left) = ((k - 1) // 2 for k in kernel)
        return (top, left, kernel[0] - 1 - top, kernel[1] - 1 - left)
    ph, pw = _pair(padding)
    return (ph, pw, ph, pw)


def _sum_pads(a: Sequence[int], b: Sequence[int]) -> Pad:
    top, left, bottom, right = (x + y for x, y in zip(a, b, strict=True))
    return (top, left, bottom, right)


def _conv2d(builder: Builder, call: Call) -> Value:
    x = _map_input(call, "input")
    if _pair(call["dilation"]) != (1, 1):
        raise call.refuse("dilated convolutions are not supported", f"dilation {call['dilation']}")
    weight = _float32(call["weight"]).transpose(0, 2, 3, 1)
    kernel = (weight.shape[1], weight.shape[2])
    pad = _sum_pads(_conv_pad(call, kernel), x.pad)
    if max(pad[0], pad[2]) >= kernel[0] or max(pad[1], pad[3]) >= kernel[1]:
        raise call.refuse(
            "padding must be smaller than the kernel",
            f"padding (top, left, bottom, right) {pad}, kernel {kernel}",
        )
    params = {"weight": np.ascontiguousarray(weight), "bias": _bias(call, weight.shape[0])}
    groups = int(call["groups"])
    if x.shape[1:] == (1, 1) and kernel == (1, 1) and groups == 1:
        return builder.emit("linear", call, [x], {}, params)
    attrs = {"stride": _pair(call["stride"]), "pad": pad, "groups": groups}
    return builder.emit("conv2d", call, [x], attrs, params)


def _linear(builder: Builder, call: Call) -> Value:
    x: Value = call["input"]
    if len(x.shape) != 1:
        raise call.refuse(
            "a linear layer needs a flat input", f"it gets {x.shape}", "add torch.flatten(x, 1)"
        )
    weight = _float32(call["weight"])
    if x.order is not None:
        columns = np.empty_like(weight)
        columns[:, x.order] = weight
        weight = columns
    params = {"weight": weight[:, None, None, :].copy(), "bias": _bias(call, weight.shape[0])}
    return builder.emit("linear", call, [x], {}, params)


def _batch_norm(builder: Builder, call: Call) -> Value:
    """y = gain * x + offset, as a depthwise 1x1 convolution."""
    x: Value = call["input"]
    if call["running_mean"] is None or call["running_var"] is None:
        raise call.refuse("a batch norm needs running statistics", hint="track_running_stats=True")
    if call.args.get("training"):
        raise call.refuse("a batch norm is in training mode", hint="F.batch_norm(training=False)")
    mean, var = (np.asarray(call[k], np.float64) for k in ("running_mean", "running_var"))
    gain = 1.0 / np.sqrt(var + call["eps"])
    if call["weight"] is not None:
        gain = gain * np.asarray(call["weight"], np.float64)
    offset = -mean * gain
    if call["bias"] is not None:
        offset = offset + np.asarray(call["bias"], np.float64)
    if x.order is not None:
        places = np.argsort(x.order)
        gain, offset = gain[places], offset[places]
    params = {"weight": _float32(gain).reshape(-1, 1, 1, 1), "bias": _float32(offset)}
    attrs = {"stride": (1, 1), "pad": NO_PAD, "groups": len(gain)}
    if x.pad != NO_PAD:
        raise call.refuse(NO_PAD_HERE)
    y = builder.emit("conv2d", call, [x], attrs, params, x.order)
    builder.scales.append(y.tensor)
    return y


def _clamp_to(lo: float | None, hi: float | None) -> Callable[[Builder, Call], Value]:
    return lambda builder, call: _emit_clamp(builder, call, lo, hi)


def _clamp_by(lo: str | None, hi: str | None) -> Callable[[Builder, Call], Value]:
    """A clamp whose limits are the arguments of these names."""

    def translate(builder: Builder, call: Call) -> Value:
        limits = [None if name is None else call[name] for name in (lo, hi)]
        return _emit_clamp(builder, call, *limits)

    return translate


def _emit_clamp(builder: Builder, call: Call, lo: Any, hi: Any) -> Value:
    x: Value = call.args.get("self", call.args.get("input"))
    if any(v is not None and not isinstance(v, int | float) for v in (lo, hi)):
        raise call.refuse("the limits of a clamp must be numbers")
    sides = (None if lo is None else float(lo), None if hi is None else float(hi))
    if sides[0] is not None and sides[1] is not None and sides[0] > sides[1]:
        raise call.refuse("the lower limit of a clamp exceeds its upper limit", f"{sides}")
    return builder.emit("clamp", call, [x], {"clamp": sides}, order=x.order)


def _add(builder: Builder, call: Call) -> Value:
    a, b = (_tensor_input(call, call[k]) for k in ("self", "other"))
    if call["alpha"] != 1:
        raise call.refuse("a scaled addition is not supported", f"alpha = {call['alpha']}")
    if a.shape != b.shape:
        raise call.refuse(
            "both sides of an addition must have one shape",
            f"{a.shape} and {b.shape}; broadcasting is not supported",
        )
    if not np.array_equal(_order(a), _order(b)):
        raise call.refuse("an addition of tensors that were flattened from different shapes")
    return builder.emit("add", call, [a, b], order=a.order)


def _order(value: Value) -> Array:
    shape = map_shape(value.shape)
    if value.order is not None or shape is None:
        return np.asarray(value.order)
    return flat_order(shape)


def _cat(builder: Builder, call: Call) -> Value:
    xs = [_tensor_input(call, x) for x in call["tensors"]]
    if call["dim"] not in (1, -len(call.shape)):
        raise call.refuse(
            "only channels can be concatenated", f"dim = {call['dim']}", "torch.cat(..., dim=1)"
        )
    order = None
    if any(x.order is not None for x in xs):
        starts = np.cumsum([0] + [x.shape[0] for x in xs])
        order = np.concatenate([s + _order(x) for s, x in zip(starts, xs, strict=False)])
    return builder.emit("concat", call, xs, order=order)


def _pool(
    builder: Builder, call: Call, op: str, kernel: Sequence[int], stride: Sequence[int], pad: Pad
) -> Value:
    x: Value = call["self"]
    if max(kernel) > MAX_WINDOW:
        raise call.refuse(
            f"a pool's window may have {MAX_WINDOW} rows and columns at most",
            f"it has {kernel[0]} x {kernel[1]}",
            "put a smaller pool before it: the mean of means is the mean",
        )
    attrs = {"kernel": tuple(kernel), "stride": tuple(stride), "pad": _sum_pads(pad, x.pad)}
    return builder.emit(op, call, [x], attrs)


def _ceil_rest(call: Call, kernel: Sequence[int], stride: Sequence[int]) -> list[int]:
    """Rows and columns below and right that ceil_mode reads beyond the padding."""
    sizes, pads = call["self"].shape[1:], _pair(call["padding"])
    return [
        max(0, (out - 1) * s + k - (size + 2 * p))
        for out, size, k, s, p in zip(call.shape[1:], sizes, kernel, stride, pads, strict=True)
    ]


def _avg_pool2d(builder: Builder, call: Call) -> Value:
    _map_input(call, "self")
    kernel = _pair(call["kernel_size"])
    stride = _pair(call["stride"] or kernel)
    ph, pw = _pair(call["padding"])
    if any(_ceil_rest(call, kernel, stride)):
        raise call.refuse("ceil_mode of an average pool is not supported for this input size")
    if (ph or pw) and not call["count_include_pad"]:
        raise call.refuse("count_include_pad=False is not supported")
    if call["divisor_override"] not in (None, kernel[0] * kernel[1]):
        raise call.refuse("divisor_override is not supported")
    return _pool(builder, call, "avgpool", kernel, stride, (ph, pw, ph, pw))


def _max_pool2d(builder: Builder, call: Call) -> Value:
    _map_input(call, "self")
    kernel = _pair(call["kernel_size"])
    stride = _pair(call["stride"] or kernel)
    if _pair(call["dilation"]) != (1, 1):
        raise call.refuse("dilated pools are not supported")
    ph, pw = _pair(call["padding"])
    rest = _ceil_rest(call, kernel, stride)
    return _pool(builder, call, "maxpool", kernel, stride, (ph, pw, ph + rest[0], pw + rest[1]))


def _adaptive_avg_pool2d(builder: Builder, call: Call) -> Value:
    x = _map_input(call, "self")
    kernel = []
    for size, out in zip(x.shape[1:], call.shape[1:], strict=True):
        if size % out:
            raise call.refuse(
                "an adaptive pool needs an output size that divides the input's",
                f"{x.shape[1:]} to {call.shape[1:]}",
            )
        kernel.append(size // out)
    return _pool(builder, call, "avgpool", kernel, kernel, NO_PAD)


def _mean(builder: Builder, call: Call) -> Value:
    x: Value = call["self"]
    rank = len(x.shape) + 1
    dims = {d % rank for d in call["dim"] or ()}
    if not dims or not dims <= {2, 3} or call["dtype"] is not None:
        raise call.refuse("only a mean over height and width is supported", f"dim = {call['dim']}")
    h, w, _ = map_shape(x.shape) or (1, 1, 1)
    kernel = (h if 2 in dims else 1, w if 3 in dims else 1)
    kept = tuple(1 if i in dims else n for i, n in enumerate(x.shape, 1))
    pooled = _pool(builder, replace(call, shape=kept), "avgpool", kernel, kernel, NO_PAD)
    return _reshape(builder, replace(call, args={"self": pooled}))


def _reshape(builder: Builder, call: Call) -> Value:
    x: Value = call["self"]
    value = reshaped(x, call.shape)
    if value is None or x.pad != NO_PAD:
        raise call.refuse(
            "this reshape would have to move data in memory",
            f"from {x.shape} to {call.shape}; channels are stored last",
            "reshape to (features,) before a linear layer, or drop dimensions of 1",
        )
    shape = map_shape(call.shape)
    if shape == builder.tensors[x.tensor].shape:
        return value
    return builder.emit("reshape", call, [x], {"shape": shape}, order=value.order)


def _same(_: Builder, call: Call) -> Value:
    x: Value = call.args.get("self", call.args.get("input"))
    return x


def _softmax(_: Builder, call: Call) -> Value:
    if not call.at_end:
        raise call.refuse("a softmax is supported only at the end, where training does it anyway")
    x: Value = call["self"]
    return x


def _pad(_: Builder, call: Call) -> Value:
    x: Value = call["self"]
    if call.args.get("mode", "constant") != "constant" or call["value"] not in (None, 0, 0.0):
        raise call.refuse("only padding with zeros is supported")
    left, right, top, bottom = ([int(p) for p in call["pad"]] + [0, 0])[:4]
    if len(call["pad"]) > 4 or min(left, right, top, bottom) < 0 or len(x.shape) != 3:
        raise call.refuse("only height and width of a map can be padded", f"pad = {call['pad']}")
    return Value(x.tensor, call.shape, pad=_sum_pads(x.pad, (top, left, bottom, right)))


TRANSLATORS: dict[str, Callable[[Builder, Call], Value]] = {
    "conv2d": _conv2d,
    "linear": _linear,
    "batch_norm": _batch_norm,
    "_native_batch_norm_legit_no_training": _batch_norm,
    "relu": _clamp_to(0.0, None),
    "relu6": _clamp_to(0.0, 6.0),
    "hardtanh": _clamp_by("min_val", "max_val"),
    "clamp": _clamp_by("min", "max"),
    "clamp_min": _clamp_by("min", None),
    "clamp_max": _clamp_by(None, "max"),
    "add": _add,
    "cat": _cat,
    "concat": _cat,
    "avg_pool2d": _avg_pool2d,
    "max_pool2d": _max_pool2d,
    "adaptive_avg_pool2d": _adaptive_avg_pool2d,
    "mean": _mean,
    "flatten": _reshape,
    "view": _reshape,
    "reshape": _reshape,
    "squeeze": _reshape,
    "unsqueeze": _reshape,
    "clone": _same,
    "alias": _same,
    "detach": _same,
    "contiguous": _same,
    "dropout": _same,
    "feature_dropout": _same,
    "softmax": _softmax,
    "log_softmax": _softmax,
    "pad": _pad,
    "constant_pad_nd": _pad,
}
