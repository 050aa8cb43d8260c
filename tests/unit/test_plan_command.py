"""`mcutrain plan`: what fits, the ladder, the picture of the memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.networks import residual_network

from mcutrain.cli.common import size_of
from mcutrain.cli.main import main
from mcutrain.compile import compile_program
from mcutrain.errors import UsageError
from mcutrain.ir.serialize import save
from mcutrain.plan.scheme import resolve_scheme
from mcutrain.report.ladder import ladder
from mcutrain.report.picture import PEAK, picture, profile


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "small.net.npz"
    save(residual_network(12, 4), path)
    return path


def _run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any]]:
    with pytest.raises(SystemExit) as caught:
        main([str(a) for a in (*arguments, "--json")])
    return int(caught.value.code or 0), json.loads(capsys.readouterr().out)


def test_ram_lists_what_fits_and_what_keeps_the_others_out(
    net: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, data = _run(capsys, "plan", net, "--ram", "12000")
    assert code == 0
    rows = {row["scheme"]: row for row in data["schemes"]}
    assert {"head", "full"} <= rows.keys()
    assert all(row["fits"] == (row["sram"] <= 12000) for row in rows.values())
    for name, row in rows.items():
        wanted = [] if row["fits"] else [f"SRAM: {row['sram']:,} bytes needed, 12,000 there"]
        assert row["binds"] == wanted, name
    # The largest of a kind that fits stands beside the next one, which does not.
    kinds = [name for name in rows if name.startswith("last:")]
    assert [rows[name]["fits"] for name in kinds] in ([True, False], [False], [True])


def test_each_row_is_what_the_scheme_alone_says(
    net: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, data = _run(capsys, "plan", net, "--ram", "64K")
    for row in data["schemes"]:
        _, alone = _run(capsys, "plan", net, "--scheme", row["scheme"])
        assert alone["board_bytes"]["sram"] == row["sram"]
        assert alone["board_bytes"]["flash"] == row["flash"]


def test_the_smallest_ram_is_named_and_fits(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, error = _run(capsys, "plan", net, "--ram", "4200")
    assert code == 4
    assert error["error"] == "fit"
    smallest = int(error["hint"].split()[1])
    assert f"SRAM: {smallest:,} bytes needed, 4,200 there" in error["why"]
    head = ("--scheme", "head", "--fraction-bits", "0")
    assert _run(capsys, "plan", net, *head, "--ram", smallest)[0] == 0
    assert _run(capsys, "plan", net, *head, "--ram", smallest - 1)[0] == 4


def test_a_classifier_of_many_classes_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It lies in flash, too, so that more SRAM would not do; one of fewer classes does."""
    net = tmp_path / "wide.net.npz"
    save(residual_network(12, 20_000), net)
    for ram, lacking in (("64K", "SRAM"), ("8M", "flash for the image")):
        code, error = _run(capsys, "plan", net, "--ram", ram)
        assert code == 4
        assert error["why"].startswith(lacking)
        assert error["hint"].startswith("--classes N")
        assert "of 20,000 the classifier takes" in error["hint"]
    assert _run(capsys, "plan", net, "--classes", 9, "--ram", "64K")[0] == 0


@pytest.mark.parametrize(
    ("text", "wanted"), [("98304", 98304), ("96K", 98304), ("96k", 98304), ("1M", 1 << 20)]
)
def test_sizes(text: str, wanted: int) -> None:
    assert size_of(text, "--ram") == wanted


@pytest.mark.parametrize("text", ["", "K", "96KB", "9.5K", "-1", "12KK", "1e3"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(UsageError, match="no size"):
        size_of(text, "--ram")


def test_no_rung_needs_more_than_the_one_before() -> None:
    graph = residual_network(16)
    rungs = list(ladder(graph, resolve_scheme(graph, "last:2")))
    totals = [r.total for r in rungs]
    assert len(totals) == 6
    assert totals == sorted(totals, reverse=True)
    compiled = compile_program(graph, resolve_scheme(graph, "last:2"))
    assert totals[-1] == compiled.pool_bytes
    # Four bytes for each int8 value, and a fraction byte less for each weight.
    assert 2.5 < totals[0] / totals[1] < 4
    assert rungs[-2].backward < rungs[2].backward


def test_the_ladder_as_json(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    code, data = _run(capsys, "plan", net, "--scheme", "last:2", "--waterfall")
    assert code == 0
    assert len(data["rungs"]) == 6
    assert data["torch"]["process"] > data["torch"]["step"] > 0


def test_the_picture_shows_the_peak_where_it_is() -> None:
    compiled = compile_program(residual_network(12), resolve_scheme(residual_network(12), "full"))
    drawn = picture(compiled, width=1000, height=10)
    *rows, axis, passes, mark = drawn.lines
    count = len(compiled.program.instrs)
    alive = [sum(profile(compiled.memory.buffers, i).values()) for i in range(count)]
    assert axis.count("-") == count
    assert "backward" in passes
    assert mark.index(PEAK) - 11 == alive.index(max(alive))
    for column, nbytes in enumerate(alive):
        height = sum(len(r) > column + 11 and r[column + 11] != " " for r in rows)
        assert abs(height - 10 * nbytes / max(alive)) <= 1
    assert {letter for letter, _ in drawn.legend} >= {"a", "m", "e"}


def test_a_picture_of_few_columns_shows_the_fullest_moments() -> None:
    compiled = compile_program(residual_network(12), resolve_scheme(residual_network(12), "full"))
    rows = picture(compiled, width=7, height=8).lines[:-3]
    assert all(len(r) <= 11 + 7 for r in rows)
    assert rows[0].strip().endswith(("a", "m", "e", "s", "c"))
