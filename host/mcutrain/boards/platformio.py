"""The same firmware built by PlatformIO, offline, to hold it against our own build."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from mcutrain.boards.recipe import ROOT
from mcutrain.boards.sizes import Sizes, read_sizes
from mcutrain.boards.table import Board
from mcutrain.errors import ToolchainError

OVERLAY = "pio/offline.ini"
NATIVE = "native"
_TIMEOUT_S = 600.0


def environment(board: Board) -> str:
    """The board's environment in platformio.ini."""
    return board.id.removeprefix("qemu:")


def run_pio(arguments: Sequence[str], build_dir: Path) -> str:
    """Runs `pio` in the checkout with local packages and returns what it says.

    Raises:
        ToolchainError: PlatformIO is missing, or failed.
    """
    pio = Path(sys.executable).with_name("pio")
    if not pio.is_file():
        raise ToolchainError(
            "PlatformIO is not installed beside this Python",
            where=str(pio),
            hint="make setup-test",
        )
    settings = {
        "MCUTRAIN_PIO_OVERLAY": OVERLAY,
        "PLATFORMIO_BUILD_DIR": str(build_dir),
        "PLATFORMIO_SETTING_ENABLE_TELEMETRY": "no",
        "PATH": f"{pio.parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }
    build_dir.parent.mkdir(parents=True, exist_ok=True)
    with build_dir.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one run at a time: they share what they have built
        done = subprocess.run(
            [str(pio), *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            env={**os.environ, **settings},
            timeout=_TIMEOUT_S,
        )
    if done.returncode != 0:
        raise ToolchainError(
            f"pio failed with exit code {done.returncode}",
            where=" ".join(arguments),
            why=(done.stdout + done.stderr).strip()[-4000:],
        )
    return done.stdout


def build(boards: Sequence[Board], build_dir: Path, *, native: bool = False) -> dict[str, Sizes]:
    """Builds the environments of some boards; sizes by the id of the board.

    Args:
        boards: rows of the board table.
        build_dir: where PlatformIO puts what it makes.
        native: build the program for this machine, too.

    Raises:
        ToolchainError: as `run_pio`.
    """
    wanted = [*([NATIVE] if native else []), *map(environment, boards)]
    run_pio(["run", *(word for name in wanted for word in ("-e", name))], build_dir)
    return {b.id: read_sizes(build_dir / environment(b) / "firmware.elf") for b in boards}
