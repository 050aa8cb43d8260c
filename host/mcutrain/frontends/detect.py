"""Import a network that is already int8, whatever its file's format."""

from __future__ import annotations

import json
import shlex
import zipfile
from collections.abc import Callable
from pathlib import Path

from mcutrain.errors import InputError
from mcutrain.files import reason
from mcutrain.frontends.int8_graph import FORMAT, import_int8_graph
from mcutrain.frontends.published import import_published
from mcutrain.frontends.tflite import import_tflite
from mcutrain.frontends.tflite_file import IDENTIFIER
from mcutrain.ir.graph import Graph

_KINDS = f"an int8 TFLite file, a JSON file of format {FORMAT}, or a published pickle (.pkl)"


def import_network(path: Path) -> Graph:
    """The quantised network in a file; its format is recognised by its content.

    Raises:
        InputError: the file is missing, damaged, or of no known format.
        UnsupportedError: the network uses something without a counterpart; names the layer.
    """
    try:
        with path.open("rb") as file:
            start = file.read(64)
    except OSError as error:
        raise InputError(
            "cannot read the network",
            where=str(path),
            why=reason(error),
            hint=f"give {_KINDS}",
        ) from error
    if start[4:8] == IDENTIFIER:
        return import_tflite(path)
    if start.lstrip()[:1] == b"{":
        return import_int8_graph(path)
    if zipfile.is_zipfile(path):
        return _zip_importer(path)(path)
    raise InputError(
        "the file holds no network that can be imported",
        where=str(path),
        why=f"it is not {_KINDS}",
        hint="a float network is quantised: mcutrain quantize MODEL --data DATA -o NET",
    )


def _zip_importer(path: Path) -> Callable[[Path], Graph]:
    with zipfile.ZipFile(path) as file:
        names = file.namelist()
    if any(name.endswith("data.pkl") for name in names):
        return import_published
    if "graph.npy" in names:
        raise InputError(
            "the file is a network already",
            where=str(path),
            hint=shlex.join(["mcutrain", "inspect", str(path)]),
        )
    beside = path.with_suffix(".json")
    if names and all(name.endswith(".npy") for name in names) and _is_int8_graph(beside):
        return lambda _: import_int8_graph(beside)
    raise InputError(
        "the zip holds no network that can be imported",
        where=str(path),
        why=f"it holds {', '.join(names[:3]) or 'nothing'}, ...; expected {_KINDS}",
    )


def _is_int8_graph(path: Path) -> bool:
    try:
        return bool(json.loads(path.read_text(encoding="utf-8"))["format"] == FORMAT)
    except (OSError, ValueError, KeyError, TypeError):
        return False
