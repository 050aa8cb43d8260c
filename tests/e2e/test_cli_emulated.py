"""Commands that boot the firmware: bench, train, and that planned, linked and used SRAM agree."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.networks import residual_network

import mcutrain.data
from mcutrain.boards import budgets
from mcutrain.boards.build import build_firmware
from mcutrain.boards.table import BOARDS, get_board
from mcutrain.cli.emulated import bench as boot_exact
from mcutrain.cli.main import main
from mcutrain.cli.pack import synthetic_samples
from mcutrain.cli.work import Settings
from mcutrain.compile import compile_program
from mcutrain.devices import open_device
from mcutrain.image.pack import pack
from mcutrain.image.unpack import unpack
from mcutrain.ir.serialize import save
from mcutrain.plan.scheme import resolve_scheme
from mcutrain.trainer import Checkpoint, encoder, inputs_of, train

pytestmark = pytest.mark.qemu
BOARD_IDS = sorted(BOARDS)
NETDUINO = "qemu:netduinoplus2"


def ask(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        main([*map(str, arguments), "--json"])
    out = capsys.readouterr().out
    assert (caught.value.code or 0) == code, out
    data: dict[str, Any] = json.loads(out)
    return data


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "small.net.npz"
    save(residual_network(16, 4), path)
    return path


@pytest.mark.parametrize("board_id", BOARD_IDS)
def test_checked_in_sizes_are_the_linkers(board_id: str) -> None:
    board = get_board(board_id)
    budget, sizes = budgets.budget_of(board), build_firmware(board).sizes
    mend = "the firmware has changed: python -m mcutrain.boards.budgets"
    assert budget.static_bytes == sizes.data + sizes.bss, mend
    assert sizes.flash_bytes <= budget.flash_bytes, mend
    assert sizes.stack == board.stack_bytes
    assert sizes.ram_bytes == board.ram.size


@pytest.mark.parametrize("scheme", ["head", "last:3", "full"])
@pytest.mark.parametrize("board_id", [NETDUINO, "qemu:mps2-an385"])
def test_planned_sram_is_what_the_linker_gives_and_the_device_uses(
    scheme: str, board_id: str
) -> None:
    board = get_board(board_id)
    graph = residual_network(16, 4)
    compiled = compile_program(graph, resolve_scheme(graph, scheme))
    image = pack(compiled)
    planned = budgets.fit(board, compiled.pool_bytes, len(image))
    samples = synthetic_samples(graph, 4, 0)
    with boot_exact(board, image, compiled.pool_bytes, [s for s, _ in samples]) as booted:
        for offset, label in zip(booted.samples, (1, 2, 3, 0), strict=True):
            booted.session.sample_from_memory(offset)
            booted.session.step(label, 0.01, 0.01)
        stats, sizes = booted.session.stats(), booted.firmware.sizes
    assert planned.sram == sizes.ram_bytes
    assert planned.pool == sizes.pool == stats.pool_planned == stats.pool_used
    assert 0 < stats.stack_used < planned.stack == stats.stack_bytes
    assert stats.guard_changed == 0


def test_bench_counts_the_same_twice_within_its_time(
    capsys: pytest.CaptureFixture[str], net: Path
) -> None:
    words = ["bench", net, "--scheme", "last:3", "--classes", 5, "--device", NETDUINO]
    first = ask(capsys, *words)
    began = time.monotonic()
    second = ask(capsys, *words)
    assert time.monotonic() - began < 50
    assert first == second
    assert first["classes"] == 5
    assert first["ram_bytes"] == sum(first["ram"].values())
    assert first["stack_bytes"] == first["ram"]["stack"]
    assert first["flash_bytes"] == first["firmware_flash_bytes"] + first["image_bytes"]
    assert 0 < first["text_bytes"] <= first["firmware_flash_bytes"]
    assert 0 < first["instructions_forward"] < first["instructions_step"]
    assert min(first["steps"]) <= first["instructions_step"] <= max(first["steps"])


def test_bench_accounts_for_every_instruction(
    capsys: pytest.CaptureFixture[str], net: Path
) -> None:
    data = ask(capsys, "bench", net, "--scheme", "full", "--fraction-bits", 4)
    spent = sum(row["instructions"] for row in data["layers"])
    # The profile is of the last step; what is not in an instruction is the executor's own.
    assert 0.9 * data["steps"][-1] < spent <= data["steps"][-1] * 1.01
    forward = [r for r in data["layers"] if r["phase"] == "forward"]
    plan = ask(capsys, "plan", net, "--scheme", "full", "--fraction-bits", 4)
    assert sum(r["macs"] for r in forward) == plan["macs_forward"]
    assert data["macs_step"] == plan["macs_forward"] + plan["macs_backward"]
    assert data["ram"]["pool"] == plan["pool_bytes"]
    assert data["ram"]["static"] == plan["board_bytes"]["static"]
    for row in data["layers"]:
        assert row["instructions"] > 0
        if row["macs"]:
            ratio = row["macs"] / row["instructions"]
            assert row["macs_per_instruction"] == pytest.approx(ratio, abs=1e-4)
        if row["limit"]:
            share = row["limit"] / row["instructions"]
            assert row["share_of_limit"] == pytest.approx(share, abs=1e-4)
            assert share < 1


def test_bench_refuses_what_does_not_fit(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    net = tmp_path / "large.net.npz"
    save(residual_network(256, 4), net)
    data = ask(capsys, "bench", net, "--scheme", "full", code=4)
    assert "SRAM" in data["why"]
    assert data["where"]


def test_training_on_the_board_gives_the_bytes_of_the_host(
    capsys: pytest.CaptureFixture[str], net: Path, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, (40, 16, 16, 3)).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=x, y=np.arange(40) % 4)
    data, image = f"npz:{tmp_path}/d.npz", tmp_path / "small.mcti"
    ask(capsys, "pack", net, "--calibrate", data, "-o", image)
    states, logs = [], []
    for device in ("host", NETDUINO):
        run = tmp_path / device.replace(":", "-")
        words = ["--data", data, "--test", f"{data}?count=8", "--steps", 20, "--out", run]
        info = ask(capsys, "train", image, *words, "--device", device)
        assert info["stats"]["guard_changed"] == 0
        states.append((run / "state-20.bin").read_bytes())
        lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
        logs.append([(r["loss_bits"], r["predicted"], r["saturated"]) for r in lines])
    assert states[0] == states[1]
    assert logs[0] == logs[1]


def test_run_may_change_its_device_on_the_way(
    capsys: pytest.CaptureFixture[str], net: Path, tmp_path: Path
) -> None:
    x = np.random.default_rng(1).normal(0, 1, (30, 16, 16, 3)).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=x, y=np.arange(30) % 4)
    data, image = f"npz:{tmp_path}/d.npz", tmp_path / "small.mcti"
    ask(capsys, "pack", net, "-o", image)
    words = ["train", image, "--data", data, "--steps", 24, "--out"]
    ask(capsys, *words, tmp_path / "whole")
    ask(capsys, *words, tmp_path / "part")
    part = tmp_path / "part"
    # As if it had been stopped after step 9.
    content = image.read_bytes()
    settings = Settings(**json.loads((part / "run.json").read_text())["settings"])
    samples = mcutrain.data.open(data)
    encode = encoder(unpack(content), samples)
    with open_device("host") as session:
        session.open(content)
        session.reset(settings.seed)
        steps = train(
            session, samples, inputs_of(samples, encode), settings.schedule(), seed=settings.seed
        )
        assert len(list(islice(steps, 9))) == 9
        Checkpoint(9, session.read_state()).save(part)
    ask(capsys, "train", "--resume", "--out", part, "--device", NETDUINO)
    whole = tmp_path / "whole" / "state-24.bin"
    assert (part / "state-24.bin").read_bytes() == whole.read_bytes()


def long_run(capsys: pytest.CaptureFixture[str], net: Path, run: Path) -> subprocess.Popen[str]:
    """A run on the emulated board that has done a few steps, in a process group of its own."""
    x = np.random.default_rng(1).normal(0, 1, (30, 16, 16, 3)).astype(np.float32)
    np.savez(run.with_name("d.npz"), x=x, y=np.arange(30) % 4)
    image = run.with_name("small.mcti")
    ask(capsys, "pack", net, "-o", image)
    words = ["train", image, "--data", f"npz:{run.with_name('d.npz')}", "--steps", 5000]
    words += ["--out", run, "--device", NETDUINO, "--json"]
    code = "from mcutrain.cli import main; main()"
    command = [sys.executable, "-c", code, *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=0)
    log = run / "log.jsonl"
    deadline = time.monotonic() + 120
    while not log.is_file() or log.read_bytes().count(b"\n") < 5:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process


@pytest.mark.skipif(sys.platform != "linux", reason="finds the emulator in /proc")
def test_run_whose_board_dies_says_how_to_go_on(
    capsys: pytest.CaptureFixture[str], net: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    with long_run(capsys, net, run) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        for pid in children.split():
            os.kill(int(pid), signal.SIGKILL)
        assert process.stdout is not None
        error = json.loads(process.stdout.read())
    assert process.returncode == error["exit_code"] == 5
    assert "emulator ended" in error["message"]
    assert f"mcutrain train --resume --out {run} --device {NETDUINO}" in error["hint"]


def test_ctrl_c_in_a_terminal_reaches_only_python(
    capsys: pytest.CaptureFixture[str], net: Path, tmp_path: Path
) -> None:
    """The terminal signals the whole process group; the board must live until its state is read."""
    run = tmp_path / "run"
    with long_run(capsys, net, run) as process:
        os.killpg(process.pid, signal.SIGINT)
        assert process.stdout is not None
        error = json.loads(process.stdout.read())
    assert process.returncode == error["exit_code"] == 8
    done = json.loads((run / "checkpoint.json").read_text())["step"]
    assert done == (run / "log.jsonl").read_bytes().count(b"\n") >= 5
