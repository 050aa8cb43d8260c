"""Files that are whole or absent: written under a temporary name, then renamed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from mcutrain.errors import InputError


def write_atomic(path: Path, content: bytes | str) -> None:
    """Write a file so that no reader, and no crash, ever sees a part of it.

    Raises:
        InputError: the folder is missing or not writable, or the disk is full.
    """
    data = content.encode() if isinstance(content, str) else content
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError("cannot write the file", where=str(path), why=str(error)) from error
