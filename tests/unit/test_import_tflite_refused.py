"""What the TFLite importer refuses, with the tensor named, and what it makes of damaged files."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from tests.tflite_writer import SAME, NetworkWriter

from mcutrain.errors import InputError, UnsupportedError
from mcutrain.frontends.tflite import import_tflite
from mcutrain.ir.graph import Graph

Build = Callable[[], NetworkWriter]


def _import(b: NetworkWriter, folder: Path) -> Graph:
    return import_tflite(b.save(folder / "net.tflite"))


def _plain() -> NetworkWriter:
    b = NetworkWriter((1, 9, 8, 3))
    x = b.conv("c1", b.inputs[0], 6, (3, 3), (2, 2), SAME, activation=1, zero=-128)
    x = b.unary("PAD", "pad", x, (1, 6, 5, 6), [[0, 0], [1, 0], [1, 0], [0, 0]], {})
    x = b.depthwise("dw", x, 1, (3, 3))
    b.head(b.unary("MEAN", "mean", x, (1, 6), [1, 2], {0: 0}))
    return b


def _dilated() -> NetworkWriter:
    b = NetworkWriter((1, 9, 9, 3))
    x = b.conv("c1", b.inputs[0], 2, (3, 3), padding=SAME)
    b.operators[-1][4][4] = 2
    b.head(x)
    return b


def _same_average() -> NetworkWriter:
    b = NetworkWriter((1, 5, 5, 3))
    b.head(b.pool("AVERAGE_POOL_2D", "pool", b.inputs[0], (2, 2), (2, 2), SAME))
    return b


def _asymmetric_weights() -> NetworkWriter:
    b = NetworkWriter((1, 5, 5, 3))
    x = b.conv("c1", b.inputs[0], 2, (3, 3))
    b.tensors[1][4][3][:] = 4
    b.head(x)
    return b


def _lowest_weight() -> NetworkWriter:
    b = NetworkWriter((1, 5, 5, 3))
    x = b.conv("c1", b.inputs[0], 2, (3, 3))
    b.buffers[1][0] = b.buffers[1][0].copy()
    b.buffers[1][0][7] = 128
    b.head(x)
    return b


def _float_network() -> NetworkWriter:
    b = NetworkWriter((1, 5, 5, 3), kind="FLOAT32")
    y = b.tensor("relu", (1, 5, 5, 3), "FLOAT32")
    y = b.operator("RELU", [b.inputs[0]], y)
    w = b.tensor("w", (4, 75), "FLOAT32", data=np.zeros((4, 75)))
    y = b.operator("FULLY_CONNECTED", [y, w, -1], b.tensor("y", (1, 4), "FLOAT32"), {0: 0})
    b.outputs.append(y)
    return b


def _unknown_operator() -> NetworkWriter:
    b = NetworkWriter((1, 5, 5, 3))
    x = b.unary("HARD_SWISH", "swish", b.inputs[0], (1, 5, 5, 3))
    b.head(x)
    return b


def _no_classifier() -> NetworkWriter:
    b = NetworkWriter((1, 5, 5, 3))
    b.outputs.append(b.conv("c1", b.inputs[0], 2, (3, 3)))
    return b


def _two_outputs() -> NetworkWriter:
    b = NetworkWriter((1, 5, 5, 3))
    b.head(b.inputs[0])
    b.outputs.append(b.fc("other", b.inputs[0], 2))
    return b


def _active_classifier() -> NetworkWriter:
    b = NetworkWriter((1, 5, 5, 3))
    b.outputs.append(b.fc("logits", b.inputs[0], 2, activation=1))
    return b


def _tanh() -> NetworkWriter:
    b = NetworkWriter((1, 5, 5, 3))
    b.head(b.conv("c1", b.inputs[0], 2, (3, 3), activation=4))
    return b


def _constant_sum() -> NetworkWriter:
    b = NetworkWriter((1, 5, 5, 3))
    c = b.tensor("shift", (1, 5, 5, 3), scale=0.1, data=np.ones((1, 5, 5, 3)))
    b.head(b.operator("ADD", [b.inputs[0], c], b.tensor("sum", (1, 5, 5, 3), scale=0.1), {0: 0}))
    return b


def _broadcast_sum() -> NetworkWriter:
    b = NetworkWriter((1, 5, 5, 3))
    x = b.pool("AVERAGE_POOL_2D", "pool", b.inputs[0], (5, 5), (1, 1))
    b.head(b.operator("ADD", [b.inputs[0], x], b.tensor("sum", (1, 5, 5, 3), scale=0.1), {0: 0}))
    return b


def _wrong_concat() -> NetworkWriter:
    b = NetworkWriter((1, 5, 5, 3))
    y = b.tensor("cat", (1, 10, 5, 3), **b.quantised(b.inputs[0]))
    b.head(b.operator("CONCATENATION", [b.inputs[0], b.inputs[0]], y, {0: 1}))
    return b


def _batch() -> NetworkWriter:
    b = NetworkWriter((2, 5, 5, 3))
    b.head(b.inputs[0])
    return b


def _channel_mean() -> NetworkWriter:
    b = NetworkWriter((1, 5, 5, 3))
    b.head(b.unary("MEAN", "mean", b.inputs[0], (1, 5, 5), [3], {0: 0}))
    return b


def _padded_max() -> NetworkWriter:
    b = NetworkWriter((1, 6, 6, 3))
    x = b.unary("PAD", "pad", b.inputs[0], (1, 7, 7, 3), [[0, 0], [1, 0], [1, 0], [0, 0]], {})
    b.head(b.pool("MAX_POOL_2D", "max", x, (3, 3), (2, 2)))
    return b


def _transposed_flat() -> NetworkWriter:
    b = NetworkWriter((1, 4, 5, 3))
    x = b.unary("TRANSPOSE", "nchw", b.inputs[0], (1, 3, 4, 5), [0, 3, 1, 2], {})
    b.head(b.unary("RESHAPE", "flat", x, (1, 60), [1, 60], {}))
    return b


def _other_bias_scale() -> NetworkWriter:
    b = NetworkWriter((1, 5, 5, 3))
    x = b.conv("c1", b.inputs[0], 2, (3, 3))
    b.tensors[2][4][2] = b.tensors[2][4][2] * np.float32(1.5)
    b.head(x)
    return b


REFUSED: dict[str, tuple[Build, str, str]] = {
    "dilation": (_dilated, "dilated", "c1"),
    "average without padding": (_same_average, "leaves out padding", "pool"),
    "asymmetric weights": (_asymmetric_weights, "asymmetric weights", "c1"),
    "weight of -128": (_lowest_weight, "-128", "c1"),
    "float": (_float_network, "not int8 throughout", "image"),
    "operator": (_unknown_operator, "HARD_SWISH", "swish"),
    "no classifier": (_no_classifier, "sees|whole input", "c1"),
    "two outputs": (_two_outputs, "one output", "net.tflite"),
    "active classifier": (_active_classifier, "activation function", "logits"),
    "tanh": (_tanh, "TANH", "c1"),
    "sum with a constant": (_constant_sum, "must be an activation", "sum"),
    "broadcast": (_broadcast_sum, "broadcasting", "sum"),
    "concat of rows": (_wrong_concat, "along channels only", "cat"),
    "batch": (_batch, "batch of 1", "image"),
    "mean over channels": (_channel_mean, "height and width only", "mean"),
    "padded max pool": (_padded_max, "padding is supported", "max"),
    "flattened NCHW": (_transposed_flat, "transposed map", "flat"),
    "bias scale": (_other_bias_scale, "biases' scale", "c1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_tensor_named(name: str, tmp_path: Path) -> None:
    build, message, where = REFUSED[name]
    with pytest.raises(UnsupportedError, match=message) as caught:
        _import(build(), tmp_path)
    assert (caught.value.where or "").endswith(where)


def test_all_unsupported_operators_are_listed(tmp_path: Path) -> None:
    b = NetworkWriter((1, 5, 5, 3))
    x = b.unary("HARD_SWISH", "swish", b.inputs[0], (1, 5, 5, 3))
    x = b.unary("LOGISTIC", "gate", b.unary("HARD_SWISH", "again", x, (1, 5, 5, 3)), (1, 5, 5, 3))
    b.head(x)
    with pytest.raises(UnsupportedError) as caught:
        _import(b, tmp_path)
    assert caught.value.why == "the network uses HARD_SWISH (2x), LOGISTIC (1x)"
    assert "CONV_2D" in str(caught.value.hint)


def test_contradicting_shapes_are_damage(tmp_path: Path) -> None:
    b = _plain()
    next(t for t in b.tensors if t[3] == "c1")[0][1] = 7
    with pytest.raises(InputError, match="shapes do not fit"):
        _import(b, tmp_path)


def test_damaged_files_end_in_one_clear_error(tmp_path: Path) -> None:
    """Cut at many lengths, and with bytes changed: an error of ours or a network, nothing else."""
    whole, path = _plain().content(), tmp_path / "net.tflite"
    rng = np.random.default_rng(3)
    for n in range(8, len(whole), 61):
        path.write_bytes(whole[:n])
        with pytest.raises(InputError):
            import_tflite(path)
    for _ in range(500):
        data = bytearray(whole)
        for at in rng.integers(8, len(data), 3):
            data[at] = rng.integers(256)
        path.write_bytes(data)
        with suppress(InputError):
            import_tflite(path)
