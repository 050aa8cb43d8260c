"""A folder of images: one sub-folder a class. Needs Pillow (extra `images`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mcutrain.data.dataset import Dataset, make
from mcutrain.data.encoded import EncodedImages, Size, pillow, size_of
from mcutrain.errors import InputError

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".pgm", ".gif", ".webp"}


def load(path: Path, size: Size | None = None, gray: bool = False) -> Dataset:
    """Images (N, H, W, 3), or (N, H, W, 1) if `gray`, uint8, ordered by class and file name.

    They are read when they are looked at; here only their headers are.

    Args:
        path: holds one folder a class; the folders' names, sorted, are the classes.
        size: (H, W) that every image is resized to; None takes them as they are, all of one size.
        gray: luma only.

    Raises:
        ToolchainError: Pillow is not installed.
        InputError: no classes, no images, a file that is no image, or images of different sizes.
    """
    image_module = pillow("image folders")
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
    sizes = [size_of(image_module, f, str(f)) for f, _ in files]
    for (f, _), (height, width) in zip(files, sizes, strict=True):
        if size is None and (height, width) != sizes[0]:
            raise InputError(
                "the images are not all of one size",
                where=str(f),
                why=f"{height}x{width}, but {files[0][0].name} has {sizes[0][0]}x{sizes[0][1]}",
                hint=f"folder:{path}?size=HEIGHTxWIDTH resizes them",
            )
    images = EncodedImages([f for f, _ in files], str(path), size, gray)
    labels = np.array([label for _, label in files], np.int64)
    return make(images, labels, str(path), [f.name for f in folders])


def _images(folder: Path) -> list[Path]:
    return sorted(f for f in folder.iterdir() if f.suffix.lower() in SUFFIXES)
