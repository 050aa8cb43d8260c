"""Finding and running the programs that mcutrain needs besides Python."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from mcutrain.errors import ToolchainError

GCC = "arm-none-eabi-gcc"
OBJCOPY = "arm-none-eabi-objcopy"
QEMU = "qemu-system-arm"

_DEBIAN_PACKAGES = {
    GCC: "gcc-arm-none-eabi libnewlib-arm-none-eabi",
    OBJCOPY: "binutils-arm-none-eabi",
    QEMU: "qemu-system-arm",
}
_VERSION_TIMEOUT_S = 20.0


def find_tool(name: str) -> Path:
    """Where the program `name` is.

    Raises:
        ToolchainError: it is not on the PATH; the hint says how to install it.
    """
    found = shutil.which(name)
    if found is None:
        packages = _DEBIAN_PACKAGES.get(name, name)
        raise ToolchainError(
            f"{name} is not installed",
            where="PATH",
            hint=f"apt-get install -y --no-install-recommends {packages}",
        )
    return Path(found)


@cache
def tool_version(name: str) -> str:
    """The first line that `name --version` prints.

    Raises:
        ToolchainError: the program is missing or does not run.
    """
    return run([str(find_tool(name)), "--version"], _VERSION_TIMEOUT_S).stdout.partition("\n")[0]


def run(
    command: Sequence[str], timeout_s: float, *, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end and returns its output; a failing exit code is an error.

    Raises:
        ToolchainError: the program failed (with the end of what it said) or took too long.
    """
    name = Path(command[0]).name
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, check=False, cwd=cwd
        )
    except subprocess.TimeoutExpired:
        raise ToolchainError(f"{name} did not end within {timeout_s:.0f} s") from None
    if done.returncode != 0:
        raise ToolchainError(
            f"{name} failed with exit code {done.returncode}",
            where=str(command[-1]),
            why=(done.stderr or done.stdout).strip()[-4000:],
        )
    return done
