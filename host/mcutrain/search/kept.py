"""Results of trials in a file, so that a search that was interrupted goes on where it was."""

from __future__ import annotations

import json
import math
from pathlib import Path

from mcutrain.files import read_json, write_atomic


class Kept:
    """Shares of right predictions by a text that says all that they depend on.

    Args:
        path: the file; None keeps them in memory. One that cannot be read counts as empty.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._shares = {} if path is None else _read(path)

    def __contains__(self, key: str) -> bool:
        return key in self._shares

    def __getitem__(self, key: str) -> float:
        return self._shares[key]

    def __setitem__(self, key: str, share: float) -> None:
        self._shares[key] = share
        if self._path is not None:
            write_atomic(self._path, json.dumps(self._shares) + "\n")


def _read(path: Path) -> dict[str, float]:
    try:
        found = read_json(path)
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {key: share for key, share in found.items() if _is_share(share)}


def _is_share(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value) and 0 <= value <= 1
