"""A folder of images: one sub-folder a class. Needs Pillow (extra `images`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.data.dataset import Dataset, make
from mcutrain.errors import InputError, ToolchainError

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".pgm", ".gif", ".webp"}


def load(path: Path, size: tuple[int, int] | None = None, gray: bool = False) -> Dataset:
    """Images (N, H, W, 3), or (N, H, W, 1) if `gray`, uint8, ordered by class and file name.

    Args:
        path: holds one folder a class; the folders' names, sorted, are the classes.
        size: (H, W) that every image is resized to; None takes them as they are, all of one size.
        gray: luma only.

    Raises:
        ToolchainError: Pillow is not installed.
        InputError: no classes, no images, an unreadable image, or images of different sizes.
    """
    pillow = _pillow()
    if not path.is_dir():
        raise InputError("no such folder", where=str(path))
    folders = sorted(f for f in path.iterdir() if f.is_dir() and not f.name.startswith("."))
    files = [(f, label) for label, folder in enumerate(folders) for f in _images(folder)]
    if not files:
        raise InputError(
            "no images found",
            where=str(path),
            why="images are looked for as FOLDER/CLASS/*.png, *.jpg, *.bmp, *.ppm, *.gif, *.webp",
        )
    images = [_read(pillow, f, size, gray) for f, _ in files]
    for (f, _), image in zip(files, images, strict=True):
        if image.shape != images[0].shape:
            raise InputError(
                "the images are not all of one size",
                where=str(f),
                why=f"{image.shape[0]}x{image.shape[1]}, but {files[0][0].name} has "
                f"{images[0].shape[0]}x{images[0].shape[1]}",
                hint=f"folder:{path}?size=HEIGHTxWIDTH resizes them",
            )
    labels = np.array([label for _, label in files], np.int64)
    return make(np.stack(images), labels, str(path), [f.name for f in folders])


def _images(folder: Path) -> list[Path]:
    return sorted(f for f in folder.iterdir() if f.suffix.lower() in SUFFIXES)


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise ToolchainError(
            "image folders need Pillow",
            why="the Python package 'pillow' is not installed",
            hint="pip install 'mcutrain[images]'",
        ) from error
    return Image


def _read(
    pillow: Any, path: Path, size: tuple[int, int] | None, gray: bool
) -> npt.NDArray[np.uint8]:
    try:
        with pillow.open(path) as opened:
            image = opened.convert("L" if gray else "RGB")
    except (OSError, ValueError, pillow.DecompressionBombError) as error:
        raise InputError("cannot read the image", where=str(path), why=str(error)) from error
    if size is not None:
        image = image.resize((size[1], size[0]), pillow.Resampling.BILINEAR)
    pixels = np.asarray(image, np.uint8)
    return pixels.reshape(pixels.shape[0], pixels.shape[1], 1 if gray else 3)
