"""Numpy archives: `x` and `y`, or `x_train`, `y_train`, `x_test`, `y_test`."""

from __future__ import annotations

import math
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.data.dataset import Dataset, make
from mcutrain.errors import InputError


def load(
    path: Path, split: str | None = None, shape: tuple[int, int, int] | None = None
) -> Dataset:
    """Samples and labels from an .npz file; an array `classes` may hold the class names.

    Args:
        path: the archive. Arrays of Python objects are refused: reading them would run code.
        split: which of `x_<split>`, `y_<split>` to read; None reads `x`, `y`.
        shape: (H, W, C) of a sample: the numbers stay in order, channels fastest. None takes the
            array's own; windows (N, steps, channels) need it: (steps, 1, channels).

    Raises:
        InputError: not an archive, or the arrays are not in it.
    """
    suffix = f"_{split}" if split else ""
    if not path.is_file():
        raise InputError("no such file", where=str(path))
    if not zipfile.is_zipfile(path):
        raise InputError("not an npz archive", where=str(path))
    try:
        with np.load(path, allow_pickle=False) as archive:
            keys = set(archive.files)
            if not {f"x{suffix}", f"y{suffix}"} <= keys:
                raise InputError(
                    f"the archive has no arrays x{suffix} and y{suffix}",
                    where=str(path),
                    why="it holds " + (", ".join(sorted(keys)) or "nothing"),
                    hint=_split_hint(path, keys),
                )
            x, y = archive[f"x{suffix}"], archive[f"y{suffix}"]
            classes = [str(c) for c in archive["classes"]] if "classes" in keys else []
    except (OSError, ValueError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        raise InputError("cannot read the npz file", where=str(path), why=str(error)) from error
    if shape is not None:
        x = _reshaped(x, shape, path)
    return make(x, y, str(path), classes)


def _reshaped(x: npt.NDArray[Any], shape: tuple[int, int, int], path: Path) -> npt.NDArray[Any]:
    size = math.prod(x.shape[1:])
    if not x.ndim or size != math.prod(shape):
        raise InputError(
            f"the samples cannot be given the shape {'x'.join(map(str, shape))}",
            where=str(path),
            why=f"the array is {x.shape}: {size} numbers a sample",
        )
    return x.reshape(len(x), *shape)


def _split_hint(path: Path, keys: set[str]) -> str | None:
    splits = sorted(k[2:] for k in keys if k.startswith("x_") and f"y_{k[2:]}" in keys)
    if splits:
        return f"npz:{path}?split={splits[0]} (there are: {', '.join(splits)})"
    return "np.savez(FILE, x=samples, y=labels) writes such a file" if "x" not in keys else None
