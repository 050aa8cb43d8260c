"""Files that are whole or absent: written under a temporary name, then renamed."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from mcutrain.errors import InputError


def write_atomic(path: Path, content: bytes | str) -> None:
    """Write a file so that no reader, and no crash, ever sees a part of it.

    Raises:
        InputError: the folder is missing or not writable, or the disk is full.
    """
    data = content.encode() if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        try:
            with temporary.open("xb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise cannot_write(path, error) from error


def make_folder(path: Path) -> Path:
    """Make a folder and those above it, unless it is there already; returns it.

    Raises:
        InputError: it cannot be made, or is a file.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from error
    return path


def cannot_write(path: Path, error: OSError) -> InputError:
    """The error for a file or folder that the system does not let us write."""
    return InputError(
        "cannot write",
        where=str(path),
        why=error.strerror or str(error),
        hint="check that the folder exists, is writable and has room",
    )
