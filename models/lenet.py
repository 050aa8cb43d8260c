"""LeNet-5 (LeCun et al. 1998) with ReLU: two 5x5 convolutions, windowed average pools, two linears.

The linear layers follow a flatten of a spatial map, so their input order depends on the layout.
"""

from __future__ import annotations

import torch
from torch import nn

from models import Size


def _pooled(extent: int) -> int:
    """Extent after conv 5x5 (pad 2), pool 2, conv 5x5 (no pad), pool 2."""
    return (extent // 2 - 4) // 2


class LeNet(nn.Module):
    def __init__(self, classes: int, size: Size, hidden: int) -> None:
        super().__init__()
        channels, height, width = size
        self.conv1 = nn.Conv2d(channels, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.pool = nn.AvgPool2d(2)
        self.relu = nn.ReLU()
        self.fc1 = nn.Linear(16 * _pooled(height) * _pooled(width), hidden)
        self.fc2 = nn.Linear(hidden, hidden // 2)
        self.classifier = nn.Linear(hidden // 2, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(self.relu(self.conv1(x)))
        x = self.pool(self.relu(self.conv2(x)))
        x = torch.flatten(x, 1)
        x = self.relu(self.fc1(x))
        x = self.relu(self.fc2(x))
        return self.classifier(x)


def build(classes: int, size: Size, hidden: int = 64) -> nn.Module:
    """``size`` is ``(channels, height, width)`` with height and width of at least 12."""
    if min(_pooled(size[1]), _pooled(size[2])) < 1:
        raise ValueError(f"lenet needs inputs of at least 12x12, got {size[1]}x{size[2]}")
    return LeNet(classes, size, hidden)
