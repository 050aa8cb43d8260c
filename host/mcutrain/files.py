"""Files that are whole or absent: written under a temporary name, then renamed."""

from __future__ import annotations

import importlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mcutrain.errors import InputError

_WRITE_HINT = "check that the folder exists, is writable and has room"


def write_atomic(path: Path, content: bytes | str) -> None:
    """Write a file so that no reader, and no crash, ever sees a part of it.

    A symbolic link stays, what it points to is written. What is no file (a pipe, /dev/stdout) is
    written into, never replaced.

    Raises:
        InputError: the folder is missing or not writable, or the disk is full.
    """
    data = content.encode() if isinstance(content, str) else content
    target = Path(os.path.realpath(path))
    try:
        if target.is_dir():
            raise IsADirectoryError(None, "it is a folder")
        if target.exists() and not target.is_file():
            target.write_bytes(data)
            return
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        try:
            with temporary.open("xb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise cannot_write(path, error) from error


def check_writable(path: Path) -> Path:
    """Refuse, before long work, a file that could not be written after it; returns the path.

    Raises:
        InputError: the folder is missing or not writable, or the path names a folder.
    """
    target = Path(os.path.realpath(path))
    try:
        is_folder = target.is_dir()
    except OSError as error:  # the name is too long
        raise cannot_write(path, error) from error
    if is_folder:
        raise InputError("cannot write", where=str(path), why="it is a folder", hint=_WRITE_HINT)
    if not target.parent.is_dir():
        why = f"there is no folder {target.parent}"
    elif not os.access(target.parent, os.W_OK):
        why = f"no permission to write in {target.parent}"
    else:
        return path
    raise InputError("cannot write", where=str(path), why=why, hint=_WRITE_HINT)


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


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes that ask for the same lock out of a folder; it ends with the process.

    Raises:
        InputError: another process has it.
    """
    try:
        fcntl: Any = importlib.import_module("fcntl")
    except ImportError:  # Windows cannot lock a folder
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(
                "another process works in this folder",
                where=str(folder),
                why="two would overwrite each other's files",
                hint="wait for it or end it; or choose another folder (--out)",
            ) from error
        except OSError:
            pass  # a file system without locks
        yield
    finally:
        os.close(handle)


def read_json(path: Path) -> Any:
    """The contents of a JSON file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not JSON in UTF-8.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def reason(error: Exception) -> str:
    """What an error says, of the system's without its number and path; empty if it says nothing."""
    return getattr(error, "strerror", None) or str(error)


def cannot_write(path: Path, error: OSError) -> InputError:
    """The error for a file or folder that the system does not let us write."""
    return InputError("cannot write", where=str(path), why=reason(error), hint=_WRITE_HINT)
