"""From PyTorch to int8: the six architectures, and the accuracy of a trained network (t46)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from models import ARCHITECTURES
from tests.architectures import CASES, settled
from tests.float_networks import assert_each_node_rounds_once, run

from mcutrain.compile import Savings, compile_program
from mcutrain.frontends.torch import from_torch
from mcutrain.ir.graph import Array, Graph
from mcutrain.ir.ops import evaluate
from mcutrain.ir.reference.machine import Machine
from mcutrain.plan import Plan
from mcutrain.quantize import quantize, quantize_input

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Such small layers are slower on several threads, much slower where cores are busy."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def logits(graph: Graph, xs: Array) -> Array:
    """What the int8 program computes, one sample after the other."""
    machine = Machine(compile_program(graph, Plan(), savings=Savings(rows=False)).program)
    return np.stack([machine.forward(x) for x in quantize_input(graph, xs)[graph.inputs[0]]])


@pytest.mark.parametrize(("name", "size"), CASES)
def test_t07_six_architectures_at_three_sizes(name: str, size: tuple[int, int, int]) -> None:
    torch.manual_seed(0)
    module = settled(ARCHITECTURES[name].build(None, size), size)
    graph = from_torch(module, size, name=name)
    images = torch.rand(16, *size)
    maps = images.permute(0, 2, 3, 1).numpy()
    expected = evaluate(graph, {"x": maps})[graph.output].reshape(16, -1)
    with torch.no_grad():
        np.testing.assert_allclose(expected, module(images).numpy(), atol=1e-4, rtol=1e-4)
    quantised = quantize(graph, maps)
    assert [n.name for n in quantised.nodes] == [n.name for n in graph.nodes]
    assert_each_node_rounds_once(quantised, run(quantised, {"x": maps}))


class Small(nn.Module):
    """Convolution, depthwise, residual, concat, stand-alone batch norm: what an MCU network has."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(3)
        self.stem = nn.Sequential(nn.Conv2d(3, 12, 3, 2, 1), nn.BatchNorm2d(12), nn.ReLU6())
        self.depthwise = nn.Conv2d(12, 12, 3, padding=1, groups=12)
        self.after = nn.BatchNorm2d(12)
        self.project = nn.Conv2d(12, 12, 1)
        self.wide = nn.Conv2d(12, 8, 5, padding=2)
        self.classifier = nn.Linear(20, 8)

    def forward(self, x: Any) -> Any:
        x = self.stem(self.norm(x))
        x = x + self.project(F.relu(self.after(self.depthwise(x))))
        x = torch.cat((F.relu(x), F.max_pool2d(F.relu(self.wide(x)), 3, 1, 1)), 1)
        return self.classifier(x.mean((2, 3)))


def shapes_dataset(count: int, seed: int) -> tuple[Array, Array]:
    """uint8 (N, 12, 12, 3): eight patterns, shifted, coloured, under noise that makes them hard."""
    patterns = np.random.default_rng(0).normal(size=(8, 6, 6, 1))
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 8, count)
    images = rng.normal(0, 1.0, (count, 12, 12, 3))
    for image, label in zip(images, labels, strict=True):
        y, x = rng.integers(0, 7, 2)
        image[y : y + 6, x : x + 6] += 1.3 * patterns[label] * rng.uniform(0.5, 1.5, 3)
    return np.clip(128 + 32 * images, 0, 255).astype(np.uint8), labels


def trained() -> Any:
    torch.manual_seed(0)
    pixels, labels = shapes_dataset(2000, 1)
    x = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
    y = torch.from_numpy(labels)
    net = Small()
    optimiser = torch.optim.Adam(net.parameters(), 0.01)
    for step in range(200):
        part = torch.arange(step * 64, step * 64 + 64) % len(x)
        optimiser.zero_grad()
        F.cross_entropy(net(x[part]), y[part]).backward()
        optimiser.step()
    return net.eval()


def test_t46_int8_is_as_accurate_as_float() -> None:
    net = trained()
    graph = from_torch(net, (3, 12, 12))
    train, _ = shapes_dataset(200, 1)
    pixels, labels = shapes_dataset(600, 2)
    expected = evaluate(graph, {"x": pixels.astype(np.float32) / 255})[graph.output].reshape(
        600, -1
    )
    got = logits(quantize(graph, train), pixels)
    in_float, in_int8 = ((z.argmax(1) == labels).mean() for z in (expected, got))
    agree = (expected.argmax(1) == got.argmax(1)).mean()
    assert 0.6 < in_float < 0.99, "the task must be neither impossible nor trivial"
    assert agree > 0.97
    assert in_int8 > in_float - 0.01
