"""What a run left in its folder: settings and results (run.json), one record a step (log.jsonl)."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

from mcutrain.errors import InputError
from mcutrain.files import cannot_write, read_json, reason, write_atomic

RUN, LOG, IMAGE = "run.json", "log.jsonl", "image.mcti"
FORMAT = 1  # of run.json
STREAM = "stream:"  # how the data of a run on what a sensor measured are named

# What every record of a step has.
_NUMBERS = (
    *("number", "label", "predicted", "loss", "rate", "seconds"),
    *("saturated", "ticks_forward", "ticks_backward"),
)


@dataclass(frozen=True)
class Run:
    """A run folder, read.

    Attributes:
        info: settings, device and results as plain data.
        steps: the record of each training step, in order.
        image: the image that was trained.
    """

    folder: Path
    info: Mapping[str, Any]
    steps: tuple[Mapping[str, Any], ...]
    image: bytes

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a run folder, of a run that goes on or was killed, too.

        Raises:
            InputError: it is none, or is damaged.
        """
        try:
            info = read_json(folder / RUN)
            image = (folder / IMAGE).read_bytes()
        except (OSError, ValueError) as error:
            raise InputError(
                "this is not the folder of a run",
                where=str(folder),
                why=_no_run(folder, error),
                hint="mcutrain train IMAGE --data DATA --out RUN makes one",
            ) from error
        if why := _lacks(info):
            raise InputError(
                "the run cannot be read",
                where=str(folder / RUN),
                why=why,
                hint="it is damaged, or another version of mcutrain wrote it: train anew",
            )
        return cls(folder, info, tuple(_checked(read_log(folder / LOG), folder / LOG)), image)

    @property
    def data(self) -> str:
        """The spec of the samples that it trained on.

        Raises:
            InputError: a sensor measured them, and they are gone.
        """
        spec: str = self.info["settings"]["data"]
        if spec.startswith(STREAM):
            raise InputError(
                "a stream cannot be repeated or resumed",
                where=str(self.folder),
                why=f"{spec} trained it, and its windows are not kept",
                hint=f"mcutrain stream {IMAGE} SOURCE --state {shlex.quote(str(self.folder))} "
                "--out NEW trains on from its last state",
            )
        return spec


def _no_run(folder: Path, error: Exception) -> str:
    """Why a folder is not that of a run, from the error that reading it ended with."""
    if not folder.is_dir():
        return "it is a file" if folder.exists() else "there is no such folder"
    name = Path(getattr(error, "filename", None) or RUN).name
    if isinstance(error, FileNotFoundError):
        return f"there is no {name} in it"
    return f"{name}: {reason(error)}"


def _lacks(info: Any) -> str | None:
    """What makes the contents of a run.json unusable."""
    if not isinstance(info, dict):
        return "it holds no JSON object"
    if info.get("format") != FORMAT:
        return f"its format is {info.get('format')!r}, expected {FORMAT}"
    settings = info.get("settings")
    if not isinstance(settings, dict) or not isinstance(settings.get("data"), str):
        return "it names no data ('settings')"
    for name in ("before", "after"):
        if name in info and not _is_evaluation(info[name]):
            return f"'{name}' is no evaluation"
    for name in ("device", "stats", "samples"):
        if name in info and not isinstance(info[name], dict):
            return f"'{name}' is no object"
    return None


def _is_evaluation(data: Any) -> bool:
    if not isinstance(data, dict) or not _is_number(data.get("accuracy")):
        return False
    rows = data.get("confusion")
    return isinstance(rows, list) and all(
        isinstance(row, list) and len(row) == len(rows) and all(map(_is_number, row))
        for row in rows
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _checked(records: list[dict[str, Any]], path: Path) -> list[dict[str, Any]]:
    for line, record in enumerate(records, 1):
        wrong = [name for name in _NUMBERS if not _is_number(record.get(name))]
        if wrong:
            raise InputError(
                "the log of the run is damaged",
                where=f"{path}, line {line}",
                why=f"'{wrong[0]}' is {record.get(wrong[0])!r}, no number",
                hint="delete this line and those behind it",
            )
    return records


def read_log(path: Path) -> list[dict[str, Any]]:
    """The records of a log, up to the first line that is not whole."""
    records: list[dict[str, Any]] = []
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return records
    except OSError as error:
        raise InputError("cannot read the log", where=str(path), why=reason(error)) from error
    for line in lines:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            break  # the process was killed while it wrote this line
        if not isinstance(record, dict):
            break
        records.append(record)
    return records


class LogWriter:
    """Appends one JSON line a record; keeps the first `steps` records of an earlier part.

    Raises:
        InputError: (from any method) the file cannot be written.
    """

    def __init__(self, path: Path, steps: int) -> None:
        self._path = path
        kept = read_log(path)[:steps] if steps else []
        write_atomic(path, "".join(json.dumps(record) + "\n" for record in kept))
        try:
            self._stream: IO[str] = path.open("a", encoding="utf-8", buffering=1)
        except OSError as error:
            raise cannot_write(path, error) from error

    def write(self, record: Mapping[str, Any]) -> None:
        """Append a record."""
        try:
            self._stream.write(json.dumps(record) + "\n")
        except OSError as error:
            raise cannot_write(self._path, error) from error

    def close(self) -> None:
        """Finish; what was written stays."""
        try:
            self._stream.close()
        except OSError as error:
            raise cannot_write(self._path, error) from error
