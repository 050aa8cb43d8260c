"""Sensors that train a network while they measure: real recordings, as files and lines on a port.

The recordings are 80 times 10 s of an accelerometer and a gyroscope at 10 Hz: badminton, running,
standing, walking. One half trains, the other tests.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.float_networks import FloatNet
from tests.pty_sensor import sensor

import mcutrain.data
from mcutrain.cli.common import reference_data
from mcutrain.cli.main import main
from mcutrain.compile import compile_program
from mcutrain.image.pack import pack
from mcutrain.plan.scheme import resolve_scheme
from mcutrain.quantize import quantize
from mcutrain.report.log import Run
from mcutrain.trainer import Checkpoint

pytestmark = pytest.mark.refdata
LENGTH, CHANNELS, HOP = 50, 6, 10
NAMES = "Badminton,Running,Standing,Walking"


@pytest.fixture(scope="module")
def motions() -> dict[str, Any]:
    folder = reference_data()
    if folder is None:
        pytest.skip("reference data absent: set MCUTRAIN_REFDATA to its folder")
    with np.load(folder / "datasets" / "basic_motions_imu_10hz.npz") as z:
        return {k: z[k] for k in z.files}


def lines_of(motions: dict[str, Any], split: int, count: int = 40) -> list[str]:
    """Recordings of a split in a shuffled order, one reading a line, with its label."""
    order = np.flatnonzero(motions["split"] == split)
    np.random.default_rng(split).shuffle(order)
    lines = []
    for i in order[:count]:
        name = motions["classes"][motions["label"][i]]
        lines += [",".join(f"{v:.6g}" for v in row) + f",{name}" for row in motions["x"][i].T]
    return lines


@pytest.fixture(scope="module")
def files(motions: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("motions")
    for split, name in ((0, "train.csv"), (1, "test.csv")):
        text = "\n".join(["ax,ay,az,gx,gy,gz,label", *lines_of(motions, split)]) + "\n"
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def image(files: Path) -> Path:
    """A 1-D network with random weights, calibrated with windows that `record` has cut."""
    windows = files / "windows.npz"
    with pytest.raises(SystemExit) as caught:
        main(["record", str(files / "train.csv"), "-o", str(windows), "--length", str(LENGTH)])
    assert caught.value.code == 0
    data = mcutrain.data.open(f"npz:{windows}")
    assert data.shape == (LENGTH, 1, CHANNELS)
    assert ",".join(data.classes) == NAMES
    net = FloatNet(1, x=(LENGTH, 1, CHANNELS))
    x = "x"
    for name, c_out, c_in in (("conv1", 16, CHANNELS), ("conv2", 24, 16)):
        weight = net.rng.normal(0, (5 * c_in) ** -0.5, (c_out, 5, 1, c_in))
        x = net.conv(
            name,
            x,
            c_out,
            weight=weight,
            bias=np.zeros(c_out),
            stride=(2, 1),
            pad=(2, 0, 2, 0),
            clamp=(0.0, None),
        )
    x = net.pool("avgpool", "pool", x, net.tensors[x].shape[:2])
    graph = quantize(net.done(x, 4), data.x)
    path = files / "imu.mcti"
    path.write_bytes(pack(compile_program(graph, resolve_scheme(graph, "full"), seed=1)))
    return path


def cli(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        main([*map(str, arguments), "--json"])
    code = caught.value.code
    return code if isinstance(code, int) else 0, json.loads(capsys.readouterr().out)


def stream(image: Path, *arguments: object) -> list[object]:
    return ["stream", image, "--classes", NAMES, "--hop", HOP, "--rate", 0.02, *arguments]


def test_a_stream_trains_the_network(
    image: Path, files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test = [files / "test.csv", "--evaluate"]
    code, before = cli(capsys, *stream(image, *test))
    assert code == 0
    run = tmp_path / "run"
    code, trained = cli(capsys, *stream(image, files / "train.csv", "--repeat", 4, "--out", run))
    assert code == 0
    assert trained["trained"] == trained["windows"] > 900
    # 4,000 readings; a window with two labels is left out.
    all_windows = 4 * ((4000 - LENGTH) // HOP + 1)
    assert trained["windows"] + trained["input"]["mixed_windows"] == all_windows
    code, after = cli(capsys, *stream(image, *test, "--state", run))
    assert before["accuracy"] < 0.5
    assert after["accuracy"] > 0.85
    assert sum(map(sum, after["confusion"])) == after["windows"] == after["labelled"]
    assert Run.load(run).steps[-1]["number"] == trained["trained"] - 1
    # What train and report expect of a folder.
    code, _ = cli(capsys, "report", run, "-o", tmp_path / "run.html")
    assert code == 0


def test_lines_on_a_port_train_like_the_file(
    motions: dict[str, Any],
    image: Path,
    files: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    states = []
    lines = lines_of(motions, 0, 6)
    for device in ("host", "qemu:netduinoplus2"):
        run = tmp_path / device.replace(":", "-")
        with sensor(lines) as port:
            code, result = cli(
                capsys, *stream(image, port, "--windows", 40, "--out", run, "--device", device)
            )
        assert code == 0
        assert result["trained"] == 40
        assert result["input"]["malformed_lines"] == 0
        states.append(Checkpoint.load(run).state)
    run = tmp_path / "file"
    cli(capsys, *stream(image, files / "train.csv", "--windows", 40, "--out", run))
    assert states == [Checkpoint.load(run).state] * 2


def test_what_is_recorded_is_what_was_printed(
    motions: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = lines_of(motions, 0, 3)
    lines[10:10] = ["oops", "1,2"]
    out = tmp_path / "motion.csv"
    with sensor(lines) as port:
        code, result = cli(capsys, "record", port, "-o", out, "--count", 290)
    assert code == 0
    assert result["readings"] == 290
    assert result["input"]["other_columns"] == 2
    written = out.read_text().splitlines()
    assert written[0] == "c1,c2,c3,c4,c5,c6,label"
    expected = [line.split(",") for line in lines[:10] + lines[12:292]]
    for line, fields in zip(written[1:], expected, strict=True):
        got = line.split(",")
        assert [float(v) for v in got[:-1]] == [float(v) for v in fields[:-1]]
        assert got[-1] == fields[-1]
    code, _ = cli(capsys, "record", out, "-o", tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_text() == out.read_text()


def test_a_sensor_that_falls_silent_loses_nothing(
    motions: dict[str, Any],
    image: Path,
    files: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run, out = tmp_path / "run", tmp_path / "x.csv"
    with sensor(lines_of(motions, 0, 2)) as port:
        code, error = cli(capsys, *stream(image, port, "--out", run, "--silence", 1))
    assert code == 5
    assert "sensor is silent" in error["message"]
    assert "12 windows before" in error["why"]
    assert Checkpoint.load(run).step == 12
    # The folder is that of a run, which nothing overwrites.
    assert len(Run.load(run).steps) == Run.load(run).info["trained"] == 12
    test = files / "test.csv"
    code, _ = cli(capsys, *stream(image, test, "--evaluate", "--state", run))
    assert code == 0
    code, error = cli(capsys, *stream(image, test, "--out", run))
    assert code == 3
    assert "already" in error["message"]
    assert "--state" in error["hint"]
    for words in (("train", "--resume", "--out", run), ("report", run, "--diagnose", "-o", out)):
        code, error = cli(capsys, *words)
        assert code == 3
        assert "cannot be repeated or resumed" in error["message"]
    with sensor(lines_of(motions, 0, 2)) as port:
        code, error = cli(capsys, "record", port, "-o", out, "--silence", 1)
    assert code == 5
    assert "200 readings are in" in error["why"]
    assert len(out.read_text().splitlines()) == 201


def test_windows_that_were_recorded_train_like_the_readings(
    image: Path, files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    states = []
    for name in ("train.csv", "windows.npz"):
        run = tmp_path / name
        code, result = cli(capsys, *stream(image, files / name, "--hop", LENGTH, "--out", run))
        assert code == 0
        states.append((result["trained"], Checkpoint.load(run).state))
    assert states[0] == states[1]
    assert states[0][0] > 70


@pytest.mark.parametrize(
    ("count", "labels", "message", "why"),
    [
        (LENGTH - 1, 1, "shorter than one window", f"{LENGTH - 1} readings"),
        (2 * LENGTH, LENGTH, "label changes in every window", f"{LENGTH} readings"),
    ],
)
@pytest.mark.parametrize("more", [[], ["--evaluate"]])
def test_a_stream_without_a_window_is_an_error(
    image: Path,
    motions: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    count: int,
    labels: int,
    message: str,
    why: str,
    more: list[str],
) -> None:
    """And leaves no run behind, so that the same command works with more readings."""
    readings, names = motions["x"][0].T[:count], NAMES.split(",")
    lines = [
        ",".join(map(str, row)) + f",{names[i % labels % 4]}" for i, row in enumerate(readings)
    ]
    (tmp_path / "short.csv").write_text("\n".join(lines) + "\n")
    words = [*stream(image, tmp_path / "short.csv", "--out", tmp_path / "run"), *more]
    code, error = cli(capsys, *words)
    assert code == 3
    assert message in error["message"]
    assert why in error["why"]
    assert error["where"] == str(tmp_path / "short.csv")
    assert error["hint"]
    (tmp_path / "short.csv").write_text("\n".join([lines[0]] * LENGTH) + "\n")
    assert cli(capsys, *words)[0] == 0


def test_labels_that_are_no_classes(
    image: Path, files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["stream", image, files / "train.csv", "--out", tmp_path / "a"]
    code, error = cli(capsys, *arguments, "--label", "Swimming", "--classes", NAMES)
    assert code == 3
    assert "Swimming" in error["message"]
    assert "Badminton" in error["why"]
    arguments = ["stream", image, files / "train.csv", "--out", tmp_path / "b"]
    # Three channels would fill the input of six with twice as many readings, in the wrong places.
    for columns in ("ax,ay,az,gx,gy,gz,ax", "ax,ay,az"):
        code, error = cli(capsys, *arguments, "--columns", columns)
        assert code == 3
        assert "do not fill" in error["message"]


DYING = """
import itertools, os, sys
import mcutrain.cli.stream
from mcutrain.cli.main import main
from mcutrain.link.session import Session

