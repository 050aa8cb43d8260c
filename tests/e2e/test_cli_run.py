"""From network to report on the host: a run that is stopped, killed or out of disk is not lost."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.networks import residual_network

from mcutrain.engine.build import load
from mcutrain.ir.serialize import load as load_network
from mcutrain.ir.serialize import save

MCUTRAIN = [sys.executable, "-c", "from mcutrain.cli import main; main()"]
STEPS = 1500


def call(*arguments: object, code: int = 0, **options: Any) -> subprocess.CompletedProcess[str]:
    words = [str(a) for a in arguments]
    done = subprocess.run(
        [*MCUTRAIN, *words], capture_output=True, text=True, timeout=300, check=False, **options
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def ask(*arguments: object, code: int = 0) -> dict[str, Any]:
    """One JSON object on stdout and nothing on stderr, or the test fails."""
    done = call(*arguments, "--json", code=code)
    assert done.stderr == ""
    data: dict[str, Any] = json.loads(done.stdout)
    return data


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a network, an image, and data that a few hundred steps can learn."""
    load()  # compiled before anything is timed
    folder = tmp_path_factory.mktemp("cli")
    save(residual_network(8, 4), folder / "small.net.npz")
    rng = np.random.default_rng(0)
    means = rng.normal(0, 1, (4, 8, 8, 3))
    y = rng.integers(0, 4, 500)
    x = (means[y] + rng.normal(0, 0.5, (500, 8, 8, 3))).astype(np.float32)
    np.savez(folder / "d.npz", x_train=x[:400], y_train=y[:400], x_test=x[400:], y_test=y[400:])
    net, image, data = folder / "small.net.npz", folder / "small.mcti", f"npz:{folder}/d.npz"
    ask("pack", net, "--classes", 4, "--calibrate", f"{data}?split=train", "-o", image)
    return folder


def train_words(work: Path, out: Path, steps: int = STEPS) -> list[object]:
    data = f"npz:{work}/d.npz"
    words: list[object] = ["train", work / "small.mcti", "--data", f"{data}?split=train"]
    words += ["--test", f"{data}?split=test&count=50", "--steps", steps, "--rate", 0.02]
    return [*words, "--out", out]


@pytest.fixture(scope="module")
def whole(work: Path) -> Path:
    """The run that was never interrupted."""
    ask(*train_words(work, work / "whole"))
    return work / "whole"


def steps_of(run: Path) -> list[dict[str, Any]]:
    """The log without what a clock says."""
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in CLOCKS} for line in lines]


CLOCKS = ("seconds", "ticks_forward", "ticks_backward")


def assert_same_run(run: Path, whole: Path) -> None:
    assert steps_of(run) == steps_of(whole)
    state = f"state-{STEPS}.bin"
    assert (run / state).read_bytes() == (whole / state).read_bytes()
    got, expected = (json.loads((r / "run.json").read_text()) for r in (run, whole))
    for part in ("settings", "before", "after"):
        assert got[part] == expected[part]
    assert not [p for p in run.iterdir() if p.name.startswith(".")]


def test_a_run_learns_and_says_so(whole: Path) -> None:
    info = json.loads((whole / "run.json").read_text())
    assert info["before"]["accuracy"] < 0.6
    assert info["after"]["accuracy"] > 0.8
    assert info["stats"]["pool_used"] <= info["stats"]["pool_planned"]
    assert [s["number"] for s in steps_of(whole)] == list(range(STEPS))


def test_inspect_of_a_run_shows_the_image_that_was_trained(work: Path, whole: Path) -> None:
    assert ask("inspect", whole) == ask("inspect", work / "small.mcti")


def test_what_a_run_prints_leaves_out_what_says_nothing(work: Path, tmp_path: Path) -> None:
    """No stack of the host engine; a hint where the test samples are all of one class."""
    *words, out = train_words(work, tmp_path / "mixed", steps=2)
    mixed = call(*words, out)
    assert "accuracy after" in mixed.stdout
    assert "stack" not in mixed.stdout
    assert "one class" not in mixed.stderr
    words[words.index("--test") + 1] = f"npz:{work}/d.npz?split=test&classes=0"
    assert "one class" in call(*words, tmp_path / "single").stderr


