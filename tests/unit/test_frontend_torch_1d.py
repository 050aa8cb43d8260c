"""PyTorch modules over sequences, and the shape that a module takes."""

from __future__ import annotations

from typing import Any

import pytest

from mcutrain.frontends.torch import input_shape

pytest.importorskip("torch")
import torch
from tests.torch_networks import check

nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.torch


class Sequence(nn.Module):
    """1-D, with what an IMU network has: strides, groups, pools, a sum, a batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv1d(6, 8, 5, stride=2, padding=2, bias=False), nn.BatchNorm1d(8), nn.ReLU()
        )
        self.depthwise = nn.Conv1d(8, 8, 3, padding="same", groups=8)
        self.pool = nn.MaxPool1d(2)
        self.mean = nn.AvgPool1d(3, stride=2, padding=1)
        self.point = nn.Conv1d(8, 12, 1)
        self.last = nn.AdaptiveAvgPool1d(1)
        self.head = nn.Linear(12, 3)

    def forward(self, x: Any) -> Any:
        x = self.stem(x)
        x = self.mean(self.pool(x + F.relu6(self.depthwise(x))))
        return self.head(torch.flatten(self.last(self.point(x)), 1))


def test_t04_one_dimensional_layers_are_maps_one_pixel_wide() -> None:
    graph = check(Sequence(), (6, 64))
    assert graph.tensors["stem.0"].shape == (32, 1, 8)
    assert graph.tensors["mean"].shape == (8, 1, 8)


def test_mean_over_time() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.head = nn.Conv1d(2, 4, 3), nn.Linear(4, 2)

        def forward(self, x: Any) -> Any:
            return self.head(self.conv(x).mean(-1))

    check(Net(), (2, 9))


@pytest.mark.parametrize(
    ("layer", "given", "expected"),
    [
        (nn.Conv1d(6, 2, 3), (64, 1, 6), (6, 64)),
        (nn.Conv2d(6, 2, 1), (64, 1, 6), (6, 64, 1)),
        (nn.Conv2d(1, 2, 1), (1, 1, 1), (1, 1, 1)),
        (nn.Linear(5, 2), (1, 1, 5), (5,)),
        (nn.Linear(5, 2), (4, 4, 3), (3, 4, 4)),
    ],
)
def test_the_shape_that_a_module_takes(layer: Any, given: Any, expected: Any) -> None:
    assert input_shape(nn.Sequential(layer), *given) == expected


def test_one_pixel_and_one_channel() -> None:
    check(nn.Sequential(nn.Conv2d(1, 4, 1), nn.ReLU(), nn.Flatten(), nn.Linear(4, 2)), (1, 1, 1))