mcutrain.cli.stream.SAVE_SECONDS = 0.0
steps, train_step = itertools.count(), Session.train_step
Session.train_step = lambda *a: train_step(*a) if next(steps) < 100 else os._exit(9)
main(sys.argv[1:])
"""


def test_a_stream_that_is_killed_keeps_what_it_saved(
    image: Path, files: Path, tmp_path: Path
) -> None:
    """The process ends in its 101st window, without another word."""
    run = tmp_path / "run"
    words = stream(image, files / "train.csv", "--out", run)
    command = [sys.executable, "-c", DYING, *map(str, words), "--json"]
    assert subprocess.run(command, check=False).returncode == 9
    assert Checkpoint.load(run).step == Run.load(run).info["trained"] == 100


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("--scale", "nan", "no numbers"),
        ("--offset", "1,inf", "no numbers"),
        ("--classes", "a,b,a,c", "two classes"),
    ],
)
def test_options_that_no_stream_can_follow(
    image: Path,
    files: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    option: str,
    value: str,
    expected: str,
) -> None:
    words = ["stream", image, files / "train.csv", "--out", tmp_path / "run", option, value]
    code, error = cli(capsys, *words)
    assert code in (2, 3)
    assert expected in error["message"]
    assert not (tmp_path / "run").exists()


def test_watch_recordings_stream_at_their_scale(
    image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """int16 readings with one factor a channel, as the file gives them; prediction only."""
    folder = reference_data()
    assert folder is not None
    with np.load(folder / "datasets" / "watch_shoulder_imu_50hz.npz") as z:
        imu, scale = z["imu"][:5000], z["scale"]
    np.savez(tmp_path / "watch.npz", x=imu)
    factors = ",".join(f"{s:.9g}" for s in scale)
    out = tmp_path / "raw"
    code, scaled = cli(
        capsys, *stream(image, tmp_path / "watch.npz", "--scale", factors, "--out", out)
    )
    assert code == 0
    assert scaled["windows"] == (5000 - LENGTH) // HOP + 1
    assert scaled["trained"] == scaled["labelled"] == 0
    np.savez(tmp_path / "real.npz", x=(imu * scale).astype(np.float64))
    code, real = cli(capsys, *stream(image, tmp_path / "real.npz", "--out", tmp_path / "real"))
    assert real["predictions"] == scaled["predictions"]
    assert sum(real["predictions"]) == real["windows"]
    words = stream(image, tmp_path / "watch.npz", "--evaluate")
    code, raw = cli(capsys, *words)
    assert raw["outside_input"] > 0.5 > 0.05 > real["outside_input"]
    for more, told in (([], 1), (["--windows", 3], 1), (["--scale", factors], 0)):
        with pytest.raises(SystemExit):
            main([str(w) for w in [*words, *more]])
        err = capsys.readouterr().err
        assert err.count("warning: ") == told
        assert ("watch.npz: " in err and "--scale" in err) == bool(told)


def test_what_is_printed_for_people(
    image: Path, files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where nothing is learned, nothing is right before it; a recording counts its windows."""
    windows = tmp_path / "w.npz"
    for words, wanted in (
        (stream(image, files / "test.csv", "--evaluate"), r" right  +\d+"),
        (["record", files / "test.csv", "-o", windows, "--length", LENGTH], r"\), [\d,]+ windows"),
    ):
        with pytest.raises(SystemExit) as caught:
            main([str(w) for w in words])
        out = capsys.readouterr().out
        assert caught.value.code == 0
        assert re.search(wanted, out), out
        assert "before learning" not in out
    with np.load(windows) as data:
        assert f" {len(data['x']):,} windows" in out


def test_short_recordings_in_a_good_stream_are_counted(
    image: Path, motions: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    readings, name = motions["x"][0].T, NAMES.split(",")[0]
    for file, count in (("a", 60), ("b", LENGTH - 1), ("c", LENGTH), ("d", 1)):
        rows = [",".join(map(str, row)) + f",{name}" for row in readings[:count]]
        (tmp_path / f"{file}.csv").write_text("\n".join(rows) + "\n")
    files = [tmp_path / f"{file}.csv" for file in "abcd"]
    code, result = cli(capsys, *stream(image, *files, "--evaluate", "--repeat", 3))
    assert code == 0
    assert result["input"]["short_recordings"] == 3 * 2
    with pytest.raises(SystemExit):
        main([str(w) for w in stream(image, *files, "--evaluate")])
    assert re.search(r"short recordings +2\b", capsys.readouterr().out)
