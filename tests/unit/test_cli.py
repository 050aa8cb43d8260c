"""Every command: help with an example, exit codes, and one JSON object with --json."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.networks import residual_network

from mcutrain.cli import evaluate as evaluate_command
from mcutrain.cli.main import app, main
from mcutrain.errors import EXIT_CODES, LinkError
from mcutrain.ir.serialize import save

COMMANDS = [c.name for c in app.registered_commands]
# For each command, arguments that end in an error of the input, and its exit code.
FAILING: dict[str, tuple[list[str], int]] = {
    "import": (["absent.tflite", "-o", "x.net.npz"], 3),
    "quantize": (["no.such.module:f", "--data", "npz:/absent", "-o", "x.net.npz"], 3),
    "plan": (["absent.net.npz"], 3),
    "pack": (["absent.net.npz", "-o", "x.mcti"], 3),
    "inspect": (["absent.mcti"], 3),
    "train": (["absent.mcti", "--data", "npz:absent.npz"], 3),
    "eval": (["absent.mcti", "--data", "npz:absent.npz"], 3),
    "pull": (["absent", "--net", "x", "-o", "y.net.npz"], 3),
    "bench": (["absent.net.npz"], 3),
    "boards": (["--absent"], 2),
    "build": (["--board", "absent"], 2),
    "flash": (["--board", "qemu:netduinoplus2"], 2),
    "save": (["--device", "host"], 2),
    "accuracy": (["--absent"], 2),
    "stream": (["absent.mcti", "absent.csv"], 3),
    "record": (["absent.csv", "-o", "x.csv"], 3),
    "report": (["absent"], 3),
    "demo": (["--device", "qemu:absent"], 2),
    "doctor": (["--absent"], 2),
}

RunCli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> RunCli:
    """Runs `mcutrain ARGUMENTS` in this process: exit code, stdout, stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return int(caught.value.code or 0), out, err

    return run


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "small.net.npz"
    save(residual_network(8, 4), path)
    return path


