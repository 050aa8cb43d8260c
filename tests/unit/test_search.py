"""Gradient scores are those of the reference's backward pass; a choice fits and uses the SRAM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.networks import NetworkBuilder, residual_network

from mcutrain.cli.main import main
from mcutrain.compile import Savings, compile_program
from mcutrain.data import Dataset
from mcutrain.engine import Engine
from mcutrain.image.pack import pack
from mcutrain.ir.graph import Graph, Node
from mcutrain.ir.reference.machine import Machine
from mcutrain.ir.serialize import save
from mcutrain.plan import Plan
from mcutrain.plan.head import fresh_head
from mcutrain.plan.scheme import resolve_scheme, trainable_layers
from mcutrain.search.auto import SAMPLES, automatic_plan, samples_over
from mcutrain.search.choose import candidates, choose
from mcutrain.search.gradients import GradientWatch, LayerScore, Sample, Scores, score


def _samples(graph: Graph, count: int) -> list[Sample]:
    rng = np.random.default_rng(3)
    size, classes = graph.tensors["x"].size, len(graph.classes)
    return [
        (rng.integers(-128, 128, size).astype(np.int8).tobytes(), i % classes) for i in range(count)
    ]


def _kinds() -> Graph:
    """Dense, strided, depthwise and grouped convolutions with uneven pads, a hidden layer."""
    b = NetworkBuilder((9, 8, 2), 3, "kinds")
    x = b.conv("dense", "x", 6, (3, 2), 2, (1, 0, 2, 1), relu=True)
    x = b.conv("dw", x, 6, 3, 1, 1, groups=6)
    x = b.conv("grouped", x, 8, 3, 1, 1, groups=2, relu=True)
    x = b.conv("point", x, 5)
    return b.head(b.linear("hidden", x, 7), 3)


@pytest.mark.parametrize("graph", [_kinds(), residual_network(8)], ids=lambda g: g.name)
def test_scores_are_the_squared_gradients_of_the_reference(graph: Graph) -> None:
    plan = resolve_scheme(graph, "full", 0)
    compiled = compile_program(graph, plan, savings=Savings(rows=False))
    engine, machine = Engine(pack(compiled)), Machine(compiled.program)
    watch = GradientWatch(compiled, engine)
    found: dict[str, list[np.ndarray]] = {}
    samples = [(data, 1) for data, _ in _samples(graph, 5)]  # one class: the gradients agree
    for data, label in samples:
        with engine.hook(watch.note):
            engine.train(data, label, 0.0, 0.0)
        machine.train(data, label, 0.0)
        for node in trainable_layers(graph):
            for name, array in _gradients(graph, machine, node).items():
                found.setdefault(f"{node.name}.{name}", []).append(array)
    scores = watch.scores(len(samples))
    assert scores.layers.keys() == {n.name for n in trainable_layers(graph)}
    nonzero = 0
    for layer, got in scores.layers.items():
        for name, values in (("weight", got.channels), ("bias", np.array([got.bias]))):
            each = np.stack(found[f"{layer}.{name}"])
            if name == "weight":  # what remains when the inputs have their mean taken away
                mean = np.mean(found[f"{layer}.input"], axis=0)
                each = each - mean * np.stack(found[f"{layer}.seen"])
            squares = (each**2).sum(axis=1).mean(axis=0)
            pairs = sum(
                (each[i] * each[j]).sum(axis=0)
                for i in range(len(each))
                for j in range(len(each))
                if i != j
            )  # the product of two different samples' gradients has no noise of its own
            mean = np.maximum(pairs, 0) / (len(each) * (len(each) - 1))
            wanted = squares * mean
            scale = (np.stack(found[f"{layer}.{name}"]) ** 2).sum(axis=1).max()
            assert np.allclose(values**2, wanted, rtol=1e-9, atol=1e-12 * scale**2), (layer, name)
            nonzero += int(wanted.any())
    assert nonzero > len(scores.layers)


def _gradients(graph: Graph, machine: Machine, node: Node) -> dict[str, np.ndarray]:
    """Of weights, by input channel, of the biases of the outputs that see it, of all biases, and
    the means of the input channels.
    """
    gradients, q = machine.runtime.gradients, graph.tensors[node.inputs[0]].q
    assert q is not None
    weight, bias = gradients[f"{node.name}.trained"], gradients[f"{node.name}.bias"].reshape(-1)
    by_channel = _by_channel(node, weight * q.scale)
    source = next(v for v in machine.program.instrs if (v.op, v.layer) == ("conv2d_dw", node.name))
    x = machine.memory.array(source.operands["x"]).astype(np.float64) - q.zero_point
    return {
        "weight": by_channel,
        "seen": _by_channel(node, np.broadcast_to(bias[:, None, None], weight.shape)),
        "bias": bias[:, None],
        "input": x.reshape(-1, by_channel.shape[1]).mean(axis=0) * q.scale,
    }


def _by_channel(node: Node, weight: np.ndarray) -> np.ndarray:
    """(anything, input channels) of a gradient (rows, taps, cols)."""
    groups = int(node.attrs.get("groups", 1))
    if groups == weight.shape[0]:
        return weight.reshape(groups, -1).T
    parts = weight.reshape(groups, -1, weight.shape[2])  # a group's outputs see its inputs
    return parts.transpose(1, 0, 2).reshape(parts.shape[1], -1)


def test_a_fresh_classifier_is_fitted_so_that_errors_come_back() -> None:
    graph = fresh_head(residual_network(8), 4)
    scores = score(graph, _samples(graph, 12))
    assert scores.samples == 12
    assert sum(s.bias > 0 or s.channels.any() for s in scores.layers.values()) >= 3


def test_a_channel_that_never_changes_is_worth_nothing_beside_a_bias() -> None:
    b = NetworkBuilder((6, 6, 3), 5, "constant")
    graph = b.head(b.conv("point", "x", 8, relu=True), 3)
    x = np.random.default_rng(1).integers(-128, 128, (12, 6, 6, 3)).astype(np.int8)
    x[..., 1] = 100
    scores = score(graph, [(sample.tobytes(), i % 3) for i, sample in enumerate(x)])
    found = scores.layers["point"].channels
    assert found[1] < 1e-9 * found.sum()
    assert found[0] > 0
    assert found[2] > 0


def test_a_choice_is_the_same_for_the_same_data() -> None:
    graph = residual_network(12)
    rng = np.random.default_rng(4)
    x = rng.normal(0, 1, (30, *graph.tensors["x"].shape)).astype(np.float32)
    y = np.sort(np.arange(30) % len(graph.classes))
    data = Dataset(x, y.astype(np.int64), graph.classes)
    pool = compile_program(graph, resolve_scheme(graph, "last:4")).pool_bytes
    found = automatic_plan(graph, data, pool)
    assert found == automatic_plan(graph, data, pool)
    assert found.plan.weights
    assert compile_program(graph, found.plan).pool_bytes <= pool


def test_samples_come_from_all_over_the_data() -> None:
    """Data sets that are read from folders are sorted by class."""
    graph = residual_network(8)
    shape = graph.tensors["x"].shape
    x = np.arange(1000, dtype=np.float32)[:, None, None, None] * np.ones(shape, np.float32) / 1000
    data = Dataset(x, np.arange(1000) // 500, graph.classes)
    labels = [label for _, label in samples_over(graph, data)]
    assert labels == [0] * (SAMPLES // 2) + [1] * (SAMPLES // 2)


def _uneven(graph: Graph) -> Scores:
    """All that matters is one layer's last channels."""
    scores = Scores(samples=1)
    for node in trainable_layers(graph):
        total = graph.tensors[node.inputs[0]].shape[2]
        scores.layers[node.name] = LayerScore(np.full(total, 1e-6), 1e-6)
    scores.layers["b2.pw1"].channels[-3:] = 1.0
    return scores


