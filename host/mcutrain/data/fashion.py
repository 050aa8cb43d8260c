"""Fashion-MNIST (Zalando, MIT licence) as Debian's package dataset-fashion-mnist installs it."""

from __future__ import annotations

from pathlib import Path

from mcutrain.data import idx
from mcutrain.data.dataset import Dataset
from mcutrain.errors import InputError, UsageError

DIRECTORY = Path("/usr/share/datasets/fashion-mnist")
CLASSES = (
    "t-shirt",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)
_PREFIX = {"train": "train", "test": "t10k"}


def load(split: str, directory: Path = DIRECTORY) -> Dataset:
    """60,000 (`train`) or 10,000 (`test`) images, 28x28x1 uint8, ten classes.

    Raises:
        UsageError: another split.
        InputError: the files are not there or are damaged.
    """
    if split not in _PREFIX:
        raise UsageError(f"fashion-mnist has the splits train and test, not '{split}'")
    images = directory / f"{_PREFIX[split]}-images-idx3-ubyte.gz"
    labels = directory / f"{_PREFIX[split]}-labels-idx1-ubyte.gz"
    if not images.is_file():
        raise InputError(
            "Fashion-MNIST is not installed",
            where=str(images),
            why="the data of Debian's package dataset-fashion-mnist is not in its place",
            hint="sudo apt-get install dataset-fashion-mnist",
        )
    return idx.load(images, labels, CLASSES)
