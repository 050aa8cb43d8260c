"""ResNet-8 (the MLPerf Tiny image classifier): a stem and three residual blocks.

The second and third block halve the map and carry a 1x1 convolution on the shortcut.
"""

from __future__ import annotations

import torch
from torch import nn

from models import Size


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(outputs),
    )


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = _conv(inputs, outputs, 3, stride)
        self.conv2 = _conv(outputs, outputs, 3)
        self.relu = nn.ReLU()
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else _conv(inputs, outputs, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv2(self.relu(self.conv1(x)))
        return self.relu(y + self.shortcut(x))


class ResNet8(nn.Module):
    def __init__(self, classes: int, size: Size, width: int) -> None:
        super().__init__()
        self.stem = _conv(size[0], width, 3)
        self.relu = nn.ReLU()
        self.block1 = Residual(width, width, 1)
        self.block2 = Residual(width, 2 * width, 2)
        self.block3 = Residual(2 * width, 4 * width, 2)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(4 * width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.relu(self.stem(x))
        x = self.block3(self.block2(self.block1(x)))
        return self.classifier(torch.flatten(self.avgpool(x), 1))


def build(classes: int, size: Size, width: int = 16) -> nn.Module:
    """``size`` is ``(channels, height, width)``; ``width`` the channels of the first stage."""
    return ResNet8(classes, size, width)
