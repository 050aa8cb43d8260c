"""PyTorch's operators on sequences (C, L): each is the 2-D operator on a map (C, L, 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from mcutrain.frontends.aten import TRANSLATORS, Builder, Call
from mcutrain.frontends.layout import Value

# Arguments with one number an axis, and what the new axis gets.
_PER_AXIS = {"stride": 1, "padding": 0, "dilation": 1, "kernel_size": 1, "output_size": 1}


def _as_2d(name: str) -> Callable[[Builder, Call], Value]:
    def translate(builder: Builder, call: Call) -> Value:
        args = {key: _widened(key, value) for key, value in call.args.items()}
        result = TRANSLATORS[name](builder, replace(call, args=args, shape=(*call.shape, 1)))
        return replace(result, shape=call.shape)

    return translate


def _widened(key: str, value: Any) -> Any:
    if isinstance(value, Value):
        if len(value.shape) != 2:
            return value  # the 2-D operator refuses it
        return replace(value, shape=(*value.shape, 1))
    if key == "weight":
        return np.asarray(value)[..., None]
    if key not in _PER_AXIS or isinstance(value, str):
        return value
    numbers = [int(n) for n in value] if isinstance(value, list | tuple) else [int(value)]
    return [*numbers, _PER_AXIS[key]] if numbers else value  # no stride: the kernel's size


TRANSLATORS_1D: dict[str, Callable[[Builder, Call], Value]] = {
    "conv1d": _as_2d("conv2d"),
    "avg_pool1d": _as_2d("avg_pool2d"),
    "max_pool1d": _as_2d("max_pool2d"),
    "adaptive_avg_pool1d": _as_2d("adaptive_avg_pool2d"),
}
