"""The TFLite importer on files written here: what every operator becomes, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from tests.tflite_writer import SAME, VALID, NetworkWriter

from mcutrain.compile import compile_program
from mcutrain.errors import InputError, UnsupportedError
from mcutrain.frontends import import_network
from mcutrain.frontends.tflite import import_tflite
from mcutrain.ir.graph import Graph, QParams
from mcutrain.ir.reference.machine import Machine
from mcutrain.ir.serialize import load, save
from mcutrain.plan import Plan

Build = Callable[[], NetworkWriter]


def _plain() -> NetworkWriter:
    """Two convolutions, a pool, a classifier."""
    b = NetworkWriter((1, 9, 8, 3))
    x = b.conv("c1", b.inputs[0], 6, (3, 3), (2, 2), SAME, activation=1, zero=-128)
    x = b.conv("c2", x, 5, (1, 1), activation=3, zero=-100)
    b.head(b.pool("AVERAGE_POOL_2D", "pool", x, (5, 4), (1, 1)))
    return b


def _depthwise() -> NetworkWriter:
    b = NetworkWriter((1, 8, 7, 4), 1)
    x = b.depthwise("dw", b.inputs[0], 1, (3, 3), (1, 1), SAME, activation=3, zero=-128)
    x = b.depthwise("dw2", x, 2, (5, 3), (2, 1), VALID)
    b.head(b.unary("MEAN", "mean", x, (1, 8), [1, 2], {0: 0}))
    return b


def _one_channel_multiplier() -> NetworkWriter:
    b = NetworkWriter((1, 12, 10, 1), 2)
    x = b.depthwise("dw", b.inputs[0], 8, (5, 4), (2, 2), SAME, activation=1, zero=-128)
    b.head(x)
    return b


def _grouped() -> NetworkWriter:
    b = NetworkWriter((1, 6, 6, 4), 3)
    x = b.conv("grouped", b.inputs[0], 6, (3, 3), groups=2)
    b.head(b.pool("MAX_POOL_2D", "max", x, (3, 2), (2, 2), SAME))
    return b


def _residual() -> NetworkWriter:
    b = NetworkWriter((1, 6, 5, 4), 4)
    x = b.conv("c1", b.inputs[0], 4, (3, 3))
    y = b.tensor("sum", b.shape(x), scale=0.07, zero=-20)
    y = b.operator("ADD", [x, b.inputs[0]], y, {0: 1})
    z = b.tensor("cat", (1, 6, 5, 8), scale=0.07, zero=-20)
    second = b.conv("c2", y, 4, (1, 1), scale=0.07, zero=-20)
    z = b.operator("CONCATENATION", [y, second], z, {0: 3, 1: 0})
    b.head(b.pool("AVERAGE_POOL_2D", "pool", z, (6, 5), (6, 5)))
    return b


def _padded() -> NetworkWriter:
    b = NetworkWriter((1, 7, 7, 2), 5)
    amounts = [[0, 0], [1, 0], [2, 1], [0, 0]]
    x = b.unary("PAD", "pad", b.inputs[0], (1, 8, 10, 2), amounts, {})
    x = b.conv("c1", x, 5, (3, 3), (2, 2), VALID)
    x = b.unary("PAD", "pad2", x, (1, 5, 6, 5), [[0, 0], [1, 1], [1, 1], [0, 0]], {})
    b.head(b.pool("AVERAGE_POOL_2D", "pool", x, (3, 3), (2, 3), VALID))
    return b


def _activations() -> NetworkWriter:
    b = NetworkWriter((1, 5, 5, 3), 6)
    x = b.conv("c1", b.inputs[0], 4, (3, 3), activation=2)
    x = b.unary("RELU6", "relu6", x, b.shape(x), scale=0.03, zero=-128)
    x = b.unary("QUANTIZE", "requantised", x, b.shape(x), scale=0.05, zero=7)
    x = b.unary("RELU", "relu", x, b.shape(x), scale=0.05, zero=7)
    b.head(b.pool("MAX_POOL_2D", "max", x, (2, 2), (2, 2), VALID, activation=3))
    return b


def _transposed_means() -> NetworkWriter:
    """As exporters of NCHW frameworks write it."""
    b = NetworkWriter((1, 4, 5, 3), 7)
    x = b.conv("c1", b.inputs[0], 7, (1, 1))
    x = b.unary("TRANSPOSE", "nchw", x, (1, 7, 4, 5), [0, 3, 1, 2], {})
    x = b.unary("MEAN", "mean_w", x, (1, 7, 4), [3], {0: 0})
    b.head(b.unary("MEAN", "mean_h", x, (1, 7), [2], {0: 0}))
    return b


def _fine_mean() -> NetworkWriter:
    b = NetworkWriter((1, 6, 4, 3), 8)
    x = b.conv("c1", b.inputs[0], 7, (3, 3))
    b.head(b.unary("MEAN", "mean", x, (1, 1, 1, 7), [1, 2], {0: 1}, scale=0.03, zero=-7))
    return b


def _coarse_mean() -> NetworkWriter:
    b = NetworkWriter((1, 6, 4, 3), 8)
    x = b.conv("c1", b.inputs[0], 7, (3, 3))
    b.head(b.unary("MEAN", "mean", x, (1, 7), [1, 2], {0: 0}, scale=0.06, zero=-7))
    return b


def _flat() -> NetworkWriter:
    b = NetworkWriter((1, 60), 9)
    x = b.unary("RESHAPE", "map", b.inputs[0], (1, 5, 4, 3), [1, 5, 4, 3], {})
    x = b.conv("c1", x, 4, (2, 2), (2, 2), VALID)
    x = b.unary("RESHAPE", "flat", x, (1, 16), [1, 16], {})
    b.head(b.fc("hidden", x, 9, activation=1, zero=-128))
    return b


NETWORKS: dict[str, Build] = {
    "plain": _plain,
    "depthwise": _depthwise,
    "one channel, multiplier 8": _one_channel_multiplier,
    "grouped, max pool": _grouped,
    "residual, concat": _residual,
    "padded": _padded,
    "activations": _activations,
    "transposed means": _transposed_means,
    "finer mean": _fine_mean,
    "coarser mean": _coarse_mean,
    "flat": _flat,
}


def _import(b: NetworkWriter, folder: Path) -> Graph:
    return import_network(b.save(folder / "net.tflite"))


@pytest.mark.parametrize("name", NETWORKS)
def test_layers_agree_with_litert(name: str, tmp_path: Path) -> None:
    """Within one LSB everywhere: TFLite rounds a product twice, mcutrain once."""
    litert = pytest.importorskip("tests.litert")
    path = NETWORKS[name]().save(tmp_path / "net.tflite")
    graph = import_network(path)
    rng = np.random.default_rng(1)
    shape = graph.tensors[graph.inputs[0]].shape
    samples = [rng.integers(-128, 128, shape).astype(np.int8) for _ in range(5)]
    differences = litert.layer_differences(path, graph, iter(samples))
    compared = {d.node.name for d in differences}
    assert compared >= {n.name for n in graph.nodes if "/" not in n.name}
    for d in differences:
        assert d.beyond_one == 0, d.node.name
        if not d.node.name.startswith(("mean", "pool")):  # LiteRT's means are off by up to 0.8
            assert (d.lsb > 0).mean() < 0.1, d.node.name


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_survive_their_file(name: str, tmp_path: Path) -> None:
    graph = _import(NETWORKS[name](), tmp_path)
    save(graph, tmp_path / "net.net.npz")
    assert [n.name for n in load(tmp_path / "net.net.npz").nodes] == [n.name for n in graph.nodes]


def test_convolutions_keep_names_strides_and_same_padding(tmp_path: Path) -> None:
    graph = _import(_plain(), tmp_path)
    assert [n.name for n in graph.nodes] == ["c1", "c2", "pool", "logits"]
    c1, c2 = graph.node("c1"), graph.node("c2")
    # 9 rows by 2: five windows of 3 need one row more on each side; 8 columns one on the right.
    assert c1.attrs["stride"] == (2, 2)
    assert c1.attrs["pad"] == (1, 0, 1, 1)
    assert c1.attrs["groups"] == 1
    assert graph.tensors["c1"].q == QParams(float(np.float32(0.04)), -128)
    assert (c1.attrs["lo"], c1.attrs["hi"]) == (-128, 127)
    # ReLU6 at scale 0.04 and zero point -100: from -100 to -100 + 150.
    assert (c2.attrs["lo"], c2.attrs["hi"]) == (-100, 50)
    assert graph.head.params["weight"].dtype == np.float32
    assert graph.tensors[graph.output].q is None


def test_depthwise_weights_become_ohwi_groups(tmp_path: Path) -> None:
    b = _depthwise()
    graph = _import(b, tmp_path)
    first, second = graph.node("dw"), graph.node("dw2")
    assert first.params["weight"].shape == (4, 3, 3, 1)
    assert first.attrs["groups"] == 4
    assert second.params["weight"].shape == (8, 5, 3, 1)
    assert (second.attrs["groups"], second.attrs["stride"]) == (4, (2, 1))
    assert second.attrs["pad"] == (0, 0, 0, 0)
    assert graph.node("mean").attrs["kernel"] == graph.tensors["dw2"].shape[:2]


def test_padding_joins_the_layer_that_reads_it(tmp_path: Path) -> None:
    graph = _import(_padded(), tmp_path)
    assert [n.op for n in graph.nodes] == ["conv2d", "avgpool", "linear"]
    assert graph.node("c1").attrs["pad"] == (1, 2, 0, 1)
    assert graph.node("pool").attrs["pad"] == (1, 1, 1, 1)


def test_a_finer_mean_keeps_what_the_file_keeps(tmp_path: Path) -> None:
    graph = _import(_fine_mean(), tmp_path)
    program = compile_program(graph, Plan(head=False)).program
    machine = Machine(program)
    machine.forward(np.random.default_rng(2).integers(-128, 128, 72).astype(np.int8))
    q, mean = graph.tensors["c1"].q, graph.tensors["mean"].q
    assert q is not None
    assert mean is not None
    real = (machine.memory.array("c1").astype(np.float64) - q.zero_point).mean((0, 1)) * q.scale
    exact = real / mean.scale + mean.zero_point
    assert np.abs(machine.memory.array("mean")[0, 0] - exact).max() <= 0.5 + 1e-6


def test_classifier_is_dequantised(tmp_path: Path) -> None:
    b = _plain()
    graph = _import(b, tmp_path)
    names = {t[3]: t for t in b.tensors}
    scale = names["logits/w"][4][2].astype(np.float64)
    stored = b.buffers[names["logits/w"][2]][0].view(np.int8).reshape(4, 5)
    assert np.allclose(graph.head.params["weight"][:, 0, 0], stored * scale, rtol=1e-6)


def test_uint8_and_float_inputs_become_their_int8_tensor(tmp_path: Path) -> None:
    for kind in ("UINT8", "FLOAT32"):
        b = NetworkWriter((1, 4, 4, 3), kind=kind)
        x = b.tensor("image_int8", (1, 4, 4, 3), scale=0.05, zero=-3)
        x = b.operator("QUANTIZE", [b.inputs[0]], x)
        b.head(b.conv("c1", x, 2, (3, 3)))
        graph = _import(b, tmp_path)
        assert graph.inputs == ("image",)
        assert graph.tensors["image"].q == QParams(float(np.float32(0.05)), -3)


def test_1x1_convolution_at_the_end_is_the_classifier(tmp_path: Path) -> None:
    b = NetworkWriter((1, 4, 4, 3))
    x = b.pool("AVERAGE_POOL_2D", "pool", b.conv("c1", b.inputs[0], 6, (3, 3)), (4, 4), (4, 4))
    x = b.conv("c2", x, 5, (1, 1))
    b.outputs.append(b.unary("RESHAPE", "flat", x, (1, 5), [1, 5], {}))
    graph = _import(b, tmp_path)
    assert (graph.head.name, graph.head.op) == ("c2", "linear")
    assert graph.tensors[graph.output].shape == (1, 1, 5)


def test_shapes_computed_in_the_file_are_left_out(tmp_path: Path) -> None:
    b = NetworkWriter((1, 4, 4, 3))
    x = b.conv("c1", b.inputs[0], 2, (3, 3))
    shape = b.operator("SHAPE", [x], b.tensor("shape", (4,), "INT32"))
    flat = b.operator("RESHAPE", [x, shape], b.tensor("flat", (1, 32), **b.quantised(x)), {})
    b.head(flat)
    assert [n.op for n in _import(b, tmp_path).nodes] == ["conv2d", "reshape", "linear"]


# --- refusals ------------------------------------------------------------------------------------


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
