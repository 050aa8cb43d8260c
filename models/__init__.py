"""Small network definitions (PyTorch) that mcutrain can train on a microcontroller.

Every file under this package defines one architecture with one public function
``build(classes, size, ...) -> torch.nn.Module``. ``size`` is ``(channels, height, width)``; the
modules take float32 NCHW batches and return logits ``(N, classes)``. The last layer is always an
``nn.Linear`` called ``classifier``.

This module does not import torch, so that listing the names stays cheap.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

Size = tuple[int, int, int]


@dataclass(frozen=True)
class Architecture:
    """A named builder. ``size`` is the default ``(channels, height, width)``."""

    module: str
    size: Size
    classes: int
    about: str

    def build(
        self, classes: int | None = None, size: Size | None = None, **options: Any
    ) -> nn.Module:
        """Return a freshly initialised module; weights follow torch's global generator."""
        builder = importlib.import_module(self.module).build
        module: nn.Module = builder(
            self.classes if classes is None else classes,
            self.size if size is None else size,
            **options,
        )
        return module


ARCHITECTURES: dict[str, Architecture] = {
    "mlp": Architecture("models.mlp", (1, 28, 28), 10, "two hidden layers"),
    "lenet": Architecture("models.lenet", (1, 28, 28), 10, "LeNet-5 with ReLU"),
    "imu_cnn": Architecture("models.imu_cnn", (6, 128, 1), 7, "1-D CNN for motion sensors"),
    "dscnn": Architecture("models.dscnn", (1, 49, 10), 12, "depthwise separable CNN for keywords"),
    "resnet8": Architecture("models.resnet8", (3, 32, 32), 10, "ResNet-8, three residual stages"),
    "mcunet": Architecture("models.mcunet", (1, 28, 28), 10, "inverted residuals, kernels 3/5/7"),
}
