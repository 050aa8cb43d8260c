"""What the compiler says of networks that it cannot take (T09), and the widest it can (T41)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.networks import NetworkBuilder, residual_network

from mcutrain.compile import compile_program
from mcutrain.engine import Engine
from mcutrain.errors import McutrainError
from mcutrain.image.pack import pack
from mcutrain.ir.graph import Graph, Node, QParams, Tensor
from mcutrain.plan.scheme import resolve_scheme


def _attr(**attrs: Any) -> Callable[[Node], Node]:
    return lambda n: replace(n, attrs={**n.attrs, **attrs})


def _param(name: str, change: Callable[[Any], Any]) -> Callable[[Node], Node]:
    return lambda n: replace(n, params={**n.params, name: change(n.params[name])})


DAMAGES: dict[str, Callable[[Node], Node]] = {
    "operator": lambda n: replace(n, op="gelu"),
    "no inputs": lambda n: replace(n, inputs=()),
    "absent input": lambda n: replace(n, inputs=("nowhere", *n.inputs[1:])),
    "own output": lambda n: replace(n, inputs=(n.output, *n.inputs[1:])),
    "attribute": _attr(dilation=2),
    "stride": _attr(stride=(0, 1)),
    "pad": _attr(pad=(9, 0, 0, 0)),
    "groups": _attr(groups=5),
    "range": _attr(lo=3, hi=2),
    "no weights": lambda n: replace(n, params={}),
    "weight of -128": _param("weight", lambda w: np.full_like(w, -128)),
    "weight shape": _param("weight", lambda w: w[..., :-1]),
    "float bias": _param("bias", lambda b: b.astype(np.float32)),
    "scale of zero": _param("w_scale", np.zeros_like),
    "scale too large": _param("w_scale", lambda s: np.full_like(s, 1e30)),
}


def _damaged(graph: Graph, name: str, damage: Callable[[Node], Node]) -> Graph:
    nodes = tuple(damage(n) if n.name == name else n for n in graph.nodes)
    return replace(graph, nodes=nodes)


def _applies(node: Node, kind: str) -> bool:
    needs = {"stride": "stride", "pad": "pad", "groups": "groups", "range": "lo"}
    if kind in needs:
        return needs[kind] in node.attrs
    return not (kind.startswith(("weight", "float", "scale", "no weights")) and not node.params)


GRAPH = residual_network()
CASES = [(n.name, kind) for n in GRAPH.nodes[:-1] for kind in DAMAGES if _applies(n, kind)]


@pytest.mark.parametrize(("layer", "kind"), CASES)
def test_t09_a_malformed_layer_is_an_error_with_its_name(layer: str, kind: str) -> None:
    graph = _damaged(GRAPH, layer, DAMAGES[kind])
    with pytest.raises(McutrainError) as caught:
        compile_program(graph, resolve_scheme(GRAPH, "full"))
    assert layer in str(caught.value)


@pytest.mark.parametrize("sign", [1, -1])
def test_t41_a_sum_over_many_columns_at_the_rails_is_exact(sign: int) -> None:
    """65,535 inputs, all weights and values at their rails, an output scale that shows the sum."""
    b = NetworkBuilder((1, 1, 65535), 1, "wide")
    x = b.linear("wide", "x", 1)
    b.tensors["x"] = Tensor("x", (1, 1, 65535), QParams(1.0, 127))
    b.tensors[x] = Tensor(x, (1, 1, 1), QParams(2e7, 0))
    rails = _param("weight", lambda w: np.full_like(w, sign * 127))
    graph = _damaged(b.head(x, 2), "wide", rails)
    graph = _damaged(graph, "wide", _param("w_scale", np.ones_like))
    engine = Engine(pack(compile_program(graph, resolve_scheme(graph, "head"))))
    engine.forward(np.full(65535, -128, np.int8).tobytes())
    total = 65535 * (-128 - 127) * sign * 127 + int(graph.node("wide").params["bias"][0])
    assert abs(total) > 2**30
    # The multiplier of so small a ratio has eight bits.
    assert engine.tensor(x).item() == pytest.approx(total / 2e7, abs=1)
