"""Numpy archives: `x` and `y`, or `x_train`, `y_train`, `x_test`, `y_test`."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np

from mcutrain.data.dataset import Dataset, make
from mcutrain.errors import InputError


def load(path: Path, split: str | None = None) -> Dataset:
    """Samples and labels from an .npz file; an array `classes` may hold the class names.

    Args:
        path: the archive. Arrays of Python objects are refused: reading them would run code.
        split: which of `x_<split>`, `y_<split>` to read; None reads `x`, `y`.

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
    return make(x, y, str(path), classes)


def _split_hint(path: Path, keys: set[str]) -> str | None:
    splits = sorted(k[2:] for k in keys if k.startswith("x_") and f"y_{k[2:]}" in keys)
    if splits:
        return f"npz:{path}?split={splits[0]} (there are: {', '.join(splits)})"
    return "np.savez(FILE, x=samples, y=labels) writes such a file" if "x" not in keys else None
