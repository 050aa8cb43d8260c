"""IDX files, the format of MNIST and Fashion-MNIST: raw arrays behind a short header."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.data.dataset import Dataset, make
from mcutrain.errors import InputError
from mcutrain.files import reason

# The third byte of the file; numbers are big-endian.
_DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_array(path: Path) -> npt.NDArray[Any]:
    """The array in an IDX file, gzip-compressed or not.

    Raises:
        InputError: no such file, or its header and length do not agree.
    """
    where = str(path)
    try:
        raw = path.read_bytes()
        data = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except (OSError, EOFError, zlib.error) as error:
        raise InputError("cannot read the IDX file", where=where, why=reason(error)) from error
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _DTYPES:
        raise InputError("not an IDX file", where=where, why=f"it starts with {data[:4].hex(' ')}")
    start = 4 + 4 * data[3]
    shape = tuple(
        int(n) for n in np.frombuffer(data[4:start], ">u4", min(data[3], len(data) // 4 - 1))
    )
    dtype = np.dtype(_DTYPES[data[2]])
    expected = start + dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    if len(shape) != data[3] or len(data) != expected:
        raise InputError(
            "the IDX file is truncated or has extra bytes",
            where=where,
            why=f"its header {shape} asks for {expected} bytes, there are {len(data)}",
        )
    array = np.frombuffer(data, dtype, offset=start).reshape(shape)
    return array.astype(dtype.newbyteorder("="))


def load(images: Path, labels: Path, classes: tuple[str, ...] = ()) -> Dataset:
    """Images (N, H, W) or (N, H, W, C) and labels (N,) from two IDX files."""
    return make(read_array(images), read_array(labels), str(images), classes)
