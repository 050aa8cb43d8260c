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
from mcutrain.ir.graph import Graph, Node
from mcutrain.plan.plan import Plan, input_channels, strongest_channels
from mcutrain.plan.published import is_published_name, published_scheme

_KEYS = {"bias_last", "biases", "weights", "head", "fraction_bits"}
_HINT = "use head, bias:K, last:K, full, a published scheme (49kb), or a JSON file"


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
    layers = trainable_layers(graph)
    if "biases" in data:
        biases = tuple(str(b) for b in data["biases"])
    else:
        biases = tuple(n.name for n in _last(layers, data.get("bias_last", 0), where))
    weights = {
        name: channels
        for name, value in dict(data.get("weights", {})).items()
        if (channels := _channels(graph, graph.node(name), value))
    }
    bits = data.get("fraction_bits", 8) if fraction_bits is None else fraction_bits
    plan = Plan(biases, weights, bool(data.get("head", True)), int(bits))
    plan.check(graph)
    return plan


def plan_to_dict(plan: Plan) -> dict[str, Any]:
    """The contents of a scheme file for a plan."""
    return {
        "biases": list(plan.biases),
        "weights": {name: list(channels) for name, channels in plan.weights.items()},
        "head": plan.head,
        "fraction_bits": plan.fraction_bits,
    }


def _named(graph: Graph, kind: str, number: str, scheme: str) -> dict[str, Any]:
    layers = trainable_layers(graph)
    if kind in ("bias", "last") and not number.isdigit():
        raise InputError(f"scheme '{kind}' needs a number of layers", where=scheme, hint=_HINT)
    if kind in ("head", "full") and number:
        raise InputError(f"scheme '{kind}' takes no number", where=scheme, hint=_HINT)
    if kind == "head":
        return {}
    count = len(layers) if kind == "full" else int(number)
    trained = _last(layers, count, scheme)
    names = [n.name for n in trained]
    return {"biases": names, "weights": {} if kind == "bias" else dict.fromkeys(names, "all")}


def _last(layers: tuple[Node, ...], count: Any, where: str) -> tuple[Node, ...]:
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= len(layers):
        raise InputError(
            f"the number of layers must lie between 0 and {len(layers)}, got {count}", where=where
        )
    return layers[len(layers) - count :]


def _channels(graph: Graph, node: Node, value: Any) -> tuple[int, ...]:
    total = input_channels(graph, node) if node.op in ("conv2d", "linear") else 0
    if value == "all":
        return tuple(range(total))
    if isinstance(value, list) and all(isinstance(c, int) for c in value):
        return tuple(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1:
        count = int(value * total)
        return tuple(range(total)) if count == total else strongest_channels(graph, node, count)
    raise InputError(
        "trained weights are given as a share between 0 and 1, a list of input channels, or 'all'",
        where=node.name,
        why=f"got {value!r}",
    )


def _read(scheme: str) -> dict[str, Any]:
    try:
        data = json.loads(Path(scheme).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError("cannot read the scheme file", where=scheme, why=str(error)) from error
    if not isinstance(data, dict):
        raise InputError("a scheme file holds one JSON object", where=scheme, hint=_HINT)
    return data
