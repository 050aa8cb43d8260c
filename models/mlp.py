"""Multilayer perceptron: flatten, two hidden layers, classifier."""

from __future__ import annotations

import torch
from torch import nn

from models import Size


class Mlp(nn.Module):
    def __init__(self, classes: int, size: Size, hidden: tuple[int, int]) -> None:
        super().__init__()
        channels, height, width = size
        self.fc1 = nn.Linear(channels * height * width, hidden[0])
        self.fc2 = nn.Linear(hidden[0], hidden[1])
        self.relu = nn.ReLU()
        self.classifier = nn.Linear(hidden[1], classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.flatten(x, 1)
        x = self.relu(self.fc1(x))
        x = self.relu(self.fc2(x))
        return self.classifier(x)


def build(classes: int, size: Size, hidden: tuple[int, int] = (48, 32)) -> nn.Module:
    """``size`` is ``(channels, height, width)``; ``hidden`` are the two layer widths."""
    return Mlp(classes, size, hidden)
