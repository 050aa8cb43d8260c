"""`mcutrain report --diagnose`: a run repeated, its gradients, exponents, rails and updates."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.networks import NetworkBuilder, joined_network

from mcutrain.cli.main import main
from mcutrain.errors import InputError
from mcutrain.image.program import program_of
from mcutrain.image.unpack import unpack
from mcutrain.ir.graph import Graph
from mcutrain.ir.program import STATE
from mcutrain.ir.reference.machine import Machine
from mcutrain.ir.serialize import load, save
from mcutrain.passes.lift import lift
from mcutrain.plan.scheme import resolve_scheme
from mcutrain.report.diagnosis import LARGEST, SMALLEST, VARIANTS, Norms, diagnose, sizes
from mcutrain.report.log import IMAGE, LOG, RUN, Run
from mcutrain.shadow import ShadowNetwork
from mcutrain.trainer import Schedule, visits

STEPS = 12


def _network() -> Graph:
    """Dense, grouped, depthwise and strided layers; the classifier is not all zero."""
    b = NetworkBuilder((7, 6, 4), 1, "kinds")
    x = b.conv("stem", "x", 8, 3, 2, 1, relu=True)
    x = b.conv("grouped", x, 8, 3, 1, 1, groups=2, relu=True)
    x = b.conv("dw", x, 8, 3, 1, 1, groups=8)
    x = b.conv("point", x, 12, relu=True)
    return b.head(b.global_pool("pool", x), 3)


SCHEMES: dict[str, Any] = {
    "parts": {
        "bias_last": 2,
        "weights": {"dw": [1, 4, 6], "point": [0, 2, 3, 7], "grouped": "all"},
    },
    "nibbles": {"bias_last": 4, "weights": {"dw": "all", "point": [1, 2, 5]}, "fraction_bits": 4},
    "whole": {"bias_last": 4, "weights": {"stem": "all", "point": "all"}, "fraction_bits": 0},
    "head": {"bias_last": 0, "weights": {}},
}


def _call(*words: object, code: int = 0) -> None:
    with pytest.raises(SystemExit) as end:
        main([str(w) for w in words])
    assert end.value.code == code


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of each scheme."""
    folder = tmp_path_factory.mktemp("diagnose")
    save(_network(), folder / "net.net.npz")
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1.0, (9, 7, 6, 4)).astype(np.float32)
    np.savez(folder / "d.npz", x=x, y=rng.integers(0, 3, 9))
    for name, scheme in SCHEMES.items():
        (folder / f"{name}.json").write_text(json.dumps(scheme))
        image = folder / f"{name}.mcti"
        _call("pack", folder / "net.net.npz", "--scheme", folder / f"{name}.json", "-o", image)
        words = ("--data", f"npz:{folder}/d.npz", "--steps", STEPS, "--rate", 0.02, "--seed", 3)
        _call("train", image, *words, "--out", folder / name)
    return folder


class _Reference:
    """The same run on the numpy reference, observed step by step."""

    def __init__(self, work: Path, name: str) -> None:
        image = unpack((work / name / IMAGE).read_bytes())
        self.graph = load(work / "net.net.npz")
        self.plan = resolve_scheme(self.graph, str(work / f"{name}.json"))
        self.program = program_of(image)
        self.machine = Machine(self.program, seed=3)
        with np.load(work / "d.npz") as file:
            q = self.graph.tensors["x"].q
            assert q is not None
            real = np.rint(file["x"] / q.scale) + q.zero_point
            self.x, self.y = np.clip(real, -128, 127).astype(np.int8), file["y"]
        self.order = visits(len(self.y), 3, 1)
        self.schedule = Schedule(0.02, STEPS)

    def master(self, layer: str) -> np.ndarray:
        """In LSB, without the half that a fraction starts with."""
        memory, bits = self.machine.memory, self.plan.fraction_bits
        weight = memory.array(f"{layer}.trained").reshape(-1).astype(np.float64)
        if bits == 8:
            weight += memory.array(f"{layer}.frac").reshape(-1) / 256
        if bits == 4:
            packed = memory.array(f"{layer}.frac").reshape(-1)
            both = np.stack([packed & 15, packed >> 4], 1).reshape(-1)
            weight += both[: len(weight)] / 16
        return weight

    def shadow_squares(self, number: int) -> dict[str, float]:
        """Takes a step; squared norms of the fp32 gradients at the weights before it, real."""
        memory = self.machine.memory
        names = [n for n, v in self.program.values.items() if v.space == STATE]
        state = {n: memory.array(n).copy() for n in names if not n.endswith("frac")}
        index, _ = next(self.order)
        self.machine.train(self.x[index].tobytes(), int(self.y[index]), self.schedule.at(number))
        shadow = ShadowNetwork(lift(self.graph, self.plan, state), self.plan)
        maps = {n: memory.array(n).reshape(self.graph.tensors[n].shape) for n in shadow.boundary}
        shadow.step(maps, int(self.y[index]), 0.0, 0.0)
        found = {}
        for name, layer in shadow.layers.items():
            # Real gradients are integer ones over the scale, the root of 1 / scaling.
            if layer.trains_bias:
                squares = np.square(layer.bias_gradient) * layer.bias_scaling
                found[f"{name} biases"] = squares.sum()
            if layer.weight is not None:
                squares = np.square(layer.weight_gradient).sum((2, 3)).reshape(-1)
                chosen = list(self.plan.weights[name]) if name == "dw" else slice(None)
                found[f"{name} weights"] = (squares * layer.weight_scaling[chosen]).sum()
        return found


