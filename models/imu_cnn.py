"""1-D CNN for accelerometer and gyroscope windows, written as 2-D convolutions.

Input ``(N, sensor channels, time steps, 1)``, kernels ``(k, 1)``. After a strided stem, each stage
sees the signal at two time scales (k = 3 and k = 7), whose outputs are concatenated.
"""

from __future__ import annotations

import torch
from torch import nn

from models import Size


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(
            inputs, outputs, (kernel, 1), stride=(stride, 1), padding=(kernel // 2, 0), bias=False
        ),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )


class TwoScales(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.short = _conv(inputs, outputs // 2, 3)
        self.long = _conv(inputs, outputs // 2, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.short(x), self.long(x)], dim=1)


class ImuCnn(nn.Module):
    def __init__(self, classes: int, size: Size, width: int) -> None:
        super().__init__()
        self.stem = _conv(size[0], width, 5, stride=2)
        self.stage1 = TwoScales(width, 2 * width)
        self.stage2 = TwoScales(2 * width, 2 * width)
        self.maxpool = nn.MaxPool2d((2, 1))
        self.mix = _conv(2 * width, 3 * width, 3)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(3 * width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.maxpool(self.stage1(self.stem(x)))
        x = self.maxpool(self.stage2(x))
        x = self.avgpool(self.mix(x))
        return self.classifier(torch.flatten(x, 1))


def build(classes: int, size: Size, width: int = 16) -> nn.Module:
    """``size`` is ``(sensor channels, time steps, 1)`` with at least 8 time steps."""
    if size[2] != 1 or size[1] < 8:
        raise ValueError(f"imu_cnn needs size (channels, steps >= 8, 1), got {size}")
    return ImuCnn(classes, size, width)
