"""A run on the host from kept prefixes: views, images, firmware that disagrees."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest
from tests.e2e.test_cli_run import ask, start, steps_of
from tests.networks import residual_network

from mcutrain.compile import compile_program
from mcutrain.devices import open_device
from mcutrain.errors import InternalError
from mcutrain.image.pack import pack
from mcutrain.ir.serialize import save
from mcutrain.plan.scheme import resolve_scheme
from mcutrain.trainer import CachedDevice, Checkpoint

STEPS = 3000


def image(seed: int) -> bytes:
    graph = residual_network(8, 4, seed)
    return pack(compile_program(graph, resolve_scheme(graph, "last:2")))


def test_a_firmware_that_disagrees_is_noticed() -> None:
    """Another network of the same shape stands for a defect of either."""
    sample = np.random.default_rng(0).integers(-128, 128, 192).astype(np.int8).tobytes()
    for seed in (0, 1):
        with open_device("host") as session:
            session.open(image(0))
            device = CachedDevice(session, image(seed))
            before = device.read_state()
            if seed == 0:
                device.check(sample, 2, 0.05)
            else:
                with pytest.raises(InternalError, match="differs"):
                    device.check(sample, 2, 0.05)
            assert device.read_state() == before


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("views")
    save(residual_network(8, 4), folder / "small.net.npz")
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 60)
    x = np.clip(rng.integers(0, 256, (4, 8, 8, 3))[y] + rng.integers(-9, 9, (60, 8, 8, 3)), 0, 255)
    np.savez(folder / "d.npz", x=x.astype(np.uint8), y=y)
    ask("pack", folder / "small.net.npz", "--scheme", "last:2", "-o", folder / "small.mcti")
    return folder


def test_views_are_the_same_with_and_without_kept_prefixes(work: Path, tmp_path: Path) -> None:
    data = f"npz:{work}/d.npz?range=-2,2&augment=flip+move&views=3"
    runs = []
    for name, options in (("kept", []), ("anew", ["--no-cache"])):
        out = tmp_path / name
        words = ["train", work / "small.mcti", "--data", data, "--epochs", 4, "--out", out]
        ask(*words, *options)
        runs.append(out)
    states = [(run / "state-240.bin").read_bytes() for run in runs]
    assert states[0] == states[1]
    plain = tmp_path / "plain"
    ask(
        *("train", work / "small.mcti", "--data", f"npz:{work}/d.npz?range=-2,2"),
        *("--epochs", 4, "--out", plain),
    )
    assert (plain / "state-240.bin").read_bytes() != states[0]


def test_a_run_on_views_is_resumed_to_the_same_bytes(work: Path, tmp_path: Path) -> None:
    """Stopped in the middle of an epoch, gone on with from kept prefixes and without."""
    data = f"npz:{work}/d.npz?range=-2,2&augment=crop+flip+move&views=3"
    options = ["--data", data, "--steps", STEPS, "--seed", 5, "--learnt", 0.05]
    ask("train", work / "small.mcti", *options, "--out", tmp_path / "whole")
    for name, going_on in (("kept", []), ("anew", ["--no-cache"])):
        out = tmp_path / name
        process = start(["train", work / "small.mcti", *options, "--out", out], out, 70)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 8
        assert Checkpoint.load(out).step < STEPS
        ask("train", "--resume", "--out", out, *going_on)
        assert steps_of(out) == steps_of(tmp_path / "whole")
        assert Checkpoint.load(out) == Checkpoint.load(tmp_path / "whole")


@pytest.mark.parametrize("changed", ["data", "test"])
def test_a_run_is_not_resumed_on_other_samples(work: Path, tmp_path: Path, changed: str) -> None:
    """The file has the same name and shape, but not the same samples."""
    with np.load(work / "d.npz") as arrays:
        x, y = arrays["x"], arrays["y"]
    words: list[object] = ["train", work / "small.mcti", "--steps", 3, "--out", tmp_path / "run"]
    for name in ("data", "test"):
        np.savez(tmp_path / f"{name}.npz", x=x, y=y)
        words += [f"--{name}", f"npz:{tmp_path}/{name}.npz?range=-2,2"]
    ask(*words)
    x[-1, 0, 0, 0] ^= 1
    np.savez(tmp_path / f"{changed}.npz", x=x, y=y)
    error = ask("train", "--resume", "--out", tmp_path / "run", code=3)
    assert "not those" in error["message"]
    assert f"{changed}.npz" in error["where"]
    x[-1, 0, 0, 0] ^= 1
    np.savez(tmp_path / f"{changed}.npz", x=x, y=y)
    ask("train", "--resume", "--out", tmp_path / "run")


def test_a_fitted_classifier_is_right_before_anything_is_trained(
    work: Path, tmp_path: Path
) -> None:
    data, net = f"npz:{work}/d.npz?range=-2,2", work / "small.net.npz"
    words = ["pack", net, "--scheme", "last:2", "--classes", 4, "--head-from", data]
    info = ask(*words, "-o", tmp_path / "fitted.mcti")
    ask("pack", net, "--classes", 4, "-o", tmp_path / "zeros.mcti")
    fitted, zeros = (
        ask("eval", tmp_path / f"{name}.mcti", "--data", data)["accuracy"]
        for name in ("fitted", "zeros")
    )
    assert zeros < 0.5 < 0.9 < info["head_left_out"] <= fitted
