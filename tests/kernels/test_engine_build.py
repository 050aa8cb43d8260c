"""The host engine's build: once a state of the sources, whole or not at all, with clear errors."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mcutrain.engine import build
from mcutrain.errors import ToolchainError


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with one C function; returns its source."""
    folder = tmp_path / "kernels_c"
    for name in ("include", "src"):
        (folder / name).mkdir(parents=True)
    here = tmp_path / "engine"
    here.mkdir()
    (folder / "include" / "one.h").write_text("int one(void);\n")
    (here / "one.cdef").write_text("int one(void);\n")
    source = folder / "src" / "one.c"
    source.write_text('#include "one.h"\nint one(void)\n{\n    return 1;\n}\n')
    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.setattr(build, "HERE", here)
    monkeypatch.setattr(build, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(build, "__file__", str(here / "one.cdef"))
    return source


def _libraries(source: Path) -> list[Path]:
    return sorted((source.parents[2] / "cache").glob(f"*/{build.MODULE}*"))


def test_it_is_built_once_a_state_of_the_sources(small: Path) -> None:
    first = build.build()
    made = first.stat().st_mtime_ns
    assert build.build() == first
    assert first.stat().st_mtime_ns == made
    small.write_text(small.read_text().replace("1;", "2;"))
    second = build.build()
    assert second != first
    (small.parents[1] / "include" / "one.h").write_text("int one(void);\nint two(void);\n")
    assert build.build() not in (first, second)
    assert len(_libraries(small)) == 3
    assert not list((small.parents[2] / "cache").glob("tmp-*"))


def test_sanitizers_have_a_build_of_their_own(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = set()
    for value in ("0", "1"):
        monkeypatch.setenv("MCUTRAIN_SANITIZE", value)
        found.add(build.build())
    assert len(found) == 2
    assert any("sanitized" in str(path) for path in found)


def test_builds_at_the_same_time_do_not_disturb_each_other(small: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(lambda _: build.build(), range(4)))) == 1
    assert len(_libraries(small)) == 1


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("int one(void)\n{\n    return x;\n}\n", "x"),
        ("int one(void)\n{\n    char c = 300;\n    return c;\n}\n", "overflow"),
    ],
)
def test_errors_and_warnings_end_the_build(small: Path, code: str, message: str) -> None:
    small.write_text('#include "one.h"\n' + code)
    with pytest.raises(ToolchainError, match="does not compile") as caught:
        build.build()
    assert message in str(caught.value.why)
    assert not _libraries(small)


def test_without_a_compiler_it_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(ToolchainError, match="no C compiler") as caught:
        build.build()
    assert caught.value.where == "no-such-compiler"
    assert "make setup" in str(caught.value.hint)


def test_without_the_sources_it_says_where_they_are(small: Path) -> None:
    small.unlink()
    small.parent.rmdir()
    small.parents[1].joinpath("include", "one.h").unlink()
    small.parents[1].joinpath("include").rmdir()
    small.parents[1].rmdir()
    with pytest.raises(ToolchainError, match="C sources are not there"):
        build.build()


def test_the_kernels_are_never_built_with_fused_or_reordered_floats() -> None:
    flags = (*build.BASE, *build.OPTIMIZED, *build.SANITIZED)
    assert "-ffp-contract=off" in build.BASE
    assert not any("fast-math" in f or "march" in f or "-Ofast" in f for f in flags)
