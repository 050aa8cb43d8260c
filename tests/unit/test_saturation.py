"""Samples in other units than the network takes: a warning that names data, share and option."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mcutrain import data
from mcutrain.cli.common import load_network
from mcutrain.cli.main import main
from mcutrain.cli.saturation import THRESHOLD, outside_input
from mcutrain.compile import compile_program
from mcutrain.data.dataset import Dataset, make
from mcutrain.errors import InputError
from mcutrain.image.pack import pack
from mcutrain.ir.graph import Array, QParams
from mcutrain.plan import Plan
from mcutrain.quantize.calibrate import METHODS, _histogram
from mcutrain.quantize.inputs import Outside, to_int8
from mcutrain.quantize.quantizer import qparams

RunCli = Callable[..., tuple[str, str]]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> RunCli:
    """Runs `mcutrain ARGUMENTS` in this process, which must succeed: stdout, stderr."""

    def run(*arguments: object) -> tuple[str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main([str(a) for a in arguments])
        assert not caught.value.code
        return capsys.readouterr()

    return run


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image that takes pixels, as bytes or as 0 to 1, and the same pixels in four units."""
    folder = tmp_path_factory.mktemp("units")
    (folder / "demo.mcti").write_bytes(pack(compile_program(load_network("demo"), Plan())))
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (20, 28, 28)).astype(np.uint8)
    pixels[:, :14] = 0
    y = np.arange(20) % 10
    for name, x in {
        "bytes": pixels,
        "floats": pixels.astype(np.float32),
        "unit": pixels.astype(np.float32) / 255,
        "volts": pixels.astype(np.float32) * 4 - 300,
    }.items():
        np.savez(folder / f"{name}.npz", x=x, y=y)
    return folder


def outside(x: Array, *qs: QParams) -> float:
    found = Outside()
    for q in qs:
        found.add(x, q)
    return found.share


def spec(work: Path, name: str) -> str:
    return f"npz:{work}/{name}.npz"


def test_floats_up_to_255_are_told_with_the_option_that_helps(cli: RunCli, work: Path) -> None:
    floats = spec(work, "floats")
    for command in (
        ("eval", work / "demo.mcti", "--data", floats),
        ("train", work / "demo.mcti", "--data", floats, "--steps", 0, "--out", work / "run"),
        ("pack", "demo", "--calibrate", floats, "-o", work / "calibrated.mcti"),
    ):
        _, err = cli(*command)
        found = re.search(r"^warning: (\S+): (\d+)% of the numbers", err, re.MULTILINE)
        assert found is not None, err
        assert found[1] == floats
        assert int(found[2]) >= 99
        assert f"{floats}?range=0,1 is right" in err
        assert "the network's input takes, 0 to 1, and" in err


def test_with_that_option_they_are_the_same_as_bytes(cli: RunCli, work: Path) -> None:
    results = {}
    for name in ("bytes", "unit", "floats", "floats?range=0,1"):
        file, query, option = name.partition("?")
        words = ("eval", work / "demo.mcti", "--data", spec(work, file) + query + option)
        out, err = cli(*words, "--json")
        assert err == ""
        results[name] = json.loads(out)
        assert ("warning" in cli(*words)[1]) == (name == "floats")
    assert results["bytes"] == results["unit"] == results["floats?range=0,1"]
    assert results["bytes"]["outside_input"] == 0
    assert results["floats"]["outside_input"] > 0.99


def test_what_is_no_pixel_gets_no_option_for_pixels(cli: RunCli, work: Path) -> None:
    _, err = cli("eval", work / "demo.mcti", "--data", spec(work, "volts"))
    assert "the units that the network was calibrated with" in err
    assert "range=" not in err
    _, err = cli("eval", work / "demo.mcti", "--data", spec(work, "bytes") + "?range=-1,1")
    assert re.search(r"warning: .*\?range=-1,1: \d+% .*range=0,1 would put", err)


def test_a_run_keeps_the_shares_of_both_its_data(cli: RunCli, work: Path, tmp_path: Path) -> None:
    words = ["train", work / "demo.mcti", "--data", spec(work, "unit"), "--steps", 0]
    out, err = cli(*words, "--test", spec(work, "floats"), "--out", tmp_path / "run", "--json")
    assert err == ""
    shares = json.loads(out)["outside_input"]
    assert shares == json.loads((tmp_path / "run" / "run.json").read_text())["outside_input"]
    assert shares["data"] == 0
    assert shares["test"] > 0.99


