"""The architectures of models/ in int8, at three sizes each; skips importers without torch."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from models import ARCHITECTURES, Size

from mcutrain.frontends.torch import from_torch
from mcutrain.ir.graph import Graph
from mcutrain.quantize import quantize

torch = pytest.importorskip("torch")

SIZES: dict[str, tuple[Size, ...]] = {
    "mlp": ((1, 28, 28), (3, 9, 7), (1, 16, 16)),
    "lenet": ((1, 28, 28), (3, 32, 32), (1, 15, 13)),
    "imu_cnn": ((6, 128, 1), (3, 64, 1), (1, 33, 1)),
    "dscnn": ((1, 49, 10), (1, 25, 10), (3, 31, 9)),
    "resnet8": ((3, 32, 32), (1, 15, 15), (3, 17, 24)),
    "mcunet": ((1, 28, 28), (3, 32, 32), (1, 15, 17)),
}
CASES = [(name, size) for name in ARCHITECTURES for size in SIZES[name]]


def settled(module: Any, size: Size) -> Any:
    """Batch norms with the statistics of uniform data, as if trained on it."""
    module.train()
    with torch.no_grad():
        for _ in range(10):
            module(torch.rand(8, *size))
    return module.eval()


@cache
def quantised(name: str, size: Size) -> Graph:
    """From the PyTorch module to int8, calibrated on uniform data."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # such small layers are slower on several
    torch.manual_seed(0)
    module = settled(ARCHITECTURES[name].build(None, size), size)
    graph = from_torch(module, size, name=name)
    images = torch.rand(16, *size).permute(0, 2, 3, 1).numpy()
    torch.set_num_threads(threads)
    return quantize(graph, images)
