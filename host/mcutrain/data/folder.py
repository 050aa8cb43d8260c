"""A folder of images: one sub-folder a class. Needs Pillow (extra `images`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mcutrain.data.dataset import Dataset, make
from mcutrain.data.encoded import Size, decode, pillow
from mcutrain.errors import InputError

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".pgm", ".gif", ".webp"}


def load(path: Path, size: Size | None = None, gray: bool = False) -> Dataset:
    """Images (N, H, W, 3), or (N, H, W, 1) if `gray`, uint8, ordered by class and file name.

    Args:
        path: holds one folder a class; the folders' names, sorted, are the classes.
        size: (H, W) that every image is resized to; None takes them as they are, all of one size.
        gray: luma only.

    Raises:
        ToolchainError: Pillow is not installed.
        InputError: no classes, no images, an unreadable image, or images of different sizes.
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
    images = [decode(image_module, _content(f), str(f), size, gray) for f, _ in files]
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


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError("cannot read the image", where=str(path), why=str(error)) from error
