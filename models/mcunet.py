"""A tiny MCUNet-style network: inverted residual blocks with kernels 3, 5 and 7.

A block expands with a 1x1 convolution, filters with a depthwise one and projects back linearly;
where shapes allow, its input is added to its output. The stem and two blocks halve the map, so
28x28 becomes 14x14, 7x7 and 4x4.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from models import Size


class Block(NamedTuple):
    """One inverted residual: depthwise kernel, expansion factor, output channels, stride."""

    kernel: int
    expansion: int
    channels: int
    stride: int


STEM = 16
BLOCKS: tuple[Block, ...] = (
    Block(3, 1, 8, 1),
    Block(5, 4, 16, 2),
    Block(3, 4, 16, 1),
    Block(7, 4, 24, 1),
    Block(5, 4, 40, 2),
    Block(3, 4, 40, 1),
)


def _conv(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1, relu: bool = True
) -> nn.Sequential:
    layers: list[nn.Module] = [
        nn.Conv2d(
            inputs,
            outputs,
            kernel,
            stride=stride,
            padding=kernel // 2,
            groups=groups,
            bias=False,
        ),
        nn.BatchNorm2d(outputs),
    ]
    if relu:
        layers.append(nn.ReLU6())
    return nn.Sequential(*layers)


class InvertedResidual(nn.Module):
    def __init__(self, inputs: int, block: Block) -> None:
        super().__init__()
        hidden = inputs * block.expansion
        self.expand = _conv(inputs, hidden, 1) if block.expansion > 1 else nn.Identity()
        self.depthwise = _conv(hidden, hidden, block.kernel, block.stride, groups=hidden)
        self.project = _conv(hidden, block.channels, 1, relu=False)
        self.residual = block.stride == 1 and inputs == block.channels

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.project(self.depthwise(self.expand(x)))
        return x + y if self.residual else y


class McuNet(nn.Module):
    def __init__(self, classes: int, size: Size, stem: int, blocks: tuple[Block, ...]) -> None:
        super().__init__()
        self.stem = _conv(size[0], stem, 3, stride=2)
        inputs = [stem, *[block.channels for block in blocks]]
        self.blocks = nn.Sequential(
            *[InvertedResidual(i, block) for i, block in zip(inputs, blocks, strict=False)]
        )
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(inputs[-1], classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.avgpool(self.blocks(self.stem(x)))
        return self.classifier(torch.flatten(x, 1))


def build(
    classes: int, size: Size, stem: int = STEM, blocks: tuple[Block, ...] = BLOCKS
) -> nn.Module:
    """``size`` is ``(channels, height, width)``; ``stem`` the channels of the first convolution."""
    return McuNet(classes, size, stem, blocks)
