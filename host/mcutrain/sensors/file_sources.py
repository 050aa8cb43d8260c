"""Recordings in files: text, npz and wav."""

from __future__ import annotations

import wave
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mcutrain.errors import InputError
from mcutrain.files import reason
from mcutrain.sensors.block import Block, Counts, Values
from mcutrain.sensors.lines import LineParser

_WAV_BLOCK = 4096  # readings
_HINT = "docs/guide.md, 'Sensors', shows what a file may hold"


class TextFile:
    """A CSV file or any other with one reading a line; `parser` says how lines are read."""

    def __init__(self, path: Path, parser: LineParser) -> None:
        self.name = str(path)
        self._path = path
        self._parser = parser

    @property
    def counts(self) -> Counts:
        """Lines, and those that were left out."""
        return self._parser.counts

    def blocks(self) -> Iterator[Block]:
        """One reading a block."""
        first = True
        try:
            with self._path.open(encoding="utf-8-sig", errors="replace") as file:
                for line in file:
                    block = self._parser.parse(line)
                    if block is not None:
                        yield replace(block, first=first)
                        first = False
        except OSError as error:
            raise _unreadable(self._path, error) from error
        if first:
            raise InputError("the file holds no readings", where=self.name, hint=_HINT)

    def close(self) -> None:
        """Nothing is open."""


class ArrayFile:
    """An npz file: `x` (readings, channels) or (recordings, readings, channels), perhaps `y`.

    Recordings may be windows (windows, readings, 1, channels), as `mcutrain record --length` writes
    them for networks.

    y: one label a reading or recording: names, or numbers that `classes` may name.
    """

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.counts = Counts()
        self._path = path

    def blocks(self) -> Iterator[Block]:
        """One recording a block, or one stretch with the same label."""
        x, y = self._load()
        if x.ndim == 2:
            yield from _stretches(x, y)
            return
        for i, recording in enumerate(x):
            yield Block(recording, y[i] if y else None, first=True)

    def close(self) -> None:
        """Nothing is open."""

    def _load(self) -> tuple[Values, list[str]]:
        try:
            with np.load(self._path, allow_pickle=False) as archive:
                arrays = {key: archive[key] for key in archive.files}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise _unreadable(self._path, error) from error
        x: Any = arrays.get("x")
        if x is not None and x.ndim == 4 and x.shape[2] == 1:
            x = x[:, :, 0]
        if x is None or x.ndim not in (2, 3) or x.dtype.kind not in "iuf" or not x.size:
            found = ", ".join(f"{k} {v.shape}" for k, v in arrays.items()) or "nothing"
            raise InputError(
                "the file holds no readings",
                where=self.name,
                why="x must be (readings, channels), (recordings, readings, channels) or "
                f"(windows, readings, 1, channels); {found}",
                hint=_HINT,
            )
        y = _names(arrays.get("y"), arrays.get("classes"))
        if y and len(y) != len(x):
            raise InputError(
                "the labels do not belong to the readings",
                where=self.name,
                why=f"{len(x)} entries in x, {len(y)} in y",
                hint=_HINT,
            )
        return x.astype(np.float64), y


class WavFile:
    """Sound: one channel a microphone, values in [-1, 1)."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.counts = Counts()
        self._path = path

    def blocks(self) -> Iterator[Block]:
        """Blocks of some thousand readings."""
        first = True
        try:
            with wave.open(str(self._path)) as file:
                channels, width = file.getnchannels(), file.getsampwidth()
                while data := file.readframes(_WAV_BLOCK):
                    yield Block(_pcm(data, width).reshape(-1, channels), first=first)
                    first = False
        except (OSError, wave.Error, EOFError, ValueError) as error:
            raise _unreadable(self._path, error) from error
        if first:
            raise InputError("the file holds no sound", where=self.name, hint=_HINT)

    def close(self) -> None:
        """Nothing is open."""


def _pcm(data: bytes, width: int) -> Values:
    """Samples of 1 to 4 bytes; those of one byte are unsigned."""
    raw = np.frombuffer(data, np.uint8)
    if width == 1:
        return (raw.astype(np.float64) - 128) / 128
    # The bytes become the upper ones of an int32.
    padded = np.zeros((len(raw) // width, 4), np.uint8)
    padded[:, 4 - width :] = raw.reshape(-1, width)
    return padded.view("<i4").reshape(-1).astype(np.float64) / 2**31


def _names(y: Any, classes: Any) -> list[str]:
    if y is None:
        return []
    if classes is None or y.dtype.kind not in "iu":
        return [str(label) for label in y]
    return [str(classes[label]) if 0 <= label < len(classes) else str(label) for label in y]


def _stretches(x: Values, y: list[str]) -> Iterator[Block]:
    start = 0
    for end in range(1, len(x) + 1):
        if end == len(x) or (y and y[end] != y[start]):
            yield Block(x[start:end], y[start] if y else None, first=start == 0)
            start = end


def _unreadable(path: Path, error: Exception) -> InputError:
    why = reason(error) or "it ends too early"
    return InputError("cannot read the readings", where=str(path), why=why, hint=_HINT)