@pytest.mark.parametrize("name", ["parts", "nibbles", "whole"])
def test_what_is_seen_is_what_the_reference_computes(work: Path, name: str) -> None:
    found = diagnose(Run.load(work / name))
    assert found is not None
    reference = _Reference(work, name)
    assert found.steps.tolist() == list(range(STEPS))
    weights, machine = reference.plan.weights, reference.machine
    squares: dict[str, list[np.ndarray]] = {}
    for number in range(STEPS):
        before = {layer: reference.master(layer) for layer in weights}
        state = {
            f"{layer} {kind}": machine.memory.array(f"{layer}.{value}").astype(np.float64)
            for kind, value, layers in (
                ("weights", "trained", weights),
                ("biases", "bias", reference.plan.biases),
            )
            for layer in layers
        }
        fp32 = reference.shadow_squares(number)
        moved = [np.abs(reference.master(layer) - before[layer]) for layer in weights]
        assert np.allclose(found.updates[number], sizes(np.concatenate(moved)))
        _check_errors(found, number, reference)
        for key, values in state.items():
            squares.setdefault(key, []).append(_squares(reference, key, values, fp32))
    assert found.updates[:, 1:].sum() > 0
    assert {n.name for n in found.norms} == set(squares)
    for norms in found.norms:
        means = np.mean(squares[norms.name], axis=0)
        for variant, (w, g) in zip(VARIANTS, means, strict=True):
            assert norms.ratios[variant] == pytest.approx(np.sqrt(w / g), rel=1e-6), norms.name


def _check_errors(found: Any, number: int, reference: _Reference) -> None:
    memory, program = reference.machine.memory, reference.program
    exponents = memory.array("exponent").reshape(-1)
    wanted = {v.name: v.error for v in program.values.values() if v.error is not None}
    assert {f"{name}.error" for name in found.errors} == set(wanted)
    for column, name in enumerate(found.errors):
        assert found.exponents[number, column] == exponents[wanted[f"{name}.error"]]


def _squares(
    reference: _Reference, key: str, values: np.ndarray, fp32: dict[str, float]
) -> np.ndarray:
    """(variants, 2) from the gradients of the shadow trainer and of the reference:
    dE/d(accumulator) times x for weights.
    """
    layer, _, kind = key.rpartition(" ")
    node, graph = reference.graph.node(layer), reference.graph
    q = graph.tensors[node.inputs[0]].q
    assert q is not None
    s_w = node.params["w_scale"]
    gradients = reference.machine.runtime.gradients
    if kind == "biases":
        lsb, real = q.scale * s_w, gradients[f"{layer}.bias"].reshape(-1)
        weight = values.reshape(-1) ** 2
        square = real**2
    else:
        channels = list(reference.plan.weights[layer])
        lsb = s_w[channels] if layer == "dw" else s_w
        real = gradients[f"{layer}.trained"].reshape(len(lsb), -1) * q.scale
        weight = np.square(values.reshape(len(lsb), -1)).sum(1)
        square = np.square(real).sum(1)
    pairs = [
        ((weight * lsb**2).sum(), fp32[key]),
        (weight.sum(), (square * lsb**2).sum()),
        (weight.sum(), (square / lsb**2).sum()),
    ]
    return np.array(pairs)


@pytest.mark.parametrize("name", ["parts", "nibbles", "whole"])
def test_int8_is_like_fp32_with_quantization_aware_scaling_only(work: Path, name: str) -> None:
    """Were gradients the same, the ratios would differ by how far a layer's scales differ from
    each other, and without the scaling by their squares. int8 gradients are within a tenth.
    """
    found = diagnose(Run.load(work / name))
    assert found is not None
    _check_ratios(found.norms, load(work / "net.net.npz"))


