"""The firmware app behind a pseudo terminal that can be unplugged, and what lists such ports."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import pytest
from tests.link_helpers import POOL

from mcutrain.engine.loopback import Loopback


class PtyBoard:
    """A board on a port; `name` is the port's name as of now, "" while it is unplugged."""

    def __init__(self, board: Loopback | None = None) -> None:
        self.board = board or Loopback(pool_bytes=POOL)
        self.name = ""
        self._lock = threading.Lock()
        self._ends: tuple[int, int] | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._pump)

    def __enter__(self) -> Self:
        self.plug()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        self.unplug()

    def plug(self) -> None:
        with self._lock:
            master, slave = os.openpty()
            os.set_blocking(master, False)
            self._ends = master, slave
            self.name = os.ttyname(slave)

    def unplug(self) -> None:
        with self._lock:
            self.name = ""
            for end in self._ends or ():
                os.close(end)
            self._ends = None

    def _pump(self) -> None:
        while not self._ended.is_set():
            with self._lock:
                idle = self._ends is None or not self._move(self._ends[0])
            if idle:
                time.sleep(0.0005)

    def _move(self, master: int) -> bool:
        try:
            self.board.write(os.read(master, 4096))
        except BlockingIOError:
            return False
        answer = self.board.read(0)
        while answer:
            answer = answer[os.write(master, answer) :]
        return True


@dataclass
class Listed:
    """What pyserial says of a port."""

    device: str
    vid: int | None = None
    pid: int | None = None
    serial_number: str | None = None
    description: str = "n/a"


def list_ports_as(monkeypatch: pytest.MonkeyPatch, *found: Listed | PtyBoard) -> None:
    """pyserial lists these; boards with ids 0483:374b and their number as the serial number."""

    def comports() -> list[Listed]:
        listed = []
        for number, port in enumerate(found):
            if isinstance(port, Listed):
                listed.append(port)
            elif port.name:
                listed.append(Listed(port.name, 0x0483, 0x374B, f"SN{number}", "STM32 STLink"))
        return listed

    monkeypatch.setattr("serial.tools.list_ports.comports", comports)
