"""The demo: a network trained on upright images, whose camera is then replaced.

The new camera is mounted on its side and shows dark as light (`SHIFT`), and the network fails.
Specs are in the grammar of `mcutrain.data.open`. No sample serves two purposes: the network was
pre-trained on the first 50,000 training images, the device trains on the others, and is
evaluated on test images.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

HERE = Path(__file__).parent
WEIGHTS = HERE / "mcunet-fashion.npz"
SCHEME = HERE / "scheme.json"

ARCHITECTURE = "mcunet"
CLASSES = 10
SIZE = (1, 28, 28)

SHIFT = "rotate90+negative"
PRETRAIN = "fashion-mnist:train?count=50000"
CALIBRATION = "fashion-mnist:train?count=256"
TRAIN = f"fashion-mnist:train?skip=50000&seed=0&count=1000&shift={SHIFT}"
EVAL = f"fashion-mnist:test?seed=0&count=300&shift={SHIFT}"

# Plain SGD, batch 1, one pass; the rate rises for the first tenth and falls along a cosine to 0.
LEARNING_RATE = 0.02
LEARNING_RATE_HEAD_ONLY = 0.4
WARM_UP = 0.1


def load() -> nn.Module:
    """The pre-trained network in eval mode: float32 (N, 1, 28, 28) in [0, 1] to logits (N, 10)."""
    import numpy as np
    import torch

    from models import ARCHITECTURES

    module = ARCHITECTURES[ARCHITECTURE].build(CLASSES, SIZE)
    with np.load(WEIGHTS, allow_pickle=False) as archive:
        state = {name: torch.from_numpy(archive[name]) for name in archive.files}
    # Only this counter of batch norm is not stored: it plays no part after training.
    counters = {n: t for n, t in module.state_dict().items() if n.endswith("num_batches_tracked")}
    module.load_state_dict({**state, **counters})
    return module.eval()
