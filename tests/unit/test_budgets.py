"""Size limits of files and functions, and what C code may not use.

Complexity is limited by the linters (`make lint`); these are the limits that they do not have.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON_DIRS = ("host", "models", "tests", "scripts")
C_DIRS = ("kernels_c", "firmware")
MAX_PYTHON_LINES, MAX_C_LINES, MAX_FUNCTION_LINES = 400, 300, 60

# Freestanding C and string.h; arm_acle.h gives the DSP instructions where the core has them.
SYSTEM_HEADERS = {"stdint.h", "stddef.h", "stdbool.h", "limits.h", "string.h", "arm_acle.h"}
BANNED_CALLS = re.compile(r"\b(malloc|calloc|realloc|free|alloca|v?s?n?printf|exit|abort)\s*\(")
COMMENT_OR_STRING = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"', re.DOTALL)


def _files(dirs: tuple[str, ...], *suffixes: str) -> Iterator[Path]:
    for folder in dirs:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in suffixes and not {"build", "generated"} & set(path.parts):
                yield path


def _ids(paths: list[Path]) -> list[str]:
    return [str(p.relative_to(ROOT)) for p in paths]


PYTHON = list(_files(PYTHON_DIRS, ".py"))
C = list(_files(C_DIRS, ".c", ".h"))
KERNELS = [p for p in C if p.is_relative_to(ROOT / "kernels_c")]


@pytest.mark.parametrize("path", PYTHON, ids=_ids(PYTHON))
def test_python_sizes(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= MAX_PYTHON_LINES
    long = [
        f"{node.name}: {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno >= MAX_FUNCTION_LINES
    ]
    assert not long


@pytest.mark.parametrize("path", C, ids=_ids(C))
def test_c_sizes(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MAX_C_LINES


@pytest.mark.parametrize("path", KERNELS, ids=_ids(KERNELS))
def test_kernels_use_no_libc_but_string_h(path: Path) -> None:
    text = path.read_text()
    assert set(re.findall(r"#\s*include\s*<([^>]+)>", text)) <= SYSTEM_HEADERS
    assert BANNED_CALLS.search(COMMENT_OR_STRING.sub(" ", text)) is None


@pytest.mark.parametrize("path", KERNELS, ids=_ids(KERNELS))
def test_kernels_include_only_their_own_headers(path: Path) -> None:
    own = {p.name for p in KERNELS if p.suffix == ".h"}
    included = re.findall(r'#\s*include\s*"([^"]+)"', path.read_text())
    assert {Path(name).name for name in included} <= own
