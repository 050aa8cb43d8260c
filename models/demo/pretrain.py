"""Pre-train the demo network on upright Fashion-MNIST and write its weights.

    python -m models.demo.pretrain

Takes three to six minutes on two cores. Seeds and thread count are fixed; another version of
PyTorch or another processor may still round differently: the committed weights are the reference.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import mcutrain.data
from mcutrain.data import Dataset
from models import ARCHITECTURES, demo

EPOCHS = 8
BATCH = 128
PEAK_RATE = 0.3


def tensors(data: Dataset) -> tuple[torch.Tensor, torch.Tensor]:
    """NCHW float32 samples and int64 labels."""
    x = np.ascontiguousarray(data.real().transpose(0, 3, 1, 2))
    return torch.from_numpy(x), torch.from_numpy(data.y)


@torch.no_grad()
def accuracy(module: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    """Top-1 in percent."""
    right = sum(
        int((module(x[i : i + 500]).argmax(1) == y[i : i + 500]).sum())
        for i in range(0, len(x), 500)
    )
    return 100 * right / len(x)


def train(x: torch.Tensor, y: torch.Tensor) -> nn.Module:
    torch.manual_seed(0)
    module = ARCHITECTURES[demo.ARCHITECTURE].build(demo.CLASSES, demo.SIZE)
    optimizer = torch.optim.SGD(
        module.parameters(), lr=PEAK_RATE, momentum=0.9, nesterov=True, weight_decay=1e-4
    )
    batches = len(x) // BATCH
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, PEAK_RATE, total_steps=EPOCHS * batches, pct_start=0.2
    )
    order = torch.Generator().manual_seed(1)
    for epoch in range(EPOCHS):
        module.train()
        total = 0.0
        for batch in torch.randperm(len(x), generator=order)[: batches * BATCH].split(BATCH):
            optimizer.zero_grad()
            loss = functional.cross_entropy(module(x[batch]), y[batch])
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        print(f"epoch {epoch + 1}/{EPOCHS}: mean loss {total / batches:.3f}", flush=True)
    return module.eval()


def save(module: nn.Module, path: Path) -> None:
    """Write the state_dict as .npz under a temporary name, then rename it."""
    arrays = {
        name: tensor.numpy()
        for name, tensor in module.state_dict().items()
        if not name.endswith("num_batches_tracked")
    }
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)
    temporary.replace(path)


def main() -> None:
    torch.set_num_threads(2)
    torch.use_deterministic_algorithms(True)
    module = train(*tensors(mcutrain.data.open(demo.PRETRAIN)))
    save(module, demo.WEIGHTS)
    for name, spec in (
        ("test images", "fashion-mnist:test"),
        ("after the change of camera", f"fashion-mnist:test?shift={demo.SHIFT}"),
    ):
        print(f"{name}: {accuracy(module, *tensors(mcutrain.data.open(spec))):.1f} %")


if __name__ == "__main__":
    main()
