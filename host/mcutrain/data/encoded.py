"""Images that stay encoded (JPEG, PNG, ...), in memory or files, until they are looked at.

Decoded, 8,000 images of 128x128 take 400 MB. Needs Pillow (extra `images`).
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.errors import InputError, ToolchainError
from mcutrain.files import reason

Pixels = npt.NDArray[np.uint8]
Size = tuple[int, int]
Encoded = bytes | memoryview | Path

_HINT = "replace it, or take it out of the data"


class EncodedImages:
    """What an array (N, H, W, C) of uint8 is, as far as a data set needs it.

    Args:
        encoded: the bytes of each image, or its file.
        name: the file or folder that they are from, for errors.
        size: (H, W) that every image is resized to, bilinearly; None takes that of the first one.
        gray: luma only: C is 1, else 3.

    Raises:
        ToolchainError: Pillow is not installed.
        InputError: (also from an index) an image cannot be read, or has another size.
    """

    dtype = np.dtype(np.uint8)
    ndim = 4

    def __init__(
        self,
        encoded: Sequence[Encoded],
        name: str,
        size: Size | None = None,
        gray: bool = False,
    ) -> None:
        self._encoded = encoded
        self._name = name
        self._resize, self._gray = size, gray
        self._numbers = np.arange(len(encoded))
        self._pillow = pillow("images")
        self._size: Size = size or (1, 1)
        if size is None and len(encoded):
            height, width, _ = self._decoded(0).shape
            self._size = (height, width)

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, H, W, C)."""
        return (len(self._numbers), *self._size, 1 if self._gray else 3)

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, index: int) -> Pixels:
        """One image (H, W, C)."""
        number = int(self._numbers[index])
        pixels = self._decoded(number)
        if pixels.shape[:2] != self._size:
            raise InputError(
                "the images are not all of one size",
                where=self._where(number),
                why=f"{pixels.shape[0]}x{pixels.shape[1]}, the first one has "
                f"{self._size[0]}x{self._size[1]}",
                hint="...?size=HEIGHTxWIDTH resizes them",
            )
        return pixels

    def _decoded(self, number: int) -> Pixels:
        encoded, where = self._encoded[number], self._where(number)
        return decode(self._pillow, encoded, where, self._resize, self._gray)

    def _where(self, number: int) -> str:
        encoded = self._encoded[number]
        return str(encoded) if isinstance(encoded, Path) else f"{self._name}, image {number}"

    def take(self, indices: npt.NDArray[np.int64] | slice) -> EncodedImages:
        """The images at `indices`, still encoded."""
        taken = object.__new__(EncodedImages)
        taken.__dict__ |= self.__dict__
        taken._numbers = self._numbers[indices]
        return taken

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """All of them, decoded."""
        del copy  # there is no array yet that could be shared
        images = (
            np.stack([self[i] for i in range(len(self))]) if len(self) else np.zeros(self.shape)
        )
        return images.astype(dtype or np.uint8, copy=False)


def pillow(what: str) -> Any:
    """The module PIL.Image.

    Raises:
        ToolchainError: it is not installed.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise ToolchainError(
            f"{what} need Pillow",
            why="the Python package 'pillow' is not installed",
            hint="pip install 'mcutrain[images]'",
        ) from error
    return Image


def size_of(image_module: Any, encoded: Encoded, where: str) -> Size:
    """Height and width, from an image's header.

    Raises:
        InputError: it cannot be read.
    """
    with _opened(image_module, encoded, where) as opened:
        return opened.height, opened.width


def decode(
    image_module: Any,
    encoded: Encoded,
    where: str,
    size: Size | None = None,
    gray: bool = False,
) -> Pixels:
    """The pixels (H, W, C) of an encoded image, resized bilinearly where a size is given.

    Raises:
        InputError: it cannot be read.
    """
    with _opened(image_module, encoded, where) as opened:
        image = opened.convert("L" if gray else "RGB")
    if size is not None and (image.height, image.width) != size:
        image = image.resize((size[1], size[0]), image_module.Resampling.BILINEAR)
    pixels = np.asarray(image, np.uint8)
    return pixels.reshape(pixels.shape[0], pixels.shape[1], 1 if gray else 3)


@contextmanager
def _opened(image_module: Any, encoded: Encoded, where: str) -> Iterator[Any]:
    source = encoded if isinstance(encoded, Path) else io.BytesIO(encoded)
    try:
        with image_module.open(source) as opened:
            yield opened
    except image_module.UnidentifiedImageError as error:
        why = "it is no image, or of a format that Pillow does not know"
        raise InputError("cannot read the image", where=where, why=why, hint=_HINT) from error
    except (OSError, ValueError, image_module.DecompressionBombError) as error:
        why = reason(error)
        raise InputError("cannot read the image", where=where, why=why, hint=_HINT) from error
