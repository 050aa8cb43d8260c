"""Schemes: short ways to write a plan, by name or as a small JSON file.

Names: `head` (the classifier alone), `bias:K` (biases of the last K layers), `last:K` (all of the
last K layers), `full`, and for the networks of `mcutrain.plan.published` `49kb` and the like. A
file:

    {"bias_last": 20, "weights": {"b8.pw1": 0.25, "b9.pw1": [0, 3, 5], "b10.pw1": "all"}, "head":
    true}

`bias_last` counts conv2d and linear layers from the end, the classifier left out; `biases` may
list names instead. A number is the share of input channels, the strongest by weight norm.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mcutrain.errors import InputError
from mcutrain.files import read_json, reason
from mcutrain.ir.graph import Graph, Node
from mcutrain.plan.plan import Plan, input_channels, strongest_channels
from mcutrain.plan.published import is_published_name, published_scheme

_KEYS = {"bias_last", "biases", "weights", "head", "fraction_bits"}
_HINT = "use head, bias:K, last:K, full, a published scheme (49kb), or a JSON file"
_FILE_HINT = 'for example {"bias_last": 4, "weights": {"LAYER": 0.25, "OTHER": "all"}}'
_LAYERS_HINT = "mcutrain inspect NET lists the layers"


def trainable_layers(graph: Graph) -> tuple[Node, ...]:
    """conv2d and linear nodes in order, the classifier left out."""
    return tuple(n for n in graph.nodes[:-1] if n.op in ("conv2d", "linear"))


def resolve_scheme(graph: Graph, scheme: str, fraction_bits: int | None = None) -> Plan:
    """The plan that a scheme name or scheme file stands for, checked against the network.

    Raises:
        InputError: an unknown name, an unreadable file, or a plan that does not fit the network.
    """
    kind, _, number = scheme.partition(":")
    if Path(scheme).is_file():
        data = _read(scheme)
    elif kind in ("head", "bias", "last", "full"):
        data = _named(graph, kind, number, scheme)
    elif is_published_name(scheme):
        data = published_scheme(graph, trainable_layers(graph), scheme)
    else:
        raise InputError("no such scheme", where=scheme, hint=_HINT)
    return plan_from_dict(graph, data, where=scheme, fraction_bits=fraction_bits)


def plan_from_dict(
    graph: Graph, data: Mapping[str, Any], where: str, fraction_bits: int | None = None
) -> Plan:
    """The plan that the contents of a scheme file stand for; `fraction_bits` overrides the
    file's.
    """
    unknown = set(data) - _KEYS
    if unknown:
        raise InputError(
            f"unknown key '{sorted(unknown)[0]}' in a scheme",
            where=where,
            hint="known keys: " + ", ".join(sorted(_KEYS)),
        )
    _check_kinds(data, where)
    if "biases" in data:
        biases = tuple(data["biases"])
    else:
        layers = _last(graph, data.get("bias_last", 0), where)
        biases = tuple(n.name for n in layers)
    weights = {
        name: channels
        for name, value in data.get("weights", {}).items()
        if (channels := _channels(graph, graph.node(name), value))
    }
    bits = data.get("fraction_bits", 8) if fraction_bits is None else fraction_bits
    plan = Plan(biases, weights, data.get("head", True), bits)
    plan.check(graph)
    return plan


def _check_kinds(data: Mapping[str, Any], where: str) -> None:
    """Refuse values of the wrong kind, which JSON allows anywhere."""
    biases = data.get("biases", [])
    wrong = {
        "biases": "a list of different layer names"
        if not isinstance(biases, list)
        or not all(isinstance(b, str) for b in biases)
        or len(set(biases)) < len(biases)
        else "",
        "weights": "an object" if not isinstance(data.get("weights", {}), dict) else "",
        "head": "true or false" if not isinstance(data.get("head", True), bool) else "",
        "fraction_bits": "0, 4 or 8" if not _is_whole(data.get("fraction_bits", 8)) else "",
        "bias_last": "a whole number" if not _is_whole(data.get("bias_last", 0)) else "",
    }
    for key, expected in wrong.items():
        if expected:
            raise InputError(
                f"'{key}' in a scheme must be {expected}",
                where=where,
                why=f"it is {json.dumps(data[key])}",
                hint=_FILE_HINT,
            )
    if "biases" in data and "bias_last" in data:
        raise InputError(
            "'biases' and 'bias_last' in a scheme exclude each other", where=where, hint=_FILE_HINT
        )


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def plan_to_dict(plan: Plan) -> dict[str, Any]:
    """The contents of a scheme file for a plan."""
    return {
        "biases": list(plan.biases),
        "weights": {name: list(channels) for name, channels in plan.weights.items()},
        "head": plan.head,
        "fraction_bits": plan.fraction_bits,
    }


def _named(graph: Graph, kind: str, number: str, scheme: str) -> dict[str, Any]:
    if kind in ("bias", "last") and not (number.isascii() and number.isdigit()):
        raise InputError(f"scheme '{kind}' needs a number of layers", where=scheme, hint=_HINT)
    if kind in ("head", "full") and number:
        raise InputError(f"scheme '{kind}' takes no number", where=scheme, hint=_HINT)
    if kind == "head":
        return {}
    count = len(trainable_layers(graph)) if kind == "full" else int(number)
    trained = _last(graph, count, scheme)
    names = [n.name for n in trained]
    return {"biases": names, "weights": {} if kind == "bias" else dict.fromkeys(names, "all")}


def _last(graph: Graph, count: int, where: str) -> tuple[Node, ...]:
    layers = trainable_layers(graph)
    if not 0 <= count <= len(layers):
        raise InputError(
            f"the number of layers must lie between 0 and {len(layers)}, got {count}",
            where=where,
            why=f"'{graph.name}' has {len(layers)} layers with weights besides the classifier",
            hint=f"last:{len(layers)} or full trains all of them",
        )
    return layers[len(layers) - count :]


def _channels(graph: Graph, node: Node, value: Any) -> tuple[int, ...]:
    if node.op not in ("conv2d", "linear"):
        raise InputError(
            f"a layer of kind {node.op} has nothing to train", where=node.name, hint=_LAYERS_HINT
        )
    total = input_channels(graph, node)
    if value == "all":
        return tuple(range(total))
    if isinstance(value, list) and all(map(_is_whole, value)):
        return tuple(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1:
        count = int(value * total)
        if value and not count:
            raise InputError(
                f"a share of {value} of the input channels is none",
                where=node.name,
                why=f"the layer has {total}",
                hint=f"take at least {1 / total:.3g}, or name channels: [0]",
            )
        return tuple(range(total)) if count == total else strongest_channels(graph, node, count)
    raise InputError(
        "trained weights are given as a share between 0 and 1, a list of input channels, or 'all'",
        where=node.name,
        why=f"got {value!r}",
        hint=_FILE_HINT,
    )


def _read(scheme: str) -> dict[str, Any]:
    try:
        data = read_json(Path(scheme))
    except (OSError, ValueError) as error:
        raise InputError(
            "cannot read the scheme file", where=scheme, why=reason(error), hint=_FILE_HINT
        ) from error
    if not isinstance(data, dict):
        raise InputError("a scheme file holds one JSON object", where=scheme, hint=_FILE_HINT)
    return data