def test_what_matters_is_chosen_first() -> None:
    graph = residual_network(12)
    scores = _uneven(graph)
    total = graph.tensors[graph.node("b2.pw1").inputs[0]].shape[2]
    wanted = tuple(range(total - 3, total))
    least = compile_program(graph, Plan(("b2.pw1",), {"b2.pw1": wanted})).pool_bytes
    chosen = choose(graph, scores, least, 8)
    assert set(chosen.plan.weights["b2.pw1"]) >= set(wanted)
    assert chosen.value >= (1 - 1e-9) * 3**0.5


def test_a_layer_is_worth_its_gradient_norm() -> None:
    graph = residual_network(12)
    scores = score(graph, _samples(graph, 8))
    found = candidates(graph, scores, 8)
    for name, layer in scores.layers.items():
        worth = sum(c.value for c in found if c.layer == name)
        assert worth**2 == pytest.approx(layer.channels.sum() + layer.bias)


def test_bytes_go_to_several_layers() -> None:
    """Of equal channels of two like layers, as many of each are the first to be taken."""
    b = NetworkBuilder((6, 6, 8), 5, "twins")
    graph = b.head(b.conv("second", b.conv("first", "x", 8, relu=True), 8, relu=True), 3)
    scores = Scores({n: LayerScore(np.ones(8)) for n in ("first", "second")}, samples=1)
    taken = [c.layer for c in candidates(graph, scores, 8) if c.channels]
    for count in range(2, 17, 2):
        assert taken[:count].count("first") == count // 2