def _check_ratios(found: Sequence[Norms], graph: Graph) -> None:
    for norms in found:
        layer, _, kind = norms.name.rpartition(" ")
        node = graph.node(layer)
        q = graph.tensors[node.inputs[0]].q
        assert q is not None
        lsb = node.params["w_scale"] * (q.scale if kind == "biases" else 1.0)
        spread = 1.1 * lsb.max() / lsb.min()
        assert 1 / spread < norms.ratios["scaled"] / norms.ratios["fp32"] < spread, norms
        without = norms.ratios["int8"] / norms.ratios["fp32"]
        assert 1 / (spread * lsb.max()) ** 2 < without < (spread / lsb.min()) ** 2, norms
        assert without > 1000 * spread


def test_max_pools_clamps_and_concats_have_a_line_for_fp32(tmp_path: Path) -> None:
    graph = joined_network()
    save(graph, tmp_path / "n.net.npz")
    x = np.random.default_rng(0).normal(0, 1, (6, 8, 7, 3)).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=x, y=np.arange(6) % 4)
    _call("pack", tmp_path / "n.net.npz", "--scheme", "full", "-o", tmp_path / "i.mcti")
    words = ("train", tmp_path / "i.mcti", "--data", f"npz:{tmp_path}/d.npz")
    _call(*words, "--out", tmp_path / "run")
    found = diagnose(Run.load(tmp_path / "run"))
    assert found is not None
    assert len(found.norms) == 2 * 4
    _check_ratios(found.norms, graph)
    _call("report", tmp_path / "run", "--diagnose", "-o", tmp_path / "r.html")


def test_sizes_by_hand() -> None:
    moved = np.array([0.0, 0.0, 2.0**-8, 2.0**-7, 1.5 * 2.0**-7, 0.9, 1.0, 2.0, 70.0, 2.0**-9])
    counts = {0: 2, 1: 2, 2: 2, -SMALLEST: 1, 1 - SMALLEST: 1, 2 - SMALLEST: 2}
    wanted = [counts.get(i, 0) / 10 for i in range(LARGEST - SMALLEST + 2)]
    assert sizes(moved).tolist() == pytest.approx(wanted)
    assert sizes(np.zeros(0)).sum() == 0


def test_report_shows_it(work: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pages = []
    for extra in ([], ["--diagnose"]):
        _call("report", work / "parts", "-o", tmp_path / "r.html", *extra)
        pages.append((tmp_path / "r.html").read_text())
    assert pages[1].count("<svg") == pages[0].count("<svg") + 4
    assert "int8 arithmetic" in pages[1]
    assert "||W|| / ||G||" in pages[1]
    assert "point weights" in pages[1]


def test_a_run_that_cannot_be_repeated_is_refused(work: Path, tmp_path: Path) -> None:
    """Other data under the same name: the losses differ."""
    run = Run.load(work / "parts")
    with np.load(work / "d.npz") as file:
        np.savez(tmp_path / "d.npz", x=-file["x"], y=file["y"])
    (tmp_path / IMAGE).write_bytes(run.image)
    (tmp_path / LOG).write_bytes((work / "parts" / LOG).read_bytes())
    settings = {**run.info["settings"], "data": f"npz:{tmp_path}/d.npz"}
    (tmp_path / RUN).write_text(json.dumps({**run.info, "settings": settings}))
    with pytest.raises(InputError) as error:
        diagnose(Run.load(tmp_path))
    assert "step 0" in str(error.value)


def test_samples_that_are_learnt_already_make_no_errors(work: Path, tmp_path: Path) -> None:
    words = ["train", work / "parts.mcti", "--data", f"npz:{work}/d.npz", "--steps", STEPS]
    for limit, some in ((0.9, True), (100.0, False)):
        out = tmp_path / f"run-{some}"
        _call(*words, "--rate", 0.02, "--seed", 3, "--learnt", limit, "--out", out)
        run = Run.load(out)
        found = diagnose(run)
        assert found is not None
        trained = np.array([step["loss"] >= limit for step in run.steps])
        assert trained.any() == some
        assert not found.updates[~trained, 1:].any()
        assert (found.updates[trained, 1:].sum(axis=1) > 0).all()
        assert bool(found.norms) == some
        _call("report", out, "--diagnose", "-o", tmp_path / "r.html")


def test_a_run_that_trains_the_classifier_alone_has_nothing_to_show(
    work: Path, tmp_path: Path
) -> None:
    assert diagnose(Run.load(work / "head")) is None
    _call("report", work / "head", "--diagnose", "-o", tmp_path / "r.html", code=3)
