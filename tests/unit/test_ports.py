"""Ports by USB id, ports that vanish and come back, programs that hold them (complaint T60)."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from tests.link_helpers import POOL, samples, small_image
from tests.networks import residual_network
from tests.pty_board import Listed, PtyBoard, list_ports_as
from typer.main import get_command

from mcutrain.cli import flash as flash_command
from mcutrain.cli.common import rate_of
from mcutrain.cli.main import app, main
from mcutrain.devices import open_device
from mcutrain.engine.loopback import Loopback
from mcutrain.errors import LinkError, UsageError
from mcutrain.ir.serialize import save
from mcutrain.link import wire
from mcutrain.link.framing import Deframer, Frame
from mcutrain.link.ports import find_port, holders
from mcutrain.link.serial_port import SerialPort
from mcutrain.link.session import Session
from mcutrain.link.speed import FASTEST
from mcutrain.trainer import Checkpoint

STLINK = Listed("/dev/ttyACM0", 0x0483, 0x374B, "066F", "STLink")
OTHER = Listed("/dev/ttyACM7", 0x0483, 0x374B, "0700", "STLink")
ADAPTER = Listed("/dev/ttyUSB0", 0x0403, 0x6001, None, "FT232R")
MODEM = Listed("/dev/ttyS0")


def test_t60_auto_takes_the_only_usb_port(monkeypatch: pytest.MonkeyPatch) -> None:
    list_ports_as(monkeypatch, MODEM, STLINK)
    assert find_port("auto").name == "/dev/ttyACM0"
    list_ports_as(monkeypatch, MODEM)
    with pytest.raises(LinkError, match="no such board") as caught:
        find_port("auto")
    assert "/dev/ttyS0" in str(caught.value.why)
    list_ports_as(monkeypatch, STLINK, ADAPTER)
    with pytest.raises(UsageError, match="more than one board") as usage:
        find_port("auto")
    assert usage.value.hint == "name one: --device usb:0483:374b:066F"
    assert "usb:0403:6001 (/dev/ttyUSB0, FT232R)" in str(usage.value.why)


def test_t60_a_port_by_its_usb_id(monkeypatch: pytest.MonkeyPatch) -> None:
    list_ports_as(monkeypatch, STLINK, OTHER, ADAPTER, MODEM)
    assert find_port("usb:0403:6001").name == "/dev/ttyUSB0"
    assert find_port("usb:0483:374B:0700").name == "/dev/ttyACM7"
    with pytest.raises(UsageError, match="more than one port fits"):
        find_port("usb:0483:374b")
    with pytest.raises(LinkError, match="no such board"):
        find_port("usb:0483:374b:0001")
    for name in ("usb:", "usb:0483", "usb:wx:yz"):
        with pytest.raises(UsageError, match="does not name a USB port"):
            find_port(name)


def test_t60_a_link_to_a_port_is_that_port(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = tmp_path / "ttyACM3"
    real.touch()
    link = tmp_path / "by-id"
    link.symlink_to(real)
    list_ports_as(monkeypatch, Listed(str(real), 1, 2, "x"))
    assert str(find_port(str(link)).usb) == "usb:0001:0002:x"


def train(session: Session, count: int = 3) -> bytes:
    for sample, label in samples(count, 192):
        session.train_step(sample, label, 0.01, 0.01)
    return session.read_state()


@pytest.mark.parametrize("name", ["auto", "usb:0483:374b", "usb:0483:374b:SN0", "auto?dtr=off"])
def test_a_board_trains_by_any_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with PtyBoard() as board, open_device("host") as host:
        list_ports_as(monkeypatch, board)
        with open_device(name, baud=460_800) as device:
            assert device.baud == board.board.baud == 460_800
            states = []
            for each in (device, host):
                each.open(small_image())
                states.append(train(each))
    assert states[0] == states[1]
    assert board.board.baud == 115_200


def test_t60_a_port_that_comes_back_under_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The board kept its power: the run goes on as if nothing had been."""
    with PtyBoard() as board, open_device("host") as host:
        list_ports_as(monkeypatch, board)
        port = SerialPort("usb:0483:374b:SN0")
        device = Session(port, "board")
        for each in (device, host):
            each.open(small_image())
        first = port.port
        board.unplug()
        others = []

        def back() -> None:
            others.extend(os.openpty())  # takes the name that the port had
            board.plug()

        timer = threading.Timer(0.5, back)
        timer.start()
        assert train(device) == train(host)
        assert port.port == board.name != first
        timer.join()
        device.close()
        for other in others:
            os.close(other)


def test_t60_a_board_that_lost_its_power_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with PtyBoard() as board:
        list_ports_as(monkeypatch, board)
        device = open_device("auto")
        device.open(small_image())
        train(device, 2)
        board.unplug()
        board.board.restart()
        board.plug()
        with pytest.raises(LinkError, match="restarted at step 2") as caught:
            train(device)
        assert caught.value.hint
        device.open(small_image())
        train(device, 1)
        device.close()


