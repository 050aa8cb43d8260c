"""What README and guide tell people to type exists; the table of exit codes is the program's."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from tests.image_cases import case
from typer.main import get_command

from mcutrain.cli.main import app, main
from mcutrain.data import spec
from mcutrain.errors import EXIT_CODES
from mcutrain.image.pack import pack

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/guide.md", "docs/troubleshooting.md")
COMMANDS = get_command(app).commands  # type: ignore[attr-defined]


def commands_of(page: str) -> list[list[str]]:
    text = (ROOT / page).read_text(encoding="utf-8")
    lines = re.findall(r"^mcutrain .*$", text, re.MULTILINE) + re.findall(
        r"`(mcutrain [^`]*)`", text
    )
    return [shlex.split(line, comments=True) for line in lines]


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_their_options_exist(page: str) -> None:
    found = commands_of(page)
    assert len(found) > 5
    for words in found:
        if words[1].startswith("-"):
            continue
        known = {option for p in COMMANDS[words[1]].params for option in p.opts} | {"--help"}
        used = [w for w in words[2:] if re.fullmatch(r"--?[a-z][a-z-]*", w)]
        assert set(used) <= known, words


def test_exit_codes_of_the_guide_are_those_of_the_program() -> None:
    text = (ROOT / "docs/guide.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| ([a-z]+) \| (.*?) ?\|$", text, re.MULTILINE)
    assert {int(code) for code, _, _ in rows} == set(EXIT_CODES)
    for code, kind, meaning in rows:
        expected, _, words = EXIT_CODES[int(code)].partition(": ")
        assert kind == expected
        assert meaning.startswith(words)


def test_memory_table_of_the_guide_is_what_plan_says(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs/guide.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `?([^|`]+)`? \| (\d) \| ([\d,]+) \| ([\d,]+) \|", text, re.MULTILINE)
    assert len(rows) == 7
    for scheme, bits, state, arena in rows:
        name = ROOT / "models/demo/scheme.json" if scheme == "the demo's own" else scheme
        with pytest.raises(SystemExit):
            main(["plan", "demo", "--scheme", str(name), "--fraction-bits", bits, "--json"])
        found = json.loads(capsys.readouterr().out)
        got = (found["state_bytes"]["total"], found["arena_bytes"])
        assert tuple(f"{n:,}" for n in got) == (state, arena), (scheme, bits)


def test_every_data_option_is_in_the_guide() -> None:
    text = (ROOT / "docs/guide.md").read_text(encoding="utf-8")
    sources = spec._SOURCES
    assert all(f"`{source}:" in text for source in sources)
    options = {o for _, own in sources.values() for o in own} | set(spec._STEPS)
    assert [o for o in sorted(options) if f"{o}=" not in text] == []


def test_the_program_of_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "docs/guide.md").read_text(encoding="utf-8")
    part = text.split("\n## The wire protocol", 1)[1]
    program = re.search(r"```python\n(.*?)```", part, re.DOTALL)
    assert program is not None
    (tmp_path / "net.mcti").write_bytes(pack(case("residual-head-8")))
    monkeypatch.chdir(tmp_path)
    exec(program[1], {})
    assert (tmp_path / "net.state").stat().st_size > 0
