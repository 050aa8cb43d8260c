"""Numpy archives: `x` and `y`, or `x_train`, `y_train`, `x_test`, `y_test`; or encoded images.

Encoded images (JPEG, PNG, ...) lie in one array `blob` (uint8), one behind the other: number i is
`blob[offset[i]:offset[i + 1]]`, its class `label[i]`. `split` may say of each whether it is for
training (0) or for the test (1), `classes` name the classes.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.data.dataset import Dataset, make
from mcutrain.data.encoded import EncodedImages, Size
from mcutrain.errors import InputError
from mcutrain.files import reason

_ENCODED = ("blob", "offset", "label")


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
    x, y, classes = _read(path, (f"x{suffix}", f"y{suffix}"))
    if shape is not None:
        x = _reshaped(x, shape, path)
    return make(x, y, str(path), classes)


def is_encoded(path: Path) -> bool:
    """Whether an archive holds encoded images."""
    return path.is_file() and zipfile.is_zipfile(path) and {*_ENCODED} <= _keys(path)


def load_encoded(
    path: Path, split: str | None = None, size: Size | None = None, gray: bool = False
) -> Dataset:
    """Encoded images from an .npz file; they stay encoded until they are looked at.

    Args:
        path: the archive.
        split: `train` or `test`; None takes all.
        size, gray: as for `EncodedImages`.

    Raises:
        InputError: not an archive, its arrays contradict each other, or an image cannot be read.
        ToolchainError: Pillow is not installed.
    """
    chosen = {None: None, "train": 0, "test": 1}.get(split, -1)
    if chosen == -1:
        raise InputError(
            f"there is no split '{split}'", where=str(path), hint="split=train or split=test"
        )
    names = _ENCODED if chosen is None else (*_ENCODED, "split")
    arrays = dict(zip((*names, "classes"), _read(path, names), strict=True))
    offset, label = arrays["offset"].astype(np.int64), arrays["label"]
    blob = np.ascontiguousarray(arrays["blob"], np.uint8).data.toreadonly()
    if label.ndim != 1 or arrays["offset"].dtype.kind not in "iu":
        why = f"label is {label.shape}, offset {arrays['offset'].dtype}"
        raise _contradiction(path, why)
    if offset.shape != (len(label) + 1,) or offset[0] < 0 or (np.diff(offset) < 0).any():
        raise _contradiction(path, f"{len(label)} labels, offsets of shape {offset.shape}")
    if offset[-1] > len(blob):
        raise _contradiction(path, f"the last image ends at {offset[-1]} of {len(blob)} bytes")
    wanted = np.arange(len(label))
    if chosen is not None:
        if arrays["split"].shape != label.shape:
            raise _contradiction(path, f"{len(label)} labels, split {arrays['split'].shape}")
        wanted = np.flatnonzero(arrays["split"] == chosen)
    images = [blob[offset[i] : offset[i + 1]] for i in wanted]
    x = EncodedImages(images, str(path), size, gray)
    return make(x, label[wanted], str(path), arrays["classes"])


def _contradiction(path: Path, why: str) -> InputError:
    return InputError("the encoded images contradict themselves", where=str(path), why=why)


def _keys(path: Path) -> set[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            return {name.removesuffix(".npy") for name in archive.namelist()}
    except (OSError, zipfile.BadZipFile):
        return set()


def _read(path: Path, names: Sequence[str]) -> tuple[Any, ...]:
    """The arrays of these names, and the list of classes, empty where there is none."""
    if not path.is_file():
        raise InputError("no such file", where=str(path))
    if not zipfile.is_zipfile(path):
        raise InputError("not an npz archive", where=str(path))
    try:
        with np.load(path, allow_pickle=False) as archive:
            keys = set(archive.files)
            if not {*names} <= keys:
                raise InputError(
                    f"the archive has no arrays {' and '.join(names)}",
                    where=str(path),
                    why="it holds " + (", ".join(sorted(keys)) or "nothing"),
                    hint=_split_hint(path, keys),
                )
            classes = [str(c) for c in archive["classes"]] if "classes" in keys else []
            return (*(archive[name] for name in names), classes)
    except (OSError, ValueError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        raise InputError("cannot read the npz file", where=str(path), why=reason(error)) from error


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
