"""Serial ports, by pseudo terminals: raw bytes, exclusive use, clear errors."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.link_helpers import POOL, samples, small_image

from mcutrain.cli.main import main
from mcutrain.devices import open_device
from mcutrain.engine.loopback import Loopback
from mcutrain.errors import LinkError, UsageError
from mcutrain.link.serial_port import SerialPort


@pytest.fixture
def terminal() -> Iterator[tuple[int, str]]:
    """The master's file descriptor and the slave's name."""
    master, slave = os.openpty()
    name = os.ttyname(slave)
    yield master, name
    os.close(slave)
    os.close(master)


def read_all(port: SerialPort, count: int) -> bytes:
    data = b""
    deadline = time.monotonic() + 5
    while len(data) < count and time.monotonic() < deadline:
        data += port.read(0.5)
    return data


def test_t58_every_byte_value_goes_both_ways(terminal: tuple[int, str]) -> None:
    master, name = terminal
    port = SerialPort(name, 115200)
    values = bytes(range(256)) + b"\x03" * 64 + bytes(64)
    os.write(master, values)
    assert read_all(port, len(values)) == values
    port.write(values)
    assert os.read(master, 4096) == values
    assert port.read(0.01) == b""
    port.close()
    port.close()


def test_t60_a_port_in_use_says_so(terminal: tuple[int, str]) -> None:
    first = SerialPort(terminal[1], 115200)
    with pytest.raises(LinkError, match="in use") as caught:
        SerialPort(terminal[1], 115200)
    assert caught.value.where == terminal[1]
    assert caught.value.hint
    first.close()
    SerialPort(terminal[1], 115200).close()


def test_t60_an_absent_port_says_which_there_are(tmp_path: Path) -> None:
    with pytest.raises(LinkError, match="no such port") as caught:
        SerialPort(str(tmp_path / "ttyX"), 115200)
    assert "ports here:" in str(caught.value.why)


def test_a_file_is_no_port(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    with pytest.raises(LinkError, match="cannot be opened"):
        SerialPort(str(path), 115200)


def test_t60_an_unplugged_port_says_so() -> None:
    master, slave = os.openpty()
    port = SerialPort(os.ttyname(slave), 115200)
    os.close(slave)
    os.close(master)
    with pytest.raises(LinkError, match="gone"):
        port.read(1.0)
    port.close()


def test_a_program_that_prints_is_no_silent_board(
    terminal: tuple[int, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody's own sketch on the board, or the port of a sensor."""
    master, name = terminal
    ended = threading.Event()

    def talk() -> None:
        os.set_blocking(master, False)
        while not ended.wait(0.05):
            with contextlib.suppress(BlockingIOError):
                os.write(master, b"t=21.5 h=40\r\n")

    thread = threading.Thread(target=talk)
    thread.start()
    try:
        with pytest.raises(SystemExit) as caught:
            main(["save", "--device", name, "--json"])
    finally:
        ended.set()
        thread.join()
    error = json.loads(capsys.readouterr().out)
    assert caught.value.code == error["exit_code"] == 5
    assert "does not speak mcutrain's protocol" in error["message"]
    assert "t=21.5 h=40" in error["why"]
    assert error["where"] == name
    assert "mcutrain flash" in error["hint"]


def test_a_device_on_a_port_trains(terminal: tuple[int, str]) -> None:
    """The same bytes as without the port between."""
    master, name = terminal
    board = Loopback(pool_bytes=POOL)
    ended = threading.Event()

    def pump() -> None:
        os.set_blocking(master, False)
        while not ended.is_set():
            try:
                board.write(os.read(master, 4096))
            except BlockingIOError:
                time.sleep(0.0005)
            answer = board.read(0)
            while answer:
                answer = answer[os.write(master, answer) :]

    thread = threading.Thread(target=pump)
    thread.start()
    try:
        with open_device(name) as device, open_device("host") as host:
            states = []
            for each in (device, host):
                each.open(small_image())
                for sample, label in samples(3, 192):
                    each.train_step(sample, label, 0.01, 0.01)
                states.append(each.read_state())
            assert states[0] == states[1]
    finally:
        ended.set()
        thread.join()


def test_a_device_that_is_none() -> None:
    with pytest.raises(UsageError, match="unknown device"):
        open_device("hots")
    with pytest.raises(UsageError, match="unknown board"):
        open_device("qemu:none")
