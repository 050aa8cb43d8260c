"""Changes of the sensor, as exact functions of the pixels: what a device meets after deployment.

They make a network fail that was trained before the change, which is what on-device training is
for. All take and give uint8 (N, H, W, C) and use no random numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from mcutrain.data.dataset import Samples
from mcutrain.errors import UsageError

Images = npt.NDArray[np.uint8]


def rotate90(x: Images) -> Images:
    """The camera was mounted on its side: a quarter turn, counter-clockwise."""
    return np.rot90(x, 1, (1, 2))


def rotate180(x: Images) -> Images:
    """The camera was mounted upside down."""
    return np.rot90(x, 2, (1, 2))


def mirror(x: Images) -> Images:
    """The camera looks into a mirror: left and right change places."""
    return x[:, :, ::-1]


def negative(x: Images) -> Images:
    """The new sensor shows dark as light, as thermal cameras may."""
    return np.uint8(255) - x


def dim(x: Images) -> Images:
    """Half the light, on a grey veil: contrast 1/2, black at 32."""
    return x // np.uint8(2) + np.uint8(32)


def blur(x: Images) -> Images:
    """Out of focus: the mean over 3x3 pixels, rounded down, borders repeated."""
    padded = np.pad(x.astype(np.uint16), ((0, 0), (1, 1), (1, 1), (0, 0)), mode="edge")
    height, width = x.shape[1:3]
    total = np.zeros(x.shape, np.uint16)
    for row in range(3):
        for column in range(3):
            total += padded[:, row : row + height, column : column + width]
    return (total // 9).astype(np.uint8)


SHIFTS: dict[str, Callable[[Images], Images]] = {
    f.__name__: f for f in (rotate90, rotate180, mirror, negative, dim, blur)
}


def apply(names: str, x: Samples) -> Images:
    """Apply shifts such as "rotate90+negative", left to right; the result is contiguous.

    Raises:
        UsageError: an unknown name, or samples that are not uint8.
    """
    if x.dtype != np.uint8:
        raise UsageError(f"shifts work on uint8 images, these samples are {x.dtype}")
    images = x.astype(np.uint8, copy=False)
    for name in names.split("+"):
        if name not in SHIFTS:
            raise UsageError(f"unknown shift '{name}'", hint="known shifts: " + ", ".join(SHIFTS))
        images = SHIFTS[name](images)
    return np.ascontiguousarray(images)
