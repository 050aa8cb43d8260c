"""The network file NAME.net.npz: one zip of numpy arrays, the same bytes for the same network.

Members: `graph` (UTF-8 JSON: structure, shapes, scales, attributes), `hash` (SHA-256 of the
content) and one array for each weight, `NODE_INDEX/PARAMETER`. Nothing in it is pickled.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mcutrain.errors import InputError
from mcutrain.files import reason, write_atomic
from mcutrain.ir.graph import Array, Graph, Node, QParams, Tensor
from mcutrain.ir.verify import verify

SUFFIX = ".net.npz"
FORMAT = "mcutrain network"
VERSION = 1

_EPOCH = (
    1980,
    1,
    1,
    0,
    0,
    0,
)


def network_hash(graph: Graph) -> bytes:
    """The 16 bytes that identify a network: the first of a SHA-256 over all of its content."""
    return _digest(*_content(graph))[:16]


def save(graph: Graph, path: Path) -> None:
    """Write a network file, under a temporary name first.

    Raises:
        InputError: the network is not well formed, or the file cannot be written.
    """
    text, arrays = _content(verify(graph))
    members = {
        "graph": np.frombuffer(text, np.uint8),
        "hash": np.frombuffer(_digest(text, arrays), np.uint8),
        **arrays,
    }
    write_atomic(path, _zipped(members))


def load(path: Path) -> Graph:
    """Read and verify a network file.

    Raises:
        InputError: the file is missing, damaged, of another format or version, or not well formed.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise InputError(
            "no such network file", where=str(path), hint="mcutrain quantize makes one"
        ) from error
    except OSError as error:
        raise InputError("cannot read the network", where=str(path), why=reason(error)) from error
    if not data.startswith(b"PK"):  # anything else numpy would take for a pickle
        raise InputError(
            "this is not a network file",
            where=str(path),
            why="it is no zip archive",
            hint="mcutrain quantize or mcutrain import makes one; mcutrain inspect shows an image",
        )
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            members = {name: file[name] for name in file.files}
    except Exception as error:  # numpy and zipfile raise many kinds for damaged bytes
        raise _damaged(path, f"{type(error).__name__}: {error}") from error
    text, stored = _heads(members, path)
    try:
        document = json.loads(text)
        if document["format"] != FORMAT or document["version"] != VERSION:
            raise InputError(
                "the network file has another format or version",
                where=str(path),
                why=f"{document['format']} {document['version']}, expected {FORMAT} {VERSION}",
                hint="make it anew with this version of mcutrain",
            )
        if _digest(text, members) != stored:
            raise _damaged(path, "its content does not match its hash")
        graph = _graph(document, members)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from error
    return verify(graph)


def _damaged(path: Path, why: str) -> InputError:
    return InputError(
        "the network file is damaged", where=str(path), why=why, hint="make or copy it anew"
    )


def _heads(members: dict[str, Array], path: Path) -> tuple[bytes, bytes]:
    """Take the JSON text and the stored hash out of the members."""
    if "graph" not in members or "hash" not in members:
        raise InputError(
            "this is not a network file",
            where=str(path),
            why=f"it holds no 'graph' and 'hash' but {sorted(members)[:5]}",
            hint="mcutrain quantize makes one",
        )
    return members.pop("graph").tobytes(), members.pop("hash").tobytes()


def _content(graph: Graph) -> tuple[bytes, dict[str, Array]]:
    """The canonical content: JSON text, and weights as little-endian C-contiguous arrays."""
    document = {
        "format": FORMAT,
        "version": VERSION,
        "name": graph.name,
        "inputs": graph.inputs,
        "output": graph.output,
        "classes": graph.classes,
        "tensors": [
            [t.name, t.shape, None if t.q is None else [t.q.scale, t.q.zero_point]]
            for _, t in sorted(graph.tensors.items())
        ],
        "nodes": [
            {
                "op": n.op,
                "name": n.name,
                "inputs": n.inputs,
                "output": n.output,
                "attrs": dict(n.attrs),
                "params": sorted(n.params),
            }
            for n in graph.nodes
        ],
    }
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    arrays = {
        f"{i}/{key}": np.ascontiguousarray(value, value.dtype.newbyteorder("<"))
        for i, node in enumerate(graph.nodes)
        for key, value in sorted(node.params.items())
    }
    return text.encode(), arrays


def _digest(text: bytes, arrays: Mapping[str, Array]) -> bytes:
    digest = hashlib.sha256(text)
    for name, value in sorted(arrays.items()):
        digest.update(f"\n{name} {value.dtype.str} {value.shape}\n".encode())
        digest.update(value.tobytes())
    return digest.digest()


def _zipped(members: Mapping[str, Array]) -> bytes:
    file = io.BytesIO()
    # Stored, not deflated: a compressor's bytes change with its version.
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, value in members.items():
            data = io.BytesIO()
            np.lib.format.write_array(data, value, version=(1, 0), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", _EPOCH), data.getvalue())
    return file.getvalue()


def _tuples(value: Any) -> Any:
    """JSON has lists only; the IR has tuples only."""
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value


def _graph(document: dict[str, Any], arrays: Mapping[str, Array]) -> Graph:
    tensors = {
        name: Tensor(name, _tuples(shape), None if q is None else QParams(*q))
        for name, shape, q in document["tensors"]
    }
    nodes = tuple(
        Node(
            op=n["op"],
            name=n["name"],
            inputs=_tuples(n["inputs"]),
            output=n["output"],
            attrs={key: _tuples(value) for key, value in n["attrs"].items()},
            params={key: arrays[f"{i}/{key}"] for key in n["params"]},
        )
        for i, n in enumerate(document["nodes"])
    )
    return Graph(
        name=document["name"],
        inputs=_tuples(document["inputs"]),
        output=document["output"],
        tensors=tensors,
        nodes=nodes,
        classes=_tuples(document["classes"]),
    )
