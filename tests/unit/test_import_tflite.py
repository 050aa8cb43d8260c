"""The TFLite importer on files written here: what every operator becomes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.tflite_writer import SAME, VALID, NetworkWriter

from mcutrain.compile import compile_program
from mcutrain.frontends import import_network
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
