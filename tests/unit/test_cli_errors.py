"""Hostile surroundings: whatever goes wrong has a place, a next command and a documented code."""

from __future__ import annotations

import json
import os
import resource
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest
from tests.networks import residual_network

from mcutrain.cli.main import app, main
from mcutrain.errors import EXIT_CODES
from mcutrain.files import locked
from mcutrain.image.unpack import unpack
from mcutrain.ir.serialize import save

MCUTRAIN = [sys.executable, "-c", "from mcutrain.cli import main; main()"]
Refused = Callable[..., dict[str, Any]]


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Refused:
    """Runs a command that must fail, as JSON; the error, which must be complete."""

    def run(*arguments: object, code: int = 3) -> dict[str, Any]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main([*map(str, arguments), "--json"])
        out, err = capsys.readouterr()
        data: dict[str, Any] = json.loads(out)
        assert caught.value.code == data["exit_code"] == code, data
        assert code in EXIT_CODES
        assert "Traceback" not in err
        assert data["message"]
        assert data["where"]
        assert data["hint"]
        assert "Errno" not in str(data["why"])
        return data

    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network, its image, data, and a finished run of a few steps."""
    folder = tmp_path_factory.mktemp("errors")
    save(residual_network(8, 4), folder / "n.net.npz")
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, (12, 8, 8, 3)).astype(np.float32)
    np.savez(folder / "d.npz", x=x, y=np.arange(12) % 4)
    (folder / "a.csv").write_text("1,2,3\n4,5,6\n")
    call("pack", folder / "n.net.npz", "-o", folder / "i.mcti")
    call("train", folder / "i.mcti", "--data", f"npz:{folder}/d.npz", "--out", folder / "run")
    return folder


def call(*arguments: object, code: int = 0, **options: Any) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*MCUTRAIN, *map(str, arguments)],
        check=False,
        **{"capture_output": True, "text": True, "timeout": 120} | options,
    )
    assert done.returncode == code, (done.stdout, done.stderr)
    return done


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (["plan", "{net}", "--nonsense"], 2, "--nonsense"),
        (["plan"], 2, "net"),
        (["nonsense"], 2, "nonsense"),
        (["plan", ""], 3, "no such network"),
        (["plan", "{net}", "--scheme", ""], 3, "no such scheme"),
        (["plan", "{net}", "--classes", "1000000000"], 3, "65535"),
        (["pack", "{net}", "-o", ""], 3, "cannot write"),
        (["pack", "{net}", "-o", "{dir}"], 3, "cannot write"),
        (["pack", "{net}", "-o", "x", "--seed", "-1"], 2, "--seed"),
        (["pack", "{net}", "-o", "x", "--seed", "4294967296"], 2, "--seed"),
        (["eval", "{image}", "--data", "npz:{dir}/d.npz", "--state", "{image}"], 3, "state"),
        (["eval", "{image}", "--data", "npz:{dir}/d.npz", "--state", "absent"], 3, "state"),
        (["eval", "{dir}", "--data", "npz:{dir}/d.npz"], 3, "cannot read the image"),
        (["eval", "{image}", "--data", "npz:{dir}/d.npz", "--device", "/dev/absent"], 5, "port"),
        (["eval", "{image}", "--data", "npz:{dir}/d.npz", "--device", "/dev/null"], 5, "port"),
        (["train", "{image}", "--data", "npz:{dir}/d.npz", "--seed", "-1"], 2, "--seed"),
        (["train", "{image}", "--data", "npz:{dir}/d.npz", "--steps", "-1"], 2, "--steps"),
        (["train", "{image}", "--data", "npz:{dir}/d.npz", "--epochs", "-1"], 2, "--epochs"),
        (["train", "{image}", "--data", "npz:{dir}/d.npz", "--epochs", str(10**12)], 3, "steps"),
        (["train", "{image}", "--data", "npz:{dir}/d.npz", "--rate", "1e300"], 2, "--rate"),
        (["train", "{image}", "--data", "npz:{dir}/d.npz", "--warmup", "1.1"], 2, "--warmup"),
        (["demo", "--steps", str(10**12)], 2, "--steps"),
        (["record", "{dir}/a.csv", "-o", "x", "--source-baud", str(10**12)], 2, "--source-baud"),
        (["stream", "{image}", "{dir}/a.csv", "--out", "s", "--repeat", str(10**20)], 3, "window"),
        (["train", "--resume", "--out", "absent"], 3, "not the folder of a run"),
        (["train", "--resume", "--out", "{dir}/run", "--steps", "9"], 2, "--resume"),
        (["pull", "{dir}/run", "--net", "demo", "-o", "x"], 3, "another network"),
        (["pull", "{dir}/run", "--net", "{net}", "-o", "x", "--device", "host"], 2, "emulated"),
        (["report", "{dir}/run", "-o", "x.html", "--bench", "{image}"], 3, "JSON"),
        (["report", "{dir}/run", "-o", "x.html", "--bench", "{dir}/run/run.json"], 3, "bench"),
        (["quantize", "no_colon", "--data", "npz:{dir}/d.npz", "-o", "x"], 2, "FILE.py:FUNCTION"),
        (["import", "absent", "-o", "x"], 3, "cannot read"),
        (["import", "absent.json", "-o", "x"], 3, "cannot read"),
        (["import", "absent.pkl", "-o", "x"], 3, "cannot read"),
        (["plan", "{net}", "--scheme", "absent.json"], 3, "scheme"),
        (["report", "{dir}"], 3, "not the folder of a run"),
        (["eval", "{image}", "--data", "npz:absent"], 3, "no such file"),
        (["eval", "{image}", "--data", "csv:absent"], 3, "cannot read"),
        (["eval", "{image}", "--data", "idx:absent,absent"], 3, "cannot read"),
        (["eval", "{image}", "--data", "npz:{dir}"], 3, "no such file"),
        (["stream", "{image}", "absent.csv", "--out", "s"], 3, "there is no such file"),
    ],
)
def test_every_error_has_a_place_and_a_next_command(
    refused: Refused,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    code: int,
    part: str,
) -> None:
    monkeypatch.chdir(folder)
    places = {"net": folder / "n.net.npz", "image": folder / "i.mcti", "dir": folder}
    assert part in refused(*(w.format(**places) for w in words), code=code)["message"]
    assert not (folder / "x").exists()


REALS = [
    (str(command.name), f"--{name.replace('_', '-')}")
    for command in app.registered_commands
    for name, hint in get_type_hints(command.callback).items()
    if hint in (float, float | None)
]


def test_the_options_that_are_real_numbers() -> None:
    options = {option for _, option in REALS}
    assert options == {"--rate", "--warmup", "--head-factor", "--learnt", "--seconds", "--silence"}


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "-1", "1e39"])
@pytest.mark.parametrize(("command", "option"), REALS)
def test_no_real_number_is_infinite_or_negative(
    refused: Refused,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    option: str,
    value: str,
) -> None:
    """Refused before anything is made, and before anything is read."""
    monkeypatch.chdir(tmp_path)
    words = {
        "train": [folder / "i.mcti", "--data", f"npz:{folder}/d.npz"],
        "stream": [folder / "i.mcti", folder / "a.csv"],
        "record": [folder / "a.csv", "-o", "x.csv"],
    }
    data = refused(command, *words[command], option, value, code=2)
    assert option in data["message"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [["--rate", "1e30", "--head-factor", "1e30"], ["--baud", "9x"]])
def test_what_only_the_device_would_refuse_leaves_no_run_folder(
    refused: Refused, folder: Path, tmp_path: Path, words: list[str]
) -> None:
    starts = ["train", folder / "i.mcti", "--data", f"npz:{folder}/d.npz"]
    refused(*starts, "--out", tmp_path / "run", *words, code=2 if "--baud" in words else 3)
    assert not (tmp_path / "run").exists()


def test_damaged_image_is_named_and_not_the_run_folder(refused: Refused, folder: Path) -> None:
    bad = folder / "bad.mcti"
    bad.write_bytes((folder / "i.mcti").read_bytes()[:-10])
    data = refused("train", bad, "--data", f"npz:{folder}/d.npz", "--out", folder / "no", code=7)
    assert data["where"] == str(bad)
    assert not (folder / "no").exists()


def test_t38_state_of_another_image_is_not_evaluated(refused: Refused, folder: Path) -> None:
    """Of the same size, and so a wrong accuracy without a word: another seed of the image."""
    call("pack", folder / "n.net.npz", "-o", folder / "j.mcti", "--seed", 7)
    images = [unpack((folder / name).read_bytes()) for name in ("i.mcti", "j.mcti")]
    assert images[0].header["state_bytes"] == images[1].header["state_bytes"]
    words = ["eval", folder / "j.mcti", "--data", f"npz:{folder}/d.npz"]
    assert "another image" in refused(*words, "--state", folder / "run")["message"]


def test_two_processes_do_not_share_a_run_folder(refused: Refused, folder: Path) -> None:
    with locked(folder / "run"):
        data = refused("train", "--resume", "--out", folder / "run")
        assert "another process" in data["message"]
    call("train", "--resume", "--out", folder / "run")


def test_huge_number_of_steps_needs_no_memory(folder: Path) -> None:
    """The order of the samples is made as it is needed."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))

    out = folder / "long"
    words = ["train", folder / "i.mcti", "--data", f"npz:{folder}/d.npz", "--out", out]
    process = subprocess.Popen(
        [*MCUTRAIN, *map(str, words), "--steps", "4000000000"],
        preexec_fn=limit,  # noqa: PLW1509
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not (out / "log.jsonl").is_file() or (out / "log.jsonl").stat().st_size < 1000:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert "--resume" in process.communicate(timeout=60)[1]
    assert process.returncode == 8


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signals_end_any_command_in_order(folder: Path, number: signal.Signals) -> None:
    """Here while it waits for a pipe, so that the moment is known."""
    pipe = folder / f"pipe{number}"
    os.mkfifo(pipe)
    process = subprocess.Popen(
        [*MCUTRAIN, "report", str(folder / "run"), "-o", "x", "--bench", str(pipe), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with pipe.open("w"):  # until the command has opened it, too
        process.send_signal(number)
        out, err = process.communicate(timeout=30)  # closed earlier, the pipe's end may come first
    assert process.returncode == 8, err
    assert json.loads(out)["error"] == "interrupted"
    assert "Traceback" not in err


def test_interrupt_while_modules_are_imported(folder: Path) -> None:
    code = (
        "import sys\n"
        "class Stop:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'mcutrain.cli.bench': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Stop())\n"
        "from mcutrain.cli import main; main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "plan", "demo"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (8, "error: stopped\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has it")
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_full_disk_behind_stdout_is_no_defect(folder: Path, more: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = call(
            "inspect", folder / "n.net.npz", *more, code=3, capture_output=False, stdout=full,
            stderr=subprocess.PIPE,
        )  # fmt: skip
    assert done.stderr.startswith("error: cannot write the output")
    assert "Traceback" not in done.stderr


def test_closed_stdout_is_no_defect(folder: Path) -> None:
    command = " ".join(f"'{w}'" for w in [*MCUTRAIN, "inspect", str(folder / "n.net.npz")])
    done = subprocess.run(["sh", "-c", f"{command} >&-"], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_names_that_a_terminal_cannot_show_are_escaped(tmp_path: Path) -> None:
    path = tmp_path / "[bold] grün [x].net.npz"
    save(residual_network(8, 4), path)
    plain = {**os.environ, "PYTHONIOENCODING": "ascii"}
    image = tmp_path / "[red] ü.mcti"
    assert "[red] \\xfc.mcti" in call("pack", path, "-o", image, env=plain).stdout
    run, data = tmp_path / "run [x] y", tmp_path / "d.npz"
    np.savez(data, x=np.zeros((2, 8, 8, 3), np.float32), y=[0, 1])
    words = ["train", image, "--data", f"npz:{data}", "--out", run]
    following = call(*words, env=plain).stderr.splitlines()[-1]
    assert shlex.split(following)[1:4] == ["mcutrain", "report", str(run)]
    assert f"--out '{run}'" in call(*words, code=3, env=plain).stderr  # there is a run already
    assert "gr\\xfcn" in call("plan", tmp_path / "[grün]", code=3, env=plain).stderr


def test_output_that_cannot_be_written_is_refused_before_the_work(
    refused: Refused, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(*_: object, **__: object) -> None:
        raise AssertionError("worked for nothing")

    monkeypatch.setattr("mcutrain.cli.pack.compile_program", work)
    refused("pack", folder / "n.net.npz", "-o", folder / "absent" / "i.mcti")


def test_without_a_terminal_work_that_takes_long_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    monkeypatch.setattr("mcutrain.cli.common._LINE_SECONDS", 0.0)
    words = ["eval", str(folder / "i.mcti"), "--data", f"npz:{folder}/d.npz"]
    with pytest.raises(SystemExit):
        main(words)
    assert "evaluating: 12 of 12" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*words, "--json"])
    assert capsys.readouterr().err == ""


@pytest.mark.torch
@pytest.mark.parametrize(
    ("body", "word"),
    [
        ("import sys; sys.exit(0)", "SystemExit"),
        ("return 5", "no PyTorch module"),
        ("print('hello'); raise ValueError('bad')", "bad"),
    ],
)
def test_hostile_model_functions(refused: Refused, folder: Path, body: str, word: str) -> None:
    pytest.importorskip("torch")
    (folder / "model.py").write_text(f"def build():\n    {body}\n")
    words = [f"{folder}/model.py:build", "--data", f"npz:{folder}/d.npz", "-o", folder / "x"]
    data = refused("quantize", *words)
    assert word in f"{data['message']} {data['why']}"
