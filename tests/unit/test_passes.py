"""Lowering, autodiff, pruning, reordering: what they emit, keep and move."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from tests.networks import NetworkBuilder, residual_network

from mcutrain.compile import compile_program
from mcutrain.errors import InputError
from mcutrain.ir.graph import Graph
from mcutrain.ir.program import STATE, CompiledProgram
from mcutrain.memory import buffers_of
from mcutrain.passes.autodiff import autodiff
from mcutrain.passes.lower import lower
from mcutrain.passes.prune import prune
from mcutrain.passes.reorder import reorder
from mcutrain.plan import Plan
from mcutrain.plan.scheme import plan_from_dict, resolve_scheme

SPARSE = {"biases": ["b2.pw2", "b2.pw1"], "weights": {"b2.pw1": 0.5}}


def _ops(compiled: CompiledProgram) -> Counter[str]:
    return Counter(i.op for i in compiled.program.instrs)


def _compiled(graph: Graph, scheme: str) -> CompiledProgram:
    return compile_program(graph, resolve_scheme(graph, scheme))


def test_head_alone_needs_no_errors_masks_or_saved_activations() -> None:
    compiled = _compiled(residual_network(), "head")
    assert compiled.program.errors == 0
    ops = _ops(compiled)
    assert ops["head_dw"] == ops["loss"] == 1
    assert not any(op.endswith("_dx") or op == "error_sum" for op in ops)
    assert not any("mask" in i.operands for i in compiled.program.instrs)


def test_sparse_update_stops_at_the_deepest_trained_layer() -> None:
    graph = residual_network()
    compiled = compile_program(graph, plan_from_dict(graph, SPARSE, "test"))
    layers = {i.layer for i in compiled.program.instrs if i.op == "conv2d_dx"}
    assert layers == {"b2.pw2", "b2.dw"}
    assert _ops(compiled)["conv2d_dw"] == 1
    assert _ops(compiled)["conv2d_db"] == 2
    masked = {i.layer for i in compiled.program.instrs if i.op == "conv2d" and "mask" in i.operands}
    assert masked == {"b2.pw1", "b2.dw", "b2.pw2"}


def test_partly_trained_layer_is_cut_in_blocks_and_saves_its_channels() -> None:
    graph = residual_network()
    compiled = compile_program(graph, plan_from_dict(graph, SPARSE, "test"))
    values = compiled.program.values
    trained, frozen = values["b2.pw1.trained"], values["b2.pw1.weight"]
    assert trained.space == STATE
    assert trained.shape == (24, 1, 4)
    assert frozen.shape == (24, 1, 4)
    assert values["b2.pw1.saved"].shape[2] == 4
    perm = values["b2.pw1.perm"].data
    assert perm is not None
    whole = np.concatenate([trained.data, frozen.data], axis=-1)
    assert np.array_equal(whole, graph.node("b2.pw1").params["weight"][..., perm])


def test_skip_error_is_added_before_the_rounding_of_the_convolution() -> None:
    compiled = _compiled(residual_network(), "full")
    dx = next(i for i in compiled.program.instrs if i.op == "conv2d_dx" and i.layer == "b1.pw1")
    assert dx.operands["skip"] == "b1.add:0.error"


def test_updates_follow_the_readers_of_their_weights() -> None:
    compiled = _compiled(residual_network(16), "full")
    order = {(i.op, i.layer): n for n, i in enumerate(compiled.program.instrs)}
    for layer in ("b1.pw1", "b2.dw", "b2.pw2"):
        assert order["conv2d_dx", layer] < order["conv2d_dw", layer] < order["conv2d_db", layer]


def test_reordering_lowers_the_peak() -> None:
    graph = residual_network(16)
    plan = resolve_scheme(graph, "full")
    plain = prune(autodiff(lower(graph, plan)))
    last_update = max(n for n, i in enumerate(plain.instrs) if i.op == "conv2d_dx")
    updates = [n for n, i in enumerate(plain.instrs) if i.op in ("conv2d_dw", "conv2d_db")]
    assert min(updates) > last_update  # autodiff puts all updates last
    moved = reorder(prune(autodiff(lower(graph, plan))))
    updates = [n for n, i in enumerate(moved.instrs) if i.op in ("conv2d_dw", "conv2d_db")]
    assert min(updates) < max(n for n, i in enumerate(moved.instrs) if i.op == "conv2d_dx")


def test_t50_two_inputs_and_concat() -> None:
    b = NetworkBuilder((6, 6, 2))
    b.input("y", (6, 6, 3))
    joined = b.concat("cat", b.conv("c1", "x", 4, 3, 1, 1), b.conv("c2", "y", 5))
    graph = b.head(b.global_pool("pool", b.conv("c3", joined, 6)), 3)
    compiled = _compiled(graph, "full")
    assert compiled.program.inputs == ("x", "y")
    assert [i.params["c0"] for i in compiled.program.instrs if i.op == "rescale"] == [0, 4]
    sums = [i for i in compiled.program.instrs if i.op == "error_sum"]
    assert sorted(i.params["c0"] for i in sums) == [0, 4]


def test_tensor_read_by_two_convolutions_chains_their_errors() -> None:
    b = NetworkBuilder((6, 6, 2))
    x = b.conv("c0", "x", 4)
    y = b.add("sum", b.conv("c1", x, 4), b.conv("c2", x, 4, 3, 1, 1))
    compiled = _compiled(b.head(b.global_pool("pool", y), 3), "full")
    first, second = (
        i for i in compiled.program.instrs if i.op == "conv2d_dx" and i.layer in ("c1", "c2")
    )
    assert second.operands["skip"] == first.operands["e_x"]
    assert "mask" in second.operands
    assert "mask" not in first.operands


def test_in_place_addition_shares_a_buffer() -> None:
    program = _compiled(residual_network(), "head").program
    shared = [b.values for b in buffers_of(program) if "b1.add:0" in b.values]
    assert any(len(values) > 1 for values in shared)


def test_degenerate_channel_has_no_constants() -> None:
    graph = residual_network()
    scale = graph.node("b2.pw1").params["w_scale"]
    scale[5] = 3.937e-9
    compiled = _compiled(graph, "full")
    values = compiled.program.values
    assert values["b2.pw1.weight.mant"].data[5] == 0  # type: ignore[index]
    assert values["b2.pw1.bias.mant"].data[5] == 0  # type: ignore[index]
    assert values["b2.pw1.r"].data[5] == 0  # type: ignore[index]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"biases": ["nope"]}, "no layer 'nope'"),
        ({"biases": ["classifier"]}, "trained by 'head'"),
        ({"biases": ["b1.add"]}, "nothing to train"),
        ({"weights": {"b1.pw1": [3, 1]}}, "ascending"),
        ({"weights": {"b1.pw1": [8]}}, "below 8"),
        ({"weights": {"b1.pw1": "some"}}, "'all'"),
        ({"weights": {"b1.pw1": 1.5}}, "between 0 and 1"),
        ({"bias_last": 99}, "between 0 and 7"),
        ({"bias": 3}, "unknown key 'bias'"),
        ({"fraction_bits": 5}, "0, 4 or 8"),
        ({"fraction_bits": "8"}, "'fraction_bits' in a scheme must be"),
        ({"fraction_bits": None}, "'fraction_bits' in a scheme must be"),
        ({"bias_last": "3"}, "'bias_last' in a scheme must be"),
        ({"bias_last": True}, "'bias_last' in a scheme must be"),
        ({"bias_last": 1, "biases": ["b1.pw1"]}, "exclude each other"),
        ({"biases": 5}, "'biases' in a scheme must be"),
        ({"biases": "b1.pw1"}, "'biases' in a scheme must be"),
        ({"biases": ["b1.pw1", "b1.pw1"]}, "'biases' in a scheme must be"),
        ({"head": "no"}, "'head' in a scheme must be"),
        ({"weights": ["b1.pw1"]}, "'weights' in a scheme must be"),
        ({"weights": None}, "'weights' in a scheme must be"),
        ({"weights": {"b1.pw1": [True]}}, "between 0 and 1"),
        ({"weights": {"b1.pw1": 0.01}}, "is none"),
        ({"weights": {"pool": "all"}}, "nothing to train"),
    ],
)
def test_t04_bad_plans_are_named_errors(data: dict[str, object], text: str) -> None:
    with pytest.raises(InputError, match=text):
        plan_from_dict(residual_network(), data, "scheme.json")


@pytest.mark.parametrize(
    "scheme", ["", "bias", "bias:x", "last:-1", "last:²", "head:3", "none.json"]
)
def test_bad_scheme_names(scheme: str) -> None:
    with pytest.raises(InputError):
        resolve_scheme(residual_network(), scheme)


def test_plan_of_nothing_still_runs_forward() -> None:
    compiled = compile_program(residual_network(), Plan(head=False))
    assert _ops(compiled)["loss"] == 1
    assert [v.name for v in compiled.program.values.values() if v.space == STATE] == ["rng"]
