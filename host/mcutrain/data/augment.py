"""Views of a sample: a fixed number of variants of each image, to train on in turn.

What is drawn for a view depends on (seed, sample, view) alone, and view 0 is the sample itself. So
there are as many different inputs as samples times views, and what a frozen part of a network makes
of them can be kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mcutrain.errors import UsageError

Pixels = npt.NDArray[np.uint8]

DEFAULT_VIEWS = 4
MAX_VIEWS = 256
_CROP_AREA = 0.5  # at least this share of the image is left
_CROP_RATIO = 4 / 3  # of width to height at most, and its inverse
_MOVE = 1 / 8  # of height and width, at most


@dataclass(frozen=True)
class Augmentation:
    """How the views of a sample are made.

    Attributes:
        kinds: names in `KINDS`, applied in this order.
        views: how many there are, the sample itself included.
        seed: of what is drawn.

    Raises:
        UsageError: an unknown kind, or an impossible number of views.
    """

    kinds: tuple[str, ...] = ()
    views: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        unknown = [kind for kind in self.kinds if kind not in KINDS]
        if unknown:
            raise UsageError(
                f"unknown augmentation '{unknown[0]}'", hint="there are: " + ", ".join(KINDS)
            )
        if not 1 <= self.views <= MAX_VIEWS:
            raise UsageError(f"views must be 1 to {MAX_VIEWS}, not {self.views}")

    def view(self, image: Pixels, sample: int, view: int) -> Pixels:
        """View number `view` of sample number `sample`, which is `image` (H, W, C)."""
        if view == 0:
            return image
        rng = np.random.Generator(np.random.PCG64([self.seed, sample, view]))
        for kind in self.kinds:
            image = KINDS[kind](image, rng)
        return np.ascontiguousarray(image)


def flip(image: Pixels, rng: np.random.Generator) -> Pixels:
    """Left and right change places in half of the views."""
    return image[:, ::-1] if rng.random() < 0.5 else image


def crop(image: Pixels, rng: np.random.Generator) -> Pixels:
    """A part of at least half the area, resized to the whole: another distance and place."""
    height, width = image.shape[:2]
    area = rng.uniform(_CROP_AREA, 1)
    ratio = math.exp(rng.uniform(-math.log(_CROP_RATIO), math.log(_CROP_RATIO)))
    part_h = min(math.sqrt(area / ratio), 1.0) * height
    part_w = min(math.sqrt(area * ratio), 1.0) * width
    top, left = rng.uniform(0, height - part_h), rng.uniform(0, width - part_w)
    rows = top + (np.arange(height) + 0.5) * (part_h / height) - 0.5
    columns = left + (np.arange(width) + 0.5) * (part_w / width) - 0.5
    return _resampled(image, rows, columns)


def move(image: Pixels, rng: np.random.Generator) -> Pixels:
    """Shifted by at most an eighth of height and width; the border is repeated."""
    height, width = image.shape[:2]
    down = int(rng.integers(-int(height * _MOVE), int(height * _MOVE) + 1))
    right = int(rng.integers(-int(width * _MOVE), int(width * _MOVE) + 1))
    rows = np.clip(np.arange(height) - down, 0, height - 1)
    columns = np.clip(np.arange(width) - right, 0, width - 1)
    return image[rows[:, None], columns]


KINDS: dict[str, Callable[[Pixels, np.random.Generator], Pixels]] = {
    f.__name__: f for f in (flip, crop, move)
}
NO_AUGMENTATION = Augmentation()


def _resampled(
    image: Pixels, rows: npt.NDArray[np.float64], columns: npt.NDArray[np.float64]
) -> Pixels:
    """The image at every pair of a row and a column, bilinear, rounded to nearest."""
    top, bottom, down = _neighbours(rows, image.shape[0])
    left, right, across = _neighbours(columns, image.shape[1])
    by_rows = image[top] * (1 - down)[:, None, None] + image[bottom] * down[:, None, None]
    both = by_rows[:, left] * (1 - across)[:, None] + by_rows[:, right] * across[:, None]
    return np.asarray(np.floor(both + np.float32(0.5)), np.uint8)


def _neighbours(
    places: npt.NDArray[np.float64], size: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """Of each place the pixel before it, the one behind it, and the weight of that one."""
    places = np.clip(places, 0, size - 1)
    before = places.astype(np.int64)
    behind = np.minimum(before + 1, size - 1)
    return before, behind, (places - before).astype(np.float32)
