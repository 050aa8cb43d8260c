"""What every test may use: reference data, and skips that say why.

A test marked `torch` or `qemu` is skipped where the tool is missing. `make test` sets
MCUTRAIN_REQUIRE_ALL=1: then a missing tool ends the run at once, so that a green run means that
everything ran (tests that import an extra with `pytest.importorskip` included).
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# What a marker needs: (modules, programs).
NEEDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "torch": (("torch",), ()),
    "qemu": ((), ("qemu-system-arm", "arm-none-eabi-gcc")),
}
# Needed by tests without a marker of their own.
OTHER_MODULES = ("ai_edge_litert", "hypothesis", "matplotlib", "ortools", "PIL", "platformio")


def missing_for(marker: str) -> list[str]:
    """Names of the modules and programs that tests with this marker lack here."""
    modules, programs = NEEDS[marker]
    return [m for m in modules if importlib.util.find_spec(m) is None] + [
        p for p in programs if shutil.which(p) is None
    ]


def pytest_configure(config: pytest.Config) -> None:
    # A shell ignores these for what it runs in the background, nohup too, and every process that a
    # test starts would inherit that; tests send them.
    for number, usual in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, usual)
    if os.environ.get("MCUTRAIN_REQUIRE_ALL") != "1":
        return
    missing = [name for marker in NEEDS for name in missing_for(marker)]
    missing += [m for m in OTHER_MODULES if importlib.util.find_spec(m) is None]
    if missing:
        raise pytest.UsageError(
            f"MCUTRAIN_REQUIRE_ALL=1, but missing here: {', '.join(missing)}; run `make setup-test`"
        )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that use the `refdata` fixture, so that `-m refdata` selects them."""
    for item in items:
        if "refdata" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.refdata)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in NEEDS:
        if item.get_closest_marker(marker) is not None:
            missing = missing_for(marker)
            if missing:
                pytest.skip(f"{', '.join(missing)} not found; `make setup-test` installs it")
    if item.get_closest_marker("board") is not None and not os.environ.get("MCUTRAIN_BOARD"):
        pytest.skip("no board: set MCUTRAIN_BOARD to its serial port")


@pytest.fixture(scope="session")
def refdata() -> Path:
    """The folder with published weights and data, which are not part of this project."""
    named = os.environ.get("MCUTRAIN_REFDATA")
    path = Path(named) if named else ROOT.parent / "shared" / "refdata"
    if path.is_dir():
        return path
    if named:
        pytest.fail(f"MCUTRAIN_REFDATA={named} is not a folder")
    pytest.skip("reference data absent: set MCUTRAIN_REFDATA to its folder")
