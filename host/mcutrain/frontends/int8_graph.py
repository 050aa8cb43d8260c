"""The JSON form `int8-graph-v1` (layers and scales) with its `.npz` of weights beside it.

Maps are listed as [C, H, W] and weights are OIHW there. The last layer, a 1x1 convolution of a 1x1
map, becomes the classifier.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mcutrain.errors import InputError, UnsupportedError
from mcutrain.files import reason
from mcutrain.frontends.int8_layers import FULL_RANGE, Int8Builder, Int8Weights, int8_weights
from mcutrain.ir.graph import Array, Graph, QParams, Shape

FORMAT = "int8-graph-v1"

Layer = Mapping[str, Any]


def import_int8_graph(path: Path) -> Graph:
    """The quantised network of a JSON file and the `.npz` of the same name.

    Raises:
        InputError: a file is missing, damaged or of another format.
        UnsupportedError: a layer that the IR has no operator for; names the layer.
    """
    document = _document(path)
    weights = _arrays(path.with_suffix(".npz"))
    try:
        return _graph(document, weights)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise InputError(
            "the network file is damaged",
            where=str(path),
            why=f"{type(error).__name__}: {error}",
            hint="copy it anew",
        ) from error


def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError("cannot read the network", where=str(path), why=reason(error)) from error
    found = document.get("format") if isinstance(document, dict) else None
    if found != FORMAT:
        raise InputError(
            "the JSON file has another format",
            where=str(path),
            why=f"format {found!r}, expected '{FORMAT}'",
        )
    return dict(document)


def _arrays(path: Path) -> dict[str, Array]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except Exception as error:  # numpy and zipfile raise many kinds for damaged bytes
        raise InputError(
            "cannot read the weights that belong to the JSON file",
            where=str(path),
            why=reason(error),
            hint="keep both files side by side under one name",
        ) from error


class _Importer:
    """The graph as it grows, and the tensors of the document by the names they have there."""

    def __init__(self, document: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        self.builder = Int8Builder(str(document["model"]))
        self.arrays = arrays
        given = document["input"]
        name, q = str(given["name"]), QParams(float(given["scale"]), int(given["zero"]))
        self.known = {name: self.builder.input(name, _hwc(given["shape"][1:]), q)}

    def source(self, layer: Layer, index: int, x: str) -> str:
        """The tensor that input `index` stands for; it must have the scale that the layer says."""
        tensor = self.known[layer["inputs"][index]]
        q = QParams(float(layer[f"{x}_scale"]), int(layer[f"{x}_zero"]))
        self.builder.check_source(layer["name"], tensor, q)
        return tensor

    def weights(self, layer: Layer) -> Int8Weights:
        """OHWI weights of a convolution."""
        oihw = self.arrays[layer["weight"]]
        return int8_weights(
            oihw.transpose(0, 2, 3, 1),
            self.arrays[layer["bias"]],
            self.arrays[layer["w_scale"]],
            layer["name"],
        )

    def conv2d(self, layer: Layer) -> str:
        """A convolution of any groups."""
        if list(layer.get("dilation", [1, 1])) != [1, 1]:
            raise UnsupportedError("a dilated convolution is not supported", where=layer["name"])
        top, left = (int(n) for n in layer["padding"])
        attrs = {
            "stride": tuple(int(n) for n in layer["stride"]),
            "pad": (top, left, top, left),
            "groups": int(layer["groups"]),
            **_limits(layer),
        }
        x, params = self.source(layer, 0, "x"), self.weights(layer).params()
        return self.builder.emit("conv2d", layer["name"], (x,), _made(layer), attrs, params)

    def add(self, layer: Layer) -> str:
        """A residual addition."""
        pair = (self.source(layer, 0, "x1"), self.source(layer, 1, "x2"))
        return self.builder.emit("add", layer["name"], pair, _made(layer), _limits(layer))

    def global_pool(self, layer: Layer) -> str:
        """An average over the whole map."""
        return self.builder.global_pool(layer["name"], self.known[layer["inputs"][0]])


_RULES: dict[str, Callable[[_Importer, Layer], str]] = {
    "conv2d": _Importer.conv2d,
    "depthwise_conv2d": _Importer.conv2d,
    "add": _Importer.add,
    "global_avgpool": _Importer.global_pool,
}


def _graph(document: Mapping[str, Any], arrays: Mapping[str, Array]) -> Graph:
    importer = _Importer(document, arrays)
    layers = document["layers"]
    for layer in layers[:-1]:
        rule = _RULES.get(layer["op"])
        if rule is None:
            raise UnsupportedError(
                f"operator '{layer['op']}' is not supported",
                where=layer["name"],
                hint="supported: " + ", ".join(_RULES),
            )
        importer.known[layer["output"]] = rule(importer, layer)
    head = layers[-1]
    if head["op"] != "conv2d" or head["output"] != document["output"]:
        raise UnsupportedError(
            "the last layer must be a convolution that makes the output: it becomes the classifier",
            where=head["name"],
        )
    weights = importer.weights(head)
    return importer.builder.classifier(head["name"], importer.source(head, 0, "x"), weights)


def _hwc(chw: list[int]) -> Shape:
    c, h, w = (int(n) for n in chw)
    return h, w, c


def _made(layer: Layer) -> QParams:
    return QParams(float(layer["y_scale"]), int(layer["y_zero"]))


def _limits(layer: Layer) -> dict[str, int]:
    lo, hi = layer.get("out_clamp", tuple(FULL_RANGE.values()))
    return {"lo": int(lo), "hi": int(hi)}