def test_all_commands_of_the_issue_are_there() -> None:
    wanted = {"doctor", "quantize", "plan", "pack", "inspect", "train", "eval", "pull", "report"}
    wanted |= {"bench", "import", "demo", "boards", "build", "flash", "save", "stream", "record"}
    wanted |= {"accuracy"}
    assert wanted == set(COMMANDS)
    assert sorted(FAILING) == sorted(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_and_the_exit_codes(cli: RunCli, command: str) -> None:
    code, out, _ = cli(command, "--help")
    assert code == 0
    assert f"Example: mcutrain {command}" in out
    assert "--json" in out
    for number in EXIT_CODES:
        assert re.search(rf"^\s*{number}: ", out, re.MULTILINE), number
    # Lines break at the width of the terminal, not where the source breaks them.
    text = out[: out.index("Example:")].splitlines()
    for line, following in itertools.pairwise(text[3:]):
        if line.strip() and following.strip():
            assert len(f"{line.rstrip()} {following.split()[0]}") >= len(text[0]), line
    codes = out[out.index("Exit codes:") :].strip().splitlines()
    assert all(line.strip() for line in codes)
    assert len(codes) > len(EXIT_CODES)


@pytest.mark.parametrize("command", COMMANDS)
def test_errors_are_one_json_object_with_json(cli: RunCli, command: str) -> None:
    arguments, expected = FAILING[command]
    code, out, _ = cli(command, *arguments, "--json")
    data = json.loads(out)
    assert code == data["exit_code"] == expected
    assert EXIT_CODES[code].startswith(data["error"])
    assert data["message"]


@pytest.mark.parametrize("command", COMMANDS)
def test_errors_go_to_stderr_without_json(cli: RunCli, command: str) -> None:
    arguments, expected = FAILING[command]
    code, out, err = cli(command, *arguments)
    assert (code, out) == (expected, "")
    assert err.startswith("error: ")


def test_no_arguments_print_the_help(cli: RunCli) -> None:
    code, out, _ = cli()
    assert code == 0
    assert all(command in out for command in COMMANDS)


def test_version(cli: RunCli) -> None:
    code, out, _ = cli("--version")
    assert code == 0
    assert re.fullmatch(r"mcutrain \d+\.\d+\.\d+\n", out)


def test_the_package_runs_as_a_module(cli: RunCli) -> None:
    """What it says and its exit code are those of the command."""
    for words in (["--version"], ["plan", "no"]):
        done = subprocess.run(
            [sys.executable, "-m", "mcutrain", *words], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == cli(*words)


def test_doctor_reports_each_check(cli: RunCli) -> None:
    code, out, _ = cli("doctor", "--json")
    data = json.loads(out)
    assert code == (0 if data["ok"] else 6)
    names = [c["name"] for c in data["checks"]]
    wanted = (
        "Python",
        "C compiler",
        "arm-none-eabi-gcc",
        "qemu-system-arm",
        "host engine",
        "pillow",
    )
    assert set(wanted) <= set(names)
    assert all(c["hint"] for c in data["checks"] if not c["ok"])


def test_t61_doctor_names_the_missing_tool_and_its_package(
    cli: RunCli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    code, out, _ = cli("doctor", "--json")
    checks = {c["name"]: c for c in json.loads(out)["checks"]}
    assert code == 6
    assert not checks["qemu-system-arm"]["ok"]
    assert "apt-get install" in checks["qemu-system-arm"]["hint"]
    assert not checks["arm-none-eabi-gcc"]["ok"]
    assert not checks["C compiler"]["ok"]


def test_plan_prints_what_trains_and_every_byte(cli: RunCli, net: Path) -> None:
    code, out, _ = cli("plan", net, "--scheme", "last:2", "--fraction-bits", 4, "--json")
    data = json.loads(out)
    assert code == 0
    assert data["fits"]
    assert [row["layer"] for row in data["trains"]] == ["b2.dw", "b2.pw2", "classifier"]
    state = data["state_bytes"]
    assert state.pop("total") == sum(state.values())
    board = data["board_bytes"]
    assert data["pool_bytes"] == board["pool"]
    assert board["sram"] == board["pool"] + board["static"] + board["stack"]
    assert data["arena_lower_bound"] <= data["arena_bytes"]
    assert data["peak"]["buffers"]
    code, out, _ = cli("plan", net, "--scheme", "last:2", "--fraction-bits", 4)
    assert code == 0
    assert f"{board['sram']:,}" in out


def test_import_writes_a_network_once(cli: RunCli, tmp_path: Path, refdata: Path) -> None:
    source, out = refdata / "mcunet-vww-r80-int8.tflite", tmp_path / "vww.net.npz"
    code, text, _ = cli("import", source, "-o", out, "--json")
    assert code == 0
    assert json.loads(text)["layers"] > 10
    assert cli("plan", out, "--scheme", "head")[0] == 0
    code, text, _ = cli("import", out, "-o", tmp_path / "again.net.npz", "--json")
    assert code == 3
    assert "already" in json.loads(text)["message"]


def test_plan_of_a_published_network_has_the_publications_count(
    cli: RunCli, tmp_path: Path, refdata: Path
) -> None:
    net = tmp_path / "fps.net.npz"
    assert cli("import", refdata / "mcunet-5fps.pkl", "-o", net)[0] == 0
    words = ("plan", net, "--scheme", "49kb", "--classes", 10)
    code, out, _ = cli(*words, "--json")
    assert code == 0
    found = json.loads(out)["published"]
    assert found["network"] == "mcunet-5fps"
    assert found["bytes"]["total"] / 1024 == pytest.approx(49.8, abs=0.0501)  # as published
    assert "As published for mcunet-5fps" in cli(*words)[1]


def test_plan_of_an_own_network_has_none(cli: RunCli, net: Path) -> None:
    assert "published" not in json.loads(cli("plan", net, "--json")[1])


def test_scheme_help_names_published_schemes_and_the_file(cli: RunCli) -> None:
    for command in ("plan", "pack", "bench"):
        out = " ".join(cli(command, "--help")[1].replace("│", " ").split())
        assert "49kb" in out
        assert '{"bias_last": 4, "weights":' in out


def test_plan_refuses_what_does_not_fit_with_numbers(cli: RunCli, net: Path) -> None:
    scheme = ("--scheme", "head")  # has nothing that could be made again
    _, out, _ = cli("plan", net, *scheme, "--json")
    needed = json.loads(out)["board_bytes"]["sram"]
    assert cli("plan", net, *scheme, "--ram", needed)[0] == 0
    code, out, _ = cli("plan", net, *scheme, "--ram", needed - 1, "--json")
    data = json.loads(out)
    assert code == 4
    assert f"{needed:,} bytes needed, {needed - 1:,} there" in data["why"]
    assert data["where"]
    assert data["hint"]


def test_plan_with_a_fresh_classifier(cli: RunCli, net: Path) -> None:
    _, out, _ = cli("plan", net, "--classes", 9, "--scheme", "head", "--json")
    assert json.loads(out)["trains"] == [{"layer": "classifier", "weights": 9 * 12, "biases": 9}]


@pytest.mark.parametrize(
    ("options", "code", "word"),
    [
        (["--scheme", "nonsense"], 3, "no such scheme"),
        (["--scheme", "last:99"], 3, "number of layers"),
        (["--fraction-bits", "3"], 3, "0, 4 or 8"),
        (["--fraction-bits", "many"], 2, "--fraction-bits"),
        (["--board", "nonsense"], 2, "unknown board"),
        (["--classes", "1"], 3, "at least 2 classes"),
    ],
)
def test_wrong_options_are_named(
    cli: RunCli, net: Path, options: list[str], code: int, word: str
) -> None:
    got, out, _ = cli("plan", net, *options, "--json")
    assert got == code
    assert word in json.loads(out)["message"]


def test_inspect_shows_networks_and_images(cli: RunCli, net: Path, tmp_path: Path) -> None:
    code, out, _ = cli("inspect", net, "--json")
    assert code == 0
    assert [layer["name"] for layer in json.loads(out)["layers"]][-1] == "classifier"
    image = tmp_path / "small.mcti"
    assert cli("pack", net, "-o", image, "--json")[0] == 0
    code, out, _ = cli("inspect", image, "--json")
    data = json.loads(out)
    assert code == 0
    assert len(data["program"]) == data["header"]["instructions"]
    assert len(data["tensors"]) == data["header"]["tensors"]
    assert data["plan"]["fraction_bits"] == 8
    for path in (net, image):
        code, out, _ = cli("inspect", path)
        assert code == 0
        assert "b2.pw2" in out


def test_damaged_image_is_refused(cli: RunCli, net: Path, tmp_path: Path) -> None:
    image = tmp_path / "small.mcti"
    cli("pack", net, "-o", image)
    data = bytearray(image.read_bytes())
    data[500] ^= 1
    image.write_bytes(data)
    code, out, _ = cli("inspect", image, "--json")
    assert code == 7
    assert "damaged" in json.loads(out)["message"]


def test_image_that_does_not_fit_is_not_written(
    cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "large.net.npz"
    save(residual_network(256, 4), path)
    image = tmp_path / "large.mcti"
    code, out, _ = cli(
        "pack", path, "--scheme", "full", "-o", image, "--board", "qemu:netduinoplus2", "--json"
    )
    assert code == 4
    assert "SRAM" in json.loads(out)["why"]
    assert not image.exists()


@pytest.mark.parametrize("command", ["pack", "pull", "quantize"])
def test_unwritable_output_leaves_nothing(
    cli: RunCli, net: Path, tmp_path: Path, command: str
) -> None:
    output = tmp_path / "absent" / "out"
    more: dict[str, list[Any]] = {
        "pack": [net],
        "pull": [tmp_path, "--net", net],
        "quantize": ["tests.networks:residual_network", "--data", f"npz:{tmp_path}/none.npz"],
    }
    before = sorted(tmp_path.iterdir())
    code, _, err = cli(command, *more[command], "-o", output)
    assert code == 3
    assert "error: " in err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("code", "kind", "word"),
    [
        ("def f(): return 1 / 0", 3, "ZeroDivisionError"),
        ("def g(): pass", 3, "AttributeError"),
        ("import torch\ndef f(): pass", 6, "pip install"),
        ("def f(:", 3, "SyntaxError"),
    ],
)
def test_model_that_cannot_be_loaded(
    cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, kind: int, word: str
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    (tmp_path / "mine.py").write_text(code)
    np.savez(tmp_path / "d.npz", x=np.zeros((2, 4), np.float32), y=[0, 1])
    words = [f"{tmp_path}/mine.py:f", "--data", f"npz:{tmp_path}/d.npz", "-o", tmp_path / "x.npz"]
    got, out, _ = cli("quantize", *words, "--json")
    data = json.loads(out)
    assert got == kind
    assert word in f"{data['why']} {data['hint']}"


def test_interrupt_has_its_own_exit_code(
    cli: RunCli, net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mcutrain.cli.plan.compile_program", interrupt)
    code, out, _ = cli("plan", net, "--json")
    assert code == 8
    assert json.loads(out)["error"] == "interrupted"


def test_a_defect_is_reported_as_one(
    cli: RunCli, net: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(*_: object, **__: object) -> None:
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr("mcutrain.cli.plan.compile_program", break_down)
    code, out, err = cli("plan", net, "--json")
    assert code == 70
    assert "ZeroDivisionError" in json.loads(out)["message"]
    assert "Traceback" in err


def test_device_that_does_not_answer_has_the_exit_code_of_the_link(
    cli: RunCli, net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silence(*_: object, **__: object) -> None:
        raise LinkError("nothing answers", where="/dev/ttyACM0")

    image = tmp_path / "small.mcti"
    cli("pack", net, "-o", image)
    data = tmp_path / "d.npz"
    np.savez(data, x=np.zeros((2, 8, 8, 3), np.float32), y=[0, 1])
    monkeypatch.setattr(evaluate_command, "open_with_image", silence)
    code, out, _ = cli("eval", image, "--data", f"npz:{data}", "--device", "x", "--json")
    assert code == 5
    assert json.loads(out)["where"] == "/dev/ttyACM0"


def test_reader_that_closes_its_end_is_no_error(net: Path) -> None:
    """`mcutrain inspect NET | head -1`"""
    command = [sys.executable, "-c", "from mcutrain.cli import main; main()"]
    with subprocess.Popen(
        [*command, "inspect", str(net), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.wait(60) == 0
        assert process.stderr.read() == b""


def test_packing_twice_gives_the_same_bytes(cli: RunCli, net: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert cli("pack", net, "-o", tmp_path / name, "--seed", 5)[0] == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert cli("pack", net, "-o", tmp_path / "c", "--seed", 6)[0] == 0
    assert (tmp_path / "a").read_bytes() != (tmp_path / "c").read_bytes()
