"""Imports run one way; the import linter's contracts hold and would notice a breach.

The contracts are in pyproject.toml. The breach is shown on a made-up package with the real
package's layers, in which every layer imports the one above it.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "pyproject.toml"
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")


def _lint(config: Path, package_parent: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LINT_IMPORTS, "--no-cache", "--config", config],
        env={**os.environ, "PYTHONPATH": str(package_parent)},
        cwd=package_parent,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )


def _layers() -> list[list[str]]:
    """Module names of each layer, the top one first."""
    contracts = tomllib.loads(CONFIG.read_text())["tool"]["importlinter"]["contracts"]
    layers = next(c for c in contracts if c["type"] == "layers")["layers"]
    return [re.findall(r"\w+", layer) for layer in layers]


@pytest.fixture
def made_up(tmp_path: Path) -> Path:
    """A package `mcutrain` with one empty module for each name in the layers."""
    package = tmp_path / "mcutrain"
    package.mkdir()
    (package / "__init__.py").touch()
    for name in itertools.chain.from_iterable(_layers()):
        (package / f"{name}.py").touch()
    return package


def test_contracts_hold() -> None:
    result = _lint(CONFIG, ROOT / "host")
    assert result.returncode == 0, result.stdout


def test_every_import_of_an_upper_layer_is_found(made_up: Path) -> None:
    assert _lint(CONFIG, made_up.parent).returncode == 0
    layers = _layers()
    expected = []
    for upper, lower in itertools.pairwise(layers):
        (made_up / f"{lower[0]}.py").write_text(f"import mcutrain.{upper[0]}\n")
        expected.append((lower[0], upper[0]))
    result = _lint(CONFIG, made_up.parent)
    assert result.returncode == 1
    for lower, upper in expected:
        assert f"mcutrain.{lower} is not allowed to import mcutrain.{upper}" in result.stdout


def test_a_module_outside_the_layers_is_found(made_up: Path) -> None:
    (made_up / "stray.py").touch()
    result = _lint(CONFIG, made_up.parent)
    assert result.returncode == 1
    assert "stray" in result.stdout


def test_a_cycle_on_one_level_is_found(made_up: Path) -> None:
    (made_up / "link.py").write_text("import mcutrain.boards\n")
    assert _lint(CONFIG, made_up.parent).returncode == 0
    (made_up / "boards.py").write_text("import mcutrain.link\n")
    assert _lint(CONFIG, made_up.parent).returncode == 1


def test_optional_packages_are_not_loaded_by_importing_mcutrain() -> None:
    """Nobody pays for, or must install, an extra that the command at hand does not use."""
    modules = [
        ".".join(p.relative_to(ROOT / "host").with_suffix("").parts).removesuffix(".__init__")
        for p in sorted((ROOT / "host" / "mcutrain").rglob("*.py"))
        if p.name != "__main__.py"
    ]
    code = (
        "import importlib, sys\n"
        f"for m in {modules!r}: importlib.import_module(m)\n"
        "print([m for m in ('torch', 'tensorflow', 'onnx', 'matplotlib', 'ortools') "
        "if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