def test_t60_a_port_that_does_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    with PtyBoard() as board:
        list_ports_as(monkeypatch, board)
        device = Session(SerialPort("auto", return_s=0.5), "auto")
        board.unplug()
        began = time.monotonic()
        with pytest.raises(LinkError, match="port is gone") as caught:
            device.open(small_image())
        assert 0.4 < time.monotonic() - began < 5
        assert "usb:0483:374b:SN0" in str(caught.value.why)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc")
def test_t60_a_port_in_use_says_by_whom() -> None:
    master, slave = os.openpty()
    name = os.ttyname(slave)
    code = f"import serial,sys; p=serial.Serial({name!r}, exclusive=True); print(flush=True)"
    other = subprocess.Popen(
        [sys.executable, "-c", code + "; sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert other.stdin is not None
    assert other.stdout is not None
    other.stdout.readline()
    try:
        with pytest.raises(LinkError, match="in use") as caught:
            SerialPort(name)
        assert f"(process {other.pid}) has it open" in str(caught.value.why)
        assert "python" in str(holders(name))
    finally:
        other.stdin.close()
        other.stdout.close()
        other.wait()
        os.close(slave)
        os.close(master)


def test_what_baud_takes() -> None:
    assert rate_of("max") == FASTEST
    assert rate_of("921600") == 921_600
    for text in ("", "fast", "0", "-5", "99999999999"):
        with pytest.raises(UsageError, match="is no rate"):
            rate_of(text)


def test_every_command_that_takes_a_port_takes_a_rate() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    rates = {}
    for name, command in commands.items():
        options = {option: p for p in command.params for option in p.opts}
        if "--device" in options and name not in ("bench", "demo"):  # of emulated boards
            rates[name] = options["--baud"].help
    assert {"eval", "flash", "pull", "save", "stream", "train"} == set(rates)
    assert len(set(rates.values())) == 1


class _Rates(Loopback):
    """Notes the rates that it is asked for."""

    def __init__(self) -> None:
        super().__init__(pool_bytes=POOL)
        self.asked: list[int] = []

    def write(self, data: bytes) -> None:
        for frame in Deframer().feed(data):
            if isinstance(frame, Frame) and frame.type == wire.SPEED.type:
                self.asked.append(int(wire.SPEED.request.unpack(frame.payload)["baud"]))
        super().write(data)


def test_pull_and_flash_agree_on_a_rate(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(residual_network(), tmp_path / "n.net.npz")
    (tmp_path / "i.mcti").write_bytes(small_image())
    monkeypatch.setattr(flash_command, "write", lambda *_: "openocd")
    monkeypatch.setattr(flash_command, "build_for", lambda *_: None)
    monkeypatch.setattr(flash_command, "describe", lambda _: {})
    monkeypatch.setattr(flash_command, "verify", lambda session, *_: session.stats())
    pull: list[object] = ["pull", tmp_path / "i.mcti", "--net", tmp_path / "n.net.npz"]
    pull += ["-o", tmp_path / "t.net.npz"]
    for words in (pull, ["flash", "--board", "nucleo_f446re"]):
        rates = _Rates()
        with PtyBoard(rates) as board:
            list_ports_as(monkeypatch, board)
            with Session(SerialPort(board.name), "port") as session:
                session.open(small_image())
            for more, asked in ((["--baud", "460800"], {460_800, 0}), ([], set())):
                rates.asked.clear()
                with pytest.raises(SystemExit) as caught:
                    main([*map(str, words), "--device", "auto", *more, "--json"])
                assert caught.value.code == 0, capsys.readouterr().out
                assert set(rates.asked) == asked


def test_a_run_over_a_port_ends_with_the_bytes_of_the_host(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`mcutrain train` at the highest rate, each next sample sent while a step runs."""
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, (12, 8, 8, 3)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=x, y=rng.integers(0, 4, 12))
    (tmp_path / "small.mcti").write_bytes(small_image())
    flags: list[int] = []

    class Watched(Loopback):
        def write(self, data: bytes) -> None:
            for frame in Deframer().feed(data):
                if isinstance(frame, Frame) and frame.type == wire.STEP.type:
                    flags.append(int(wire.STEP.request.unpack(frame.payload)["flags"]))
            super().write(data)

    states = []
    with PtyBoard(Watched(pool_bytes=POOL)) as board:
        list_ports_as(monkeypatch, board)
        for device in ("host", "usb:0483:374b:SN0"):
            out = tmp_path / device.replace(":", "-")
            arguments = ["train", tmp_path / "small.mcti", "--data", f"npz:{tmp_path}/data.npz"]
            arguments += ["--steps", "20", "--device", device, "--baud", "max", "--out", out]
            with pytest.raises(SystemExit) as caught:
                main([*map(str, arguments), "--json"])
            assert caught.value.code == 0, capsys.readouterr().out
            states.append(Checkpoint.load(out).state)
    assert states[0] == states[1]
    # The frames may come in pieces, and none of them twice.
    assert flags.count(wire.RunFlag.RECEIVE) > 10
