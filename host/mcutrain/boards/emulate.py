"""A board inside QEMU, behind a byte stream with the methods every transport here has.

A transport has `write(data) -> None`, `read(timeout_s) -> bytes` (whatever is there, b"" on
timeout) and `close() -> None`.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from mcutrain.boards.table import Board, Emulation
from mcutrain.boards.toolchain import QEMU, find_tool
from mcutrain.errors import FitError, InputError, LinkError, UsageError

_READ_BYTES = 65536
_WRITE_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 2.0


@dataclass(frozen=True)
class Preload:
    """Bytes of a file that lie in memory before the board boots."""

    path: Path
    address: int


def image_preload(board: Board, path: Path, offset: int = 0) -> Preload:
    """Puts a file at `offset` bytes into the board's image partition.

    Raises:
        InputError: there is no such file.
        FitError: it does not fit into the partition.
    """
    if not path.is_file():
        raise InputError("no such file", where=str(path))
    size = path.stat().st_size
    if offset + size > board.image.size:
        raise FitError(
            "the file does not fit into the image partition",
            where=str(path),
            why=f"{size} bytes at offset {offset}; {board.id} has {board.image.size}",
        )
    return Preload(path, board.image.base + offset)


def _die_with_parent() -> list[str]:
    """A wrapper that replaces itself by the emulator and ends it if Python is killed.

    The shell looks whether Python was killed before setpriv asked for the signal.
    """
    setpriv = shutil.which("setpriv")  # Linux; elsewhere only close() ends the emulator
    if setpriv is None:
        return []
    still_there = '[ "$PPID" = "$0" ] && exec "$@"'
    return [setpriv, "--pdeathsig", "KILL", "/bin/sh", "-c", still_there, str(os.getpid())]


def _command(emulation: Emulation, elf: Path, preloads: Sequence[Preload], fd: int) -> list[str]:
    command = [*_die_with_parent(), str(find_tool(QEMU)), "-M", emulation.machine]
    command += ["-display", "none", "-monitor", "none", "-kernel", str(elf)]
    command += ["-icount", f"shift={emulation.icount_shift}"]
    command += ["-chardev", f"socket,id=link,fd={fd}", "-serial", "chardev:link"]
    for preload in preloads:
        path = str(preload.path.resolve()).replace(",", ",,")  # QEMU's escape of a comma
        command += ["-device", f"loader,file={path},addr={preload.address:#x},force-raw=on"]
    return command


class EmulatedBoard:
    """A running emulator and the serial line of its board.

    The line is one end of a socket pair that QEMU inherits: no port to collide on, and nothing the
    board says at boot is lost. Start it from a thread that lives at least as long: Linux ends the
    emulator together with the thread that started it.

    Args:
        board: a row of the board table with an emulation.
        elf: the linked firmware.
        preloads: files in memory before boot, see `image_preload`.

    Raises:
        UsageError: the board cannot be emulated.
        ToolchainError: QEMU is not installed.
        LinkError: (from any method) the emulator ended; its own words are in the message.
    """

    def __init__(self, board: Board, elf: Path, preloads: Sequence[Preload] = ()) -> None:
        if board.emulation is None:
            raise UsageError("this board cannot be emulated", where=board.id)
        self.board = board
        self._received = bytearray()
        self._socket, theirs = socket.socketpair()
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - until close()
        try:
            self._process = subprocess.Popen(
                _command(board.emulation, elf, preloads, theirs.fileno()),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                pass_fds=(theirs.fileno(),),
                process_group=0,  # Ctrl-C is for Python, which may still want the board's state
            )
        except BaseException:
            self._socket.close()
            self._stderr.close()
            raise
        finally:
            theirs.close()
        self._socket.setblocking(False)

    @property
    def pid(self) -> int:
        """Process id of the emulator."""
        return self._process.pid

    def stderr(self) -> str:
        """What the emulator has complained about so far."""
        size = os.fstat(self._stderr.fileno()).st_size
        return os.pread(self._stderr.fileno(), size, 0).decode(errors="replace").strip()

    def write(self, data: bytes) -> None:
        """Sends all of `data`; keeps what arrives meanwhile, so that neither side blocks.

        Raises:
            LinkError: the emulator ended, or took none of it for 60 s.
        """
        rest = memoryview(data)
        while rest:
            readable, writable, _ = select.select(
                [self._socket], [self._socket], [], _WRITE_TIMEOUT_S
            )
            if not readable and not writable:
                raise LinkError(
                    "the emulated board takes no data",
                    where=self.board.id,
                    why=f"{len(rest)} of {len(data)} bytes unsent after {_WRITE_TIMEOUT_S:.0f} s",
                )
            if readable:
                self._receive()
            if writable:
                rest = rest[self._send(rest) :]

    def read(self, timeout_s: float) -> bytes:
        """Returns the bytes that have arrived, waiting at most `timeout_s` for the first one.

        Raises:
            LinkError: the emulator ended.
        """
        if not self._received and select.select([self._socket], [], [], timeout_s)[0]:
            self._receive()
        data = bytes(self._received)
        self._received.clear()
        return data

    def close(self) -> None:
        """Ends the emulator; a second call does nothing."""
        self._socket.close()
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._stderr.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _send(self, data: memoryview) -> int:
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            raise self._ended() from None

    def _receive(self) -> None:
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            raise self._ended()
        self._received += data

    def _ended(self) -> LinkError:
        """QEMU closed its end: it is about to exit, so its code is worth a short wait."""
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, deadline - time.monotonic()))
        return LinkError(
            "the emulator ended unexpectedly",
            where=self.board.id,
            why=f"exit code {self._process.poll()}; it said: {self.stderr() or 'nothing'}",
        )
