"""The results of runs: one JSON file each, written whole."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mcutrain.accuracy.grid import Settings
from mcutrain.errors import InputError
from mcutrain.files import make_folder, read_json, write_atomic

_NUMBERS = ("accuracy", "loss", "seconds")


class Store:
    """A folder of results.

    Raises:
        InputError: it cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = make_folder(folder)

    def load(self) -> dict[str, dict[str, Any]]:
        """All results by the key of their settings; what was made under other rules is left out.

        Raises:
            InputError: a file is damaged.
        """
        found = {}
        for path in sorted(self._folder.glob("*.json")):
            try:
                result = read_json(path)
                settings = Settings.from_dict(result["settings"])
                complete = all(isinstance(result[name], int | float) for name in _NUMBERS)
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise InputError(
                    "the result of a run cannot be read",
                    where=str(path),
                    why=f"{type(error).__name__}: {error}",
                    hint="delete it, and it is run again",
                ) from error
            if complete and settings.key == path.stem:
                found[path.stem] = result
        return found

    def save(self, settings: Settings, result: dict[str, Any]) -> dict[str, Any]:
        """Keep a result; returns it with its settings."""
        whole = {"settings": asdict(settings), **result}
        write_atomic(self._folder / f"{settings.key}.json", json.dumps(whole) + "\n")
        return whole
