"""`mcutrain doctor`: what is there, what is missing, and how to get it."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import sys
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import typer
from rich.markup import escape

from mcutrain.boards.flash import TOOLS
from mcutrain.boards.table import BOARDS
from mcutrain.boards.toolchain import GCC, QEMU, find_tool, tool_version
from mcutrain.boards.toolchain import run as run_tool
from mcutrain.cli.common import OUT, ROOT, Json, reference_data, show, table
from mcutrain.data import fashion
from mcutrain.errors import McutrainError, ToolchainError
from mcutrain.link.ports import ports

_TIMEOUT_S = 60.0
DEMO_DATA = "demo data"
# What mcutrain imports from each package, with the extra that brings it; "" is always needed.
_PACKAGES = (
    ("numpy", ""),
    ("cffi", ""),
    ("pyserial", ""),
    ("pyelftools", ""),
    ("pillow", "images"),
    ("matplotlib", "report"),
    ("torch", "torch"),
    ("ortools", "solver"),
)


@dataclass(frozen=True)
class Check:
    """One line of the report. `needed`: without it some command that needs no extra fails."""

    name: str
    ok: bool
    needed: bool
    found: str
    hint: str = ""


def run(as_json: Json = False) -> None:
    """Check Python, compilers, emulator, packages, data and serial ports.

    Nothing is changed. Exit code 6 if something is missing that commands without extras need.

    Example: mcutrain doctor
    """
    checks = list(all_checks())
    lacking = [c for c in checks if c.needed and not c.ok]
    data = {"ok": not lacking, "checks": [asdict(c) for c in checks]}
    show(as_json, data, lambda: _draw(checks))
    if lacking:
        raise typer.Exit(ToolchainError.exit_code)


def all_checks() -> Iterator[Check]:
    """Every check, in the order in which a set-up is built."""
    yield _python()
    for name, extra in _PACKAGES:
        yield _package(name, extra)
    yield _host_compiler()
    yield _tool(GCC)
    yield from _emulator()
    yield _tried("host engine", _engine, "make engine", needed=True)
    yield _demo_data()
    yield _flashers()
    yield _reference_data()
    yield _serial_ports()


def _python() -> Check:
    good = sys.version_info >= (3, 11)
    return Check(
        "Python", good, True, f"{platform.python_version()}, {sys.executable}", "make setup"
    )


def _package(name: str, extra: str) -> Check:
    hint = f"pip install 'mcutrain[{extra}]'" if extra else "make setup"
    try:
        found = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Check(name, False, not extra, "not installed", hint)
    return Check(name, True, not extra, found, hint)


def _host_compiler() -> Check:
    hint = "apt-get install -y --no-install-recommends gcc libc6-dev python3-dev"
    headers = Path(sysconfig.get_path("include"), "Python.h")
    if shutil.which("gcc") is None:
        return Check("C compiler", False, True, "no gcc on the PATH", hint)
    if not headers.is_file():
        return Check("C compiler", False, True, f"{headers} is missing", hint)
    return _tried("C compiler", lambda: tool_version("gcc"), hint, needed=True)


def _tool(name: str) -> Check:
    try:
        return Check(name, True, True, f"{tool_version(name)} ({find_tool(name)})")
    except McutrainError as error:
        return Check(name, False, True, error.message, error.hint or "make setup")


def _emulator() -> Iterator[Check]:
    qemu = _tool(QEMU)
    yield qemu
    if not qemu.ok:
        return
    listed = run_tool([str(find_tool(QEMU)), "-M", "help"], _TIMEOUT_S).stdout
    machines = {line.split()[0] for line in listed.splitlines() if line.strip()}
    wanted = [b.emulation.machine for b in BOARDS.values() if b.emulation is not None]
    lacking = [name for name in wanted if name not in machines]
    found = ", ".join(lacking or wanted) + (" unknown to this QEMU" if lacking else "")
    yield Check("machines", not lacking, True, found, "install QEMU 7.2 or newer")


def _engine() -> str:
    from mcutrain.engine import build

    return str(build.build())


def _demo_data() -> Check:
    there = fashion.DIRECTORY.is_dir()
    found = str(fashion.DIRECTORY) if there else "no Fashion-MNIST: `mcutrain demo` needs it"
    hint = "apt-get install -y --no-install-recommends dataset-fashion-mnist"
    return Check(DEMO_DATA, there, False, found, hint)


def _reference_data() -> Check:
    path = reference_data()
    found = str(path) if path else "absent: tests that compare with published weights are skipped"
    return Check("reference data", path is not None, False, found, "set MCUTRAIN_REFDATA")


def _flashers() -> Check:
    there = [tool.name for tool in TOOLS if shutil.which(tool.name) is not None]
    hint = "; ".join(f"{tool.install} ({tool.how})" for tool in TOOLS)
    found = ", ".join(there) or "none: real boards cannot be flashed"
    return Check("flashing programs", bool(there), False, found, hint)


def _serial_ports() -> Check:
    boards = [str(port) for port in ports() if port.usb is not None]
    hint = "connect a board; on Linux, your user must be in the group dialout"
    return Check("serial ports", bool(boards), False, ", ".join(boards) or "no board", hint)


def _tried(name: str, attempt: Callable[[], str], hint: str, *, needed: bool) -> Check:
    try:
        return Check(name, True, needed, attempt())
    except McutrainError as error:
        return Check(name, False, needed, f"{error.message}: {error.why}", error.hint or hint)


def _draw(checks: list[Check]) -> None:
    grid = table("mcutrain doctor", "what", "state", "found", "how to get it")
    for check in checks:
        state = (
            "[green]ok[/]" if check.ok else "[red]missing[/]" if check.needed else "[yellow]no[/]"
        )
        grid.add_row(check.name, state, escape(check.found), "" if check.ok else escape(check.hint))
    OUT.print(grid)
    OUT.print(f"checkout: {ROOT}", highlight=False, markup=False)
