"""The demo on few samples, and the committed network that it starts from."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from models import demo

import mcutrain.data
from mcutrain.cli.main import main
from mcutrain.data import fashion
from mcutrain.ir.serialize import load

needs_data = pytest.mark.skipif(
    not fashion.DIRECTORY.is_dir(), reason="dataset-fashion-mnist not installed"
)
NETWORK = demo.HERE / "demo.net.npz"


@pytest.mark.qemu
@needs_data
def test_demo_trains_on_the_chip_and_accounts_for_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(demo, "EVAL", f"fashion-mnist:test?seed=0&count=30&shift={demo.SHIFT}")
    with pytest.raises(SystemExit) as caught:
        main(["demo", "--steps", "100", "--out", str(tmp_path), "--json"])
    out, err = capsys.readouterr()
    assert caught.value.code == 0, out + err
    data = json.loads(out)
    assert (data["steps"], data["test_samples"]) == (100, 30)
    assert data["accuracy_after"] > data["accuracy_before"]
    assert data["guard_changed"] == data["damaged_frames"] == 0
    assert data["samples_per_second"] > 0
    assert data["instructions_step"] > 1_000_000
    memory = {row["what"]: row for row in data["memory"]}
    for row in memory.values():
        if row["linked"] is not None:
            assert row["planned"] == row["linked"] >= row["high_water"]
    pool = memory["pool: all of the above"]
    parts = ("state", "arena", "image", "alignment")
    assert pool["planned"] == sum(memory[part]["planned"] for part in parts)
    assert pool["high_water"] == pool["planned"] - memory["alignment"]["planned"]
    assert memory["SRAM"]["planned"] <= 128 * 1024
    page = Path(data["report"]).read_text()
    assert "learns on qemu:netduinoplus2" in page
    assert "high-water mark" in page


@pytest.mark.torch
@needs_data
def test_committed_network_is_what_quantize_makes_of_the_weights(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    made = tmp_path / "demo.net.npz"
    words = ["models.demo:load", "--data", demo.CALIBRATION, "--name", "demo", "-o", str(made)]
    with pytest.raises(SystemExit) as caught:
        main(["quantize", *words, "--json"])
    assert caught.value.code == 0
    fresh, committed = load(made), load(NETWORK)
    assert [n.name for n in fresh.nodes] == [n.name for n in committed.nodes]
    # Another processor may round a float differently, which moves a weight by one step at most.
    for a, b in zip(fresh.nodes, committed.nodes, strict=True):
        for name, value in b.params.items():
            if value.dtype == np.int8:
                assert np.abs(a.params[name].astype(int) - value).max() <= 1, a.name
            elif value.dtype.kind == "f":
                np.testing.assert_allclose(a.params[name], value, rtol=1e-4, atol=1e-6)


def test_committed_network_is_small_and_fits_the_scheme() -> None:
    assert NETWORK.stat().st_size < 300 * 1024
    assert load(NETWORK).name == "demo"
    scheme = json.loads(demo.SCHEME.read_text())
    names = {n.name for n in load(NETWORK).nodes}
    assert set(scheme["weights"]) <= names


@needs_data
def test_no_sample_serves_two_purposes() -> None:
    train = mcutrain.data.open(demo.TRAIN).x.reshape(-1, 784)
    held_out = mcutrain.data.open(demo.EVAL).x.reshape(-1, 784)
    seen = {x.tobytes() for x in train}
    assert sum(x.tobytes() in seen for x in held_out) == 0
