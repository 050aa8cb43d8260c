"""Published TFLite files (MLPerf Tiny and others) through the importer and the engine."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mcutrain.compile import compile_program
from mcutrain.engine import Engine
from mcutrain.errors import UnsupportedError
from mcutrain.frontends import import_network
from mcutrain.image.pack import pack
from mcutrain.ir.graph import Graph
from mcutrain.plan import Plan

MLPERF = {
    "resnet8": "models/mlperf_ic_resnet8_cifar10_int8.tflite",
    "dscnn": "models/mlperf_kws_dscnn_int8.tflite",
    "vww": "models/mlperf_vww_mobilenetv1_025_96_int8.tflite",
    "autoencoder": "models/mlperf_ad_autoencoder_toycar_int8.tflite",
}
OTHERS = {
    "mcunet-vww": "mcunet-vww-r80-int8.tflite",
    "wakevision": "models/wakevision_mcunet_5fps_vww.tflite",
    "micro speech": "models/tflm_micro_speech_int8.tflite",
    "hello world": "models/tflm_hello_world_int8.tflite",
}
FILES = MLPERF | OTHERS


def _engine(graph: Graph) -> Engine:
    return Engine(pack(compile_program(graph, Plan(head=False))))


def _images(path: Path, split: int = 1) -> Iterator[tuple[np.ndarray, int]]:
    """int8 images (pixel - 128) and labels; split 1 is the test set."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is missing: extra images")
    with np.load(path) as file:
        blob, offset = file["blob"].tobytes(), file["offset"]
        labels, splits = file["label"], file["split"]
    for i in np.flatnonzero(splits == split):
        with image.open(io.BytesIO(blob[offset[i] : offset[i + 1]])) as picture:
            pixels = np.asarray(picture.convert("RGB")).astype(np.int16)
        yield (pixels - 128).astype(np.int8), int(labels[i])


def _smooth(graph: Graph, count: int) -> Iterator[np.ndarray]:
    """Blocks of one colour with a little noise, which spread over more of the range than noise."""
    rng = np.random.default_rng(0)
    height, width, channels = graph.tensors[graph.inputs[0]].shape
    for _ in range(count):
        blocks = rng.integers(-128, 128, (-(-height // 8), -(-width // 8), channels))
        x = blocks.repeat(8, 0).repeat(8, 1)[:height, :width]
        yield np.clip(x + rng.integers(-10, 11, x.shape), -128, 127).astype(np.int8)


@pytest.mark.parametrize("name", FILES)
def test_layers_agree_with_litert(refdata: Path, name: str) -> None:
    """On LiteRT's own inputs: within one LSB on at least 99 % of each layer's elements."""
    litert = pytest.importorskip("tests.litert", reason="LiteRT is missing: extra test")
    path = refdata / FILES[name]
    graph = import_network(path)
    differences = litert.layer_differences(path, graph, _smooth(graph, 2))
    assert len(differences) >= 0.9 * len(graph.nodes)
    for d in differences:
        assert d.beyond_one <= 0.01, d.node.name


def test_person_detection_is_refused_clearly(refdata: Path) -> None:
    with pytest.raises(UnsupportedError, match="RESIZE_NEAREST_NEIGHBOR") as caught:
        import_network(refdata / "person-det-r128x160-int8.tflite")
    assert caught.value.why == "the network uses RESIZE_NEAREST_NEIGHBOR (2x)"
    assert caught.value.where == "fuse_transform_37"


@pytest.mark.parametrize(
    "name",
    [
        "mlperf_ic_resnet8_cifar10_float",
        "mlperf_kws_dscnn_dynrange",
        "mlperf_vww_mobilenetv1_025_96_float",
        "mlperf_ad_autoencoder_toycar_float",
        "tflm_hello_world_float",
    ],
)
def test_float_and_dynamic_range_files_are_refused_clearly(refdata: Path, name: str) -> None:
    with pytest.raises(UnsupportedError, match="not int8 throughout") as caught:
        import_network(refdata / "models" / f"{name}.tflite")
    assert "FLOAT32" in str(caught.value.why)


def test_weights_of_minus_128_are_refused_clearly(refdata: Path) -> None:
    with pytest.raises(UnsupportedError, match="-128"):
        import_network(refdata / "mnist-lenet-300-100-int8.tflite")


def test_reconstruction_error_of_the_autoencoder(refdata: Path) -> None:
    """10.27 with LiteRT on this clip."""
    with np.load(refdata / "datasets/toycar_one_clip_logmel.npz") as file:
        frames = file["x"].astype(np.float64)
    windows = np.lib.stride_tricks.sliding_window_view(frames, 5, axis=0)  # (n, 128, 5)
    real = windows.transpose(0, 2, 1).reshape(len(windows), 640)
    graph = import_network(refdata / MLPERF["autoencoder"])
    q = graph.tensors[graph.inputs[0]].q
    assert q is not None
    x = np.clip(np.round(real / q.scale + q.zero_point), -128, 127).astype(np.int8)
    engine = _engine(graph)
    made = np.stack([engine.forward(sample) for sample in x])
    assert ((made - real) ** 2).mean() == pytest.approx(10.27, abs=0.1)


# --- accuracy ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_accuracy_of_keyword_spotting(refdata: Path) -> None:
    """90.2 % with LiteRT."""
    engine = _engine(import_network(refdata / MLPERF["dscnn"]))
    with np.load(refdata / "datasets/gsc_mfcc49x10_mlperf1000.npz") as file:
        x, labels = file["x"], file["label"]
    pairs = zip(x.reshape(-1, 49, 10, 1), labels, strict=True)
    right = [engine.forward(sample).argmax() == label for sample, label in pairs]
    assert np.mean(right) >= 0.89


@pytest.mark.slow
def test_accuracy_of_image_classification(refdata: Path) -> None:
    """87.5 % with LiteRT."""
    engine = _engine(import_network(refdata / MLPERF["resnet8"]))
    samples = _images(refdata / "datasets/cifar10_10k_png32.npz")
    assert np.mean([engine.forward(x).argmax() == y for x, y in samples]) >= 0.865


@pytest.mark.slow
@pytest.mark.torch
def test_accuracy_of_mcunet_is_the_simulators(refdata: Path) -> None:
    """Ten of MCUNet's 1000 classes: 92.8 % of 500, as many as the published arithmetic gets."""
    from tests.e2e.test_import_golden_net import simulate

    graph = import_network(refdata / "mcunet-5fps.pkl")
    engine, path = _engine(graph), refdata / "datasets/imagenette_1000_jpeg128.npz"
    with np.load(path) as file:
        classes = file["imagenet_index"].astype(np.int64)
    weight = graph.head.params["weight"][classes, 0, 0].astype(np.float64)
    bias = graph.head.params["bias"][classes].astype(np.float64)
    q = graph.tensors[graph.head.inputs[0]].q
    assert q is not None
    samples, labels = (np.array(part) for part in zip(*_images(path), strict=True))
    ours = np.stack([engine.forward(x)[classes].argmax() for x in samples])
    features = [
        simulate(graph, samples[i : i + 25])[0][graph.head.inputs[0]] for i in range(0, 500, 25)
    ]
    real = (np.concatenate(features).reshape(500, -1) - q.zero_point) * q.scale
    theirs = (real @ weight.T + bias).argmax(1)
    assert (ours == labels).mean() >= 0.92
    assert (ours == labels).mean() >= (theirs == labels).mean() - 0.01