@pytest.mark.torch
def test_quantize_tells_of_samples_beyond_those_it_calibrates_with(
    cli: RunCli, work: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "def net():\n"
        "    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))\n"
    )
    with np.load(work / "floats.npz") as file:
        x, y = file["x"], file["y"]
    x[[0, 5, 10, 14, 19]] /= 255  # the five that --count 5 takes, from all over the data
    np.savez(tmp_path / "d.npz", x=x, y=y)
    words = ("quantize", f"{tmp_path}/mine.py:net", "--data", f"npz:{tmp_path}/d.npz")
    _, err = cli(*words, "-o", tmp_path / "all.net.npz")
    assert "warning" not in err
    _, err = cli(*words, "--count", 5, "-o", tmp_path / "few.net.npz")
    assert re.search(r"warning: npz:.*d.npz: 7\d% of the numbers", err)


def test_the_share_is_that_of_saturated_numbers_without_zeros() -> None:
    q = QParams(0.5, 10)
    x = np.array([0, 0, 58.5, 58.74, 58.76, -69, -69.24, -69.26, 1e30], np.float32)
    assert outside(x, q) == 3 / 7
    assert outside(x, q, QParams(1e30, 0)) == 3 / 14
    assert to_int8(x, q, "x").tolist() == [10, 10, 127, 127, 127, -128, -128, -128, 127]
    assert outside(np.zeros(3, np.float32), q) == 0
    assert outside(np.full(3, 255, np.uint8), q) == outside(np.full(3, 127, np.int8), q) == 0


def calibrated(x: Array, method: str) -> QParams:
    """What the input gets that has such samples, as `calibrate` finds it."""
    x = x.astype(np.float32)
    extremes = (min(float(x.min()), 0.0), max(float(x.max()), 0.0))
    return qparams(METHODS[method](_histogram(x, extremes), *extremes))


def dataset(x: Array) -> Dataset:
    return make(x.reshape(len(x), -1), np.zeros(len(x), np.int64), "d")


@pytest.mark.parametrize("method", METHODS)
def test_ordinary_data_are_not_warned_of(method: str, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(1)
    draws: dict[str, Callable[[], Array]] = {
        "normal": lambda: rng.normal(0, 1, (256, 64)),
        "heavy tails": lambda: rng.standard_t(3, (256, 64)),
        "outliers": lambda: (
            rng.normal(0, 1, (256, 64)) * np.where(rng.random((256, 64)) < 0.01, 20, 1)
        ),
        "sparse": lambda: rng.exponential(1, (256, 64)) * (rng.random((256, 64)) < 0.01),
        "uniform": lambda: rng.uniform(-1, 1, (256, 64)),
    }
    for name, draw in draws.items():
        seen, other = draw(), draw()
        q = calibrated(seen, method)
        assert outside(seen.astype(np.float32), q) <= 2 / (6 * 255), name
        assert outside_input(dataset(other), q, quiet=False) < THRESHOLD, name
        assert outside_input(dataset(255 * other), q, quiet=True) > 10 * THRESHOLD, name
    assert capsys.readouterr().err == ""


def test_other_recordings_of_a_sensor_are_not_warned_of(refdata: Path) -> None:
    with np.load(refdata / "datasets" / "watch_shoulder_imu_50hz.npz") as file:
        x = file["imu"] * file["scale"]
        end = int(file["offset"][1])
    shares = [outside(x, calibrated(x[:end], method)) for method in METHODS]
    assert 0.02 < max(shares) < THRESHOLD


def test_floats_from_0_to_255_are_pixels_for_range_and_others_are_not(work: Path) -> None:
    for limits in ("0,1", "-1,1", "-2,2"):
        floats, pixels = (
            data.open(f"{spec(work, name)}?range={limits}").array() for name in ("floats", "bytes")
        )
        np.testing.assert_array_equal(floats, pixels)
        assert floats.dtype == np.float32
    for name, why in (("unit", "0 to 1"), ("volts", "-300 to ")):
        with pytest.raises(InputError, match="only pixels, 0 to 255") as caught:
            data.open(f"{spec(work, name)}?range=-1,1")
        assert why in str(caught.value.why)
    with pytest.raises(InputError, match="only pixels can be augmented"):
        data.open(f"{spec(work, 'floats')}?range=-1,1&augment=flip")
