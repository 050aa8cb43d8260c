"""docs/troubleshooting.md names every refusal and every error of device, image, port and tool."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from mcutrain import errors
from mcutrain.errors import EXIT_CODES
from mcutrain.image.status import STATUSES, status_error
from mcutrain.link import wire
from mcutrain.link.effort import DeviceRefusal
from mcutrain.link.refusals import explain

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
LISTED = (4, 5, 6, 7)  # exit codes of which every message is on the page


def _rows(title: str) -> list[list[str]]:
    """Cells of the table below a heading."""
    part = PAGE.split(f"\n## {title}", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("|").split(" | ") for line in part.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in rows[1:]]


@cache
def _trees() -> tuple[ast.Module, ...]:
    return tuple(ast.parse(p.read_text()) for p in (ROOT / "host" / "mcutrain").rglob("*.py"))


@cache
def _exit_codes() -> dict[str, int]:
    """Exit code by the name of an error's class, wherever that is defined."""
    bases: dict[str, str] = {}
    for tree in _trees():
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.ClassDef)
                and node.bases
                and isinstance(node.bases[0], ast.Name)
            ):
                bases[node.name] = node.bases[0].id
    found = {}
    for name in bases:
        root: str | None = name
        while root is not None and not hasattr(errors, root):
            root = bases.get(root)
        if root is not None:
            found[name] = getattr(errors, root).exit_code
    return found


def _text(node: ast.expr) -> str | None:
    """A message as the page writes it: what is filled in as an ellipsis; None if it is no text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values
        )
    return None


def _messages(exit_code: int) -> set[str]:
    found = set()
    for tree in _trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Name):
                text = _text(node.args[0])
                if _exit_codes().get(node.func.id) == exit_code and text is not None:
                    found.add(text)
    return found


@pytest.mark.parametrize("exit_code", LISTED)
def test_every_message_of_an_exit_code_is_listed_and_no_other(exit_code: int) -> None:
    listed = [t for row in _rows(f"Exit code {exit_code}") for t in re.findall("`([^`]+)`", row[0])]
    assert len(listed) == len(set(listed))
    assert set(listed) == _messages(exit_code)


def test_every_exit_code_has_a_first_thing_to_do() -> None:
    assert {int(row[0]) for row in _rows("By exit code")} == set(EXIT_CODES) - {0}


def test_every_error_of_a_device_is_listed_with_its_exit_code() -> None:
    rows = {int(row[0]): row[1:] for row in _rows("What a device refuses")}
    assert set(rows) == {int(code) for code in wire.ErrorCode}
    for code in wire.ErrorCode:
        name, exit_code, _ = rows[code]
        assert name == code.name
        if exit_code == "by status":
            for status in STATUSES:
                refusal = DeviceRefusal((code, status % 2**32, 0, 0), "port", "X")
                assert explain(refusal).exit_code == status_error(status).exit_code
        else:
            refusal = DeviceRefusal((code, 0, 0, 0), "port", "X")
            assert explain(refusal).exit_code == int(exit_code)


def test_every_status_is_listed_as_host_and_device_have_it() -> None:
    rows = {int(row[0]): row[1:4] for row in _rows("What the executor refuses")}
    expected = {
        code: [s.name, str(status_error(code).exit_code), s.text] for code, s in STATUSES.items()
    }
    assert rows == expected
    header = (ROOT / "kernels_c/include/mct_status.h").read_text()
    in_c = {int(n): name for name, n in re.findall(r"(MCT_ERR_\w+) = (-\d+)", header)}
    assert in_c == {code: s.name for code, s in STATUSES.items()}