def test_classes_of_data_are_those_of_the_network_by_name(work: Path, tmp_path: Path) -> None:
    """Data of two of the four classes, in another order than the network's."""
    net, image = tmp_path / "named.net.npz", tmp_path / "named.mcti"
    save(replace(residual_network(8, 4), classes=("a", "b", "c", "d")), net)
    with np.load(work / "d.npz") as data:
        x, y = data["x_test"], data["y_test"]
    some = np.flatnonzero((y == 1) | (y == 3))
    named = tmp_path / "named.npz"
    np.savez(named, x=x[some], y=(y[some] == 1).astype(np.int64), classes=["d", "b"])
    spec, counts = f"npz:{named}", [0, int((y == 1).sum()), 0, int((y == 3).sum())]
    ask("pack", net, "--calibrate", spec, "-o", image)
    assert [sum(row) for row in ask("eval", image, "--data", spec)["confusion"]] == counts
    run = ask("train", image, "--data", spec, "--test", spec, "--out", tmp_path / "run")
    assert [sum(row) for row in run["after"]["confusion"]] == counts
    call("report", tmp_path / "run", "--diagnose", "-o", tmp_path / "run.html")
    # A new classifier has no names: it learns those of the data, and the test is matched to them.
    ask("pack", net, "--classes", 4, "-o", image)
    whole = tmp_path / "whole.npz"
    np.savez(whole, x=x, y=y, classes=["a", "b", "c", "d"])
    words = ["train", image, "--data", f"npz:{whole}", "--test", spec, "--out", tmp_path / "new"]
    assert [sum(row) for row in ask(*words)["after"]["confusion"]] == counts
    found = ask("eval", image, "--state", tmp_path / "new", "--data", spec)
    assert [sum(row) for row in found["confusion"]] == counts
    assert found["classes"] == ["a", "b", "c", "d"]


def test_without_kept_prefixes_a_run_ends_with_the_same_bytes(
    work: Path, whole: Path, tmp_path: Path
) -> None:
    ask(*train_words(work, tmp_path / "run"), "--no-cache")
    assert_same_run(tmp_path / "run", whole)
    stats = [
        json.loads((run / "run.json").read_text())["stats"] for run in (whole, tmp_path / "run")
    ]
    for name in ("steps", "evals", "saturated", "clamped", "pool_used", "pool_planned"):
        assert stats[0][name] == stats[1][name], name


def start(words: list[object], run: Path, at: int) -> subprocess.Popen[str]:
    """Start a run and wait until it has done `at` steps."""
    command = [*MCUTRAIN, *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    log = run / "log.jsonl"
    while not log.is_file() or log.read_bytes().count(b"\n") < at:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.002)
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_run_is_resumed_by_the_command_it_prints(
    work: Path, whole: Path, tmp_path: Path, number: signal.Signals
) -> None:
    run = tmp_path / "run with spaces"
    process = start(train_words(work, run), run, 20)
    process.send_signal(number)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 8
    hint = re.search(r"next: +(mcutrain train --resume .*)", error)
    assert hint is not None, error
    done = json.loads((run / "checkpoint.json").read_text())["step"]
    assert 20 <= done < STEPS
    assert len(steps_of(run)) == done
    ask(*shlex.split(hint[1])[1:])
    assert_same_run(run, whole)