def test_the_choice_fits_and_grows_with_the_sram() -> None:
    graph = residual_network(12)
    scores = score(graph, _samples(graph, 8))
    sizes = [compile_program(graph, resolve_scheme(graph, s)).pool_bytes for s in ("head", "full")]
    values = []
    for share in (0.1, 0.4, 0.7, 1.0):
        pool = int(sizes[0] + share * (sizes[1] - sizes[0]))
        chosen = choose(graph, scores, pool, 8)
        assert compile_program(graph, chosen.plan).pool_bytes <= pool
        values.append(chosen.value)
    assert values == sorted(values)
    assert values[0] < values[-1]


def test_the_first_half_trains_only_where_all_of_the_second_does() -> None:
    graph = residual_network(12)
    layers = [n.name for n in trainable_layers(graph)]
    half = (len(layers) + 1) // 2
    scores = _uneven(graph)
    scores.layers[layers[0]].channels[:] = 100.0
    room = compile_program(graph, resolve_scheme(graph, f"last:{half}")).pool_bytes
    assert choose(graph, scores, room - 1, 8).depth <= half
    whole = compile_program(graph, resolve_scheme(graph, "full")).pool_bytes
    assert choose(graph, scores, whole, 8).plan == resolve_scheme(graph, "full")


def test_where_nothing_fits_only_the_classifier_trains() -> None:
    graph = residual_network(8)
    chosen = choose(graph, _uneven(graph), 0, 8)
    assert chosen.plan == Plan()


@pytest.mark.parametrize("layers", [0, 1])
def test_networks_of_hardly_any_layers_can_be_chosen_from(layers: int) -> None:
    b = NetworkBuilder((4, 4, 2), 3, "short")
    x = b.linear("hidden", "x", 5) if layers else "x"
    graph = b.head(x, 3)
    data = Dataset(
        np.random.default_rng(0).normal(0, 1, (12, 4, 4, 2)).astype(np.float32),
        np.arange(12) % 3,
        graph.classes,
    )
    everything = resolve_scheme(graph, "full")
    assert automatic_plan(graph, data, 1 << 20).plan == everything
    assert len(everything.biases) == layers


def test_candidates_count_fractions_and_saved_channels() -> None:
    graph = residual_network(8)
    scores = _uneven(graph)
    node = graph.node("b2.pw1")
    out = node.params["weight"].shape[0]
    h, w, _ = graph.tensors[node.inputs[0]].shape
    for bits, extra in ((0, 0), (4, 0.5), (8, 1)):
        rows = [c for c in candidates(graph, scores, bits) if c.layer == "b2.pw1" and c.channels]
        assert {c.nbytes for c in rows} == {int(out * (1 + extra)) + h * w}


def test_auto_writes_a_scheme_that_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = residual_network(12, 4)
    net, data, scheme = (tmp_path / n for n in ("small.net.npz", "data.npz", "auto.json"))
    save(graph, net)
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, (20, 12, 12, 3)).astype(np.float32)
    np.savez(data, x=x, y=np.arange(20) % 4)

    def plan(*arguments: object) -> tuple[int, dict[str, Any]]:
        with pytest.raises(SystemExit) as caught:
            main(["plan", str(net), *map(str, arguments), "--json"])
        return int(caught.value.code or 0), json.loads(capsys.readouterr().out)

    code, shown = plan("--ram", "13K", "--auto", f"npz:{data}", "-o", scheme)
    assert code == 0
    again = plan("--ram", "13K", "--scheme", scheme)[1]
    assert again["trains"] == shown["trains"]
    assert len(json.loads(scheme.read_text())["weights"]) > 0
    assert plan("--auto", f"npz:{data}")[0] == 2
    np.savez(data, x=np.float32(255) * abs(x), y=np.arange(20) % 4)
    shown = plan("--ram", "13K", "--auto", f"npz:{data}", "-o", scheme)[1]
    assert shown["auto"]["outside_input"] > 0.5  # pixels for a network that takes small numbers
    assert plan("--auto", f"npz:{data}", "-o", scheme, "--scheme", "head")[0] == 2
