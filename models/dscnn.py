"""Depthwise separable CNN for keyword spotting (DS-CNN-S of Zhang et al. 2017, "Hello Edge").

Input ``(N, 1, frames, features)``, 49x10 in the original; a 10x4 stem with stride 2, then blocks
of a 3x3 depthwise and a 1x1 pointwise convolution.
"""

from __future__ import annotations

import torch
from torch import nn

from models import Size


def _separable(channels: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False),
        nn.BatchNorm2d(channels),
        nn.ReLU(),
        nn.Conv2d(channels, channels, 1, bias=False),
        nn.BatchNorm2d(channels),
        nn.ReLU(),
    )


class DsCnn(nn.Module):
    def __init__(self, classes: int, size: Size, width: int, blocks: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(size[0], width, (10, 4), stride=2, padding=(5, 1), bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
        )
        self.blocks = nn.Sequential(*[_separable(width) for _ in range(blocks)])
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.avgpool(self.blocks(self.stem(x)))
        return self.classifier(torch.flatten(x, 1))


def build(classes: int, size: Size, width: int = 64, blocks: int = 4) -> nn.Module:
    """``size`` is ``(channels, frames, features)``; ``width`` the channels of every block."""
    return DsCnn(classes, size, width, blocks)