def test_killed_run_goes_on_after_its_last_checkpoint(
    work: Path, whole: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    process = start(train_words(work, run), run, 50)
    process.kill()
    process.communicate()
    # What a kill in the middle of a line leaves.
    with (run / "log.jsonl").open("a") as log:
        log.write('{"kind": "step", "num')
    ask("train", "--resume", "--out", run)
    assert_same_run(run, whole)


def test_finished_run_can_be_resumed_without_change(work: Path, whole: Path) -> None:
    ask("train", "--resume", "--out", whole)
    assert len(steps_of(whole)) == STEPS


def test_full_disk_is_an_error_and_the_run_can_go_on(
    work: Path, whole: Path, tmp_path: Path
) -> None:
    """A size limit stops the log in its middle, as a full disk does."""
    run = tmp_path / "run"
    limit = (
        "import resource, sys; from mcutrain.cli import main\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "main(sys.argv[1:])"
    )
    words = [str(w) for w in train_words(work, run)]
    done = subprocess.run(
        [sys.executable, "-c", limit, *words, "--json"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout)["where"].endswith("log.jsonl")
    ask("train", "--resume", "--out", run)
    assert_same_run(run, whole)


def test_a_run_is_never_overwritten(work: Path, whole: Path) -> None:
    before = {p.name: p.read_bytes() for p in whole.iterdir()}
    data = ask(*train_words(work, whole), code=3)
    assert "--resume" in data["hint"]
    assert {p.name: p.read_bytes() for p in whole.iterdir()} == before


def test_folder_that_cannot_be_made(work: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    data = ask(*train_words(work, tmp_path / "file"), code=3)
    assert "cannot write" in data["message"]
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--resume", "--data", "npz:x"], 2),
        ([], 2),
        (["{image}", "--data", "npz:{d}?split=train", "--rate", "-1"], 2),
        (["{image}", "--data", "npz:{d}?split=train", "--warmup", "7"], 2),
        (["{image}", "--data", "npz:{d}?split=train", "--device", "nonsense"], 2),
        (["{image}", "--data", "nonsense"], 2),
        (["{d}", "--data", "npz:{d}?split=train"], 7),
    ],
)
def test_mistakes_in_options_leave_no_run(
    work: Path, tmp_path: Path, words: list[str], code: int
) -> None:
    places = {"image": work / "small.mcti", "d": work / "d.npz"}
    run = tmp_path / "run"
    ask("train", *(w.format(**places) for w in words), "--out", run, code=code)
    assert not (run / "run.json").exists()


def test_evaluation_of_the_trained_state(work: Path, whole: Path, tmp_path: Path) -> None:
    data = f"npz:{work}/d.npz?split=test&count=50"
    info = json.loads((whole / "run.json").read_text())
    image = work / "small.mcti"
    assert ask("eval", image, "--data", data)["accuracy"] == info["before"]["accuracy"]
    for state in (whole, whole / f"state-{STEPS}.bin"):
        got = ask("eval", image, "--data", data, "--state", state)
        assert got["confusion"] == info["after"]["confusion"]
    (tmp_path / "short").write_bytes(b"123")
    assert ask("eval", image, "--data", data, "--state", tmp_path / "short", code=3)


def test_pulled_network_is_the_one_that_was_trained(
    work: Path, whole: Path, tmp_path: Path
) -> None:
    net, image = tmp_path / "trained.net.npz", tmp_path / "trained.mcti"
    state = tmp_path / "state.bin"
    data = ask("pull", whole, "--net", work / "small.net.npz", "-o", net, "--state", state)
    assert data["steps"] == STEPS
    assert state.read_bytes() == (whole / f"state-{STEPS}.bin").read_bytes()
    before, after = load_network(work / "small.net.npz"), load_network(net)
    assert len(after.classes) == 4
    changed = {
        n.name
        for n, m in zip(before.nodes, after.nodes, strict=True)
        if any(not np.array_equal(n.params[k], m.params[k]) for k in n.params)
    }
    assert changed == {"b2.pw1", "b2.dw", "b2.pw2", "classifier"}
    # A frozen image of the trained network predicts what the trained device predicts.
    ask("pack", net, "--scheme", "head", "-o", image)
    spec = f"npz:{work}/d.npz?split=test&count=50"
    got = ask("eval", image, "--data", spec)["confusion"]
    assert got == json.loads((whole / "run.json").read_text())["after"]["confusion"]


def test_pull_refuses_another_network(work: Path, whole: Path, tmp_path: Path) -> None:
    save(residual_network(8, 4, seed=5), tmp_path / "other.net.npz")
    out = tmp_path / "out.net.npz"
    data = ask("pull", whole, "--net", tmp_path / "other.net.npz", "-o", out, code=3)
    assert "another network" in data["message"]
    assert not out.exists()


def test_report_of_a_run_and_of_an_unfinished_one(work: Path, whole: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    page = tmp_path / "report.html"
    data = ask("report", whole, "-o", page)
    assert data["steps"] == STEPS
    assert page.stat().st_size == data["bytes"]
    assert "b2.pw2" in page.read_text()
    run = tmp_path / "run"
    process = start(train_words(work, run), run, 30)
    process.kill()
    process.communicate()
    assert ask("report", run, "-o", page)["steps"] >= 30


def test_quantize_needs_nothing_but_a_function(work: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "def net():\n"
        "    torch.manual_seed(0)\n"
        "    conv = torch.nn.Conv2d(3, 8, 3, padding=1)\n"
        "    return torch.nn.Sequential(conv, torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1),\n"
        "                               torch.nn.Flatten(), torch.nn.Linear(8, 4))\n"
    )
    net = tmp_path / "mine.net.npz"
    spec = f"npz:{work}/d.npz?split=train"
    data = ask("quantize", f"{tmp_path}/mine.py:net", "--data", spec, "-o", net)
    assert data["agreement"] > 0.9
    assert [row["op"] for row in data["layers"]] == ["conv2d", "avgpool", "linear"]
    assert ask("plan", net, "--scheme", "full")["fits"]
    bad = ask("quantize", f"{tmp_path}/mine.py:absent", "--data", spec, "-o", net, code=3)
    assert "AttributeError" in bad["why"]


def test_bench_on_the_host_gives_times(work: Path) -> None:
    data = ask(
        "bench",
        work / "small.net.npz",
        "--device",
        "host",
        "--data",
        f"npz:{work}/d.npz?split=train",
    )
    assert data["vector_unit"] in ("none", "avx2", "avx512", "neon")
    assert 0 < data["forward_ms"] < data["step_ms"]
    assert 0 < data["device_forward_ms"] < data["device_step_ms"]
    assert "pytorch" not in data


@pytest.mark.torch
def test_bench_against_pytorch_gives_a_ratio_with_its_spread(work: Path) -> None:
    data = ask("bench", work / "small.net.npz", "--device", "host", "--pytorch")
    assert len(data["pytorch"]) == 2
    for way in data["pytorch"]:
        low, high = way["ratio_quartiles"]
        assert 0 < low <= way["ratio"] <= high
        assert way["best"] == min(way["ms"], key=way["ms"].get)


def test_bench_runs_pytorch_on_the_host_only(work: Path) -> None:
    data = ask("bench", work / "small.net.npz", "--pytorch", code=2)
    assert data["where"] == "--pytorch"
