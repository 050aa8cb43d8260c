"""The accuracy table: which runs are needed, when, and what is made of their results."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mcutrain.accuracy.grid import (
    CANDIDATES,
    INT8,
    MOST_CANDIDATES,
    PROBE,
    SEARCH,
    SEARCH_SEEDS,
    SHADOW,
    TEST,
    Row,
    Settings,
    all_rows,
    chosen_rate,
    expected,
    extra_rows,
    searches,
    wanted,
)
from mcutrain.accuracy.plans import compute_plan, path_of
from mcutrain.accuracy.store import Store
from mcutrain.accuracy.table import (
    at_equal_rates,
    auto_difference,
    cell_of,
    difference,
    markdown,
    to_dict,
)
from mcutrain.errors import InputError

ROW = Row("flowers5", "49kb", INT8)
RUNS = CANDIDATES * SEARCH_SEEDS  # of its search


def _result(accuracy: float, loss: float = 1.0) -> dict[str, float | bool]:
    return {"accuracy": accuracy, "loss": loss, "seconds": 1.0, "steps": 1, "diverged": False}


def _rates(runs: list[Settings]) -> list[float]:
    return list(dict.fromkeys(s.rate for s in runs))


def _with(results: dict, runs: list[Settings], peak: float) -> dict:
    """Results of runs whose accuracy falls with the distance of the rate from `peak`."""
    near = {s.key: _result(0.9 - 0.01 * abs(math.log2(s.rate / peak))) for s in runs}
    return results | near


def test_rates_are_compared_before_anything_else_runs() -> None:
    first = wanted(ROW, 3, {})
    assert len({s.rate for s in first}) == CANDIDATES
    assert len(first) == RUNS
    assert {(s.part, s.seed) for s in first} == {(SEARCH, seed) for seed in range(SEARCH_SEEDS)}
    assert chosen_rate(ROW, {}) is None
    peak = _rates(first)[2]
    results = _with({}, first, peak)
    assert chosen_rate(ROW, results) == peak
    finals = wanted(ROW, 3, results)[RUNS:]
    assert [(s.part, s.seed, s.rate) for s in finals] == [(TEST, seed, peak) for seed in range(3)]
    assert expected(ROW, 3, {}) == expected(ROW, 3, results) == RUNS + 3


def test_a_candidate_counts_by_the_mean_of_its_seeds() -> None:
    runs = searches(ROW, {})
    results = _with({}, runs, _rates(runs)[2])
    assert chosen_rate(ROW, {k: r for k, r in results.items() if k != runs[-1].key}) is None
    lucky = next(s for s in runs if s.rate == _rates(runs)[1])
    assert chosen_rate(ROW, results | {lucky.key: _result(0.91)}) == _rates(runs)[2]
    assert chosen_rate(ROW, results | {lucky.key: _result(0.99)}) == _rates(runs)[1]


def test_rows_that_are_run_once_search_with_one_seed() -> None:
    for row in extra_rows():
        assert {s.seed for s in searches(row, {})} == {0}


@pytest.mark.parametrize("end", [0, -1])
def test_the_range_of_rates_grows_while_the_best_is_at_its_end(end: int) -> None:
    runs = searches(ROW, {})
    peak = runs[end].rate * (4.0 if end else 0.25)
    results: dict = {}
    for _ in range(MOST_CANDIDATES):
        results = _with(results, searches(ROW, results), peak)
    assert chosen_rate(ROW, results) == peak
    rates = _rates(searches(ROW, results))
    assert len(rates) == CANDIDATES + 3  # two steps on to the peak, and one beyond it
    assert rates == sorted(rates)


def test_the_search_ends_though_the_best_is_always_at_the_end() -> None:
    results: dict = {}
    for _ in range(2 * MOST_CANDIDATES):
        results = _with(results, searches(ROW, results), 1e9)
    assert len(_rates(searches(ROW, results))) == MOST_CANDIDATES
    assert chosen_rate(ROW, results) == searches(ROW, results)[-1].rate


def test_a_single_lucky_rate_does_not_win() -> None:
    """Accuracies are averaged with their neighbours'."""
    runs = searches(ROW, {})
    rates = _rates(runs)
    scores = dict(zip(rates, (0.80, 0.85, 0.86, 0.85, 0.87), strict=True))
    results = {s.key: _result(scores[s.rate]) for s in runs}
    assert chosen_rate(ROW, results) is None  # (0.85 + 3 * 0.87) / 4: one more beyond the end
    more = wanted(ROW, 1, results)[RUNS:]
    assert {s.rate for s in more} == {2 * rates[-1]}
    assert chosen_rate(ROW, results | {s.key: _result(0.81) for s in more}) == rates[3]


def test_both_trainers_are_compared_on_the_same_terms() -> None:
    """Only the trainer differs between the settings of a pair."""
    shadow = Row("flowers5", "49kb", SHADOW)
    for mine, theirs in zip(searches(ROW, {}), searches(shadow, {}), strict=True):
        assert mine.rate == theirs.rate
        assert mine.key != theirs.key
        assert (mine.epochs, mine.views, mine.seed) == (theirs.epochs, theirs.views, theirs.seed)


def test_required_rows_come_first() -> None:
    rows = all_rows(("flowers5", "caltech96", "cifar10"), 3, auto=True, extras=True)
    main = [row for row, seeds in rows if seeds == 3]
    assert len(main) == 18 + 4
    assert [row.trainer for row, _ in rows[:3]] == [PROBE] * 3
    assert {row for row, _ in rows[3:25]} == set(main)
    assert [row.scheme for row, _ in rows[21:25]] == ["auto:49kb"] * 2 + ["auto:99kb"] * 2
    extras = [row for row, _ in rows[25:]]
    assert {row.scheme for row in extras} == {"bias:20", "148kb", "last:12", "full", "99kb"}
    assert {row.bits for row in extras} == {0, 4, 8}
    assert {row.scaled for row in extras} == {True, False}
    assert not set(extras) & set(main)


def test_results_are_found_again_and_damage_is_named(tmp_path: Path) -> None:
    store, settings = Store(tmp_path / "runs"), searches(ROW, {})[0]
    store.save(settings, _result(0.5))
    found = Store(tmp_path / "runs").load()
    assert list(found) == [settings.key]
    assert Settings.from_dict(found[settings.key]["settings"]) == settings
    path = tmp_path / "runs" / f"{settings.key}.json"
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "settings": {**data["settings"], "epochs": 99}}))
    assert store.load() == {}  # made under other settings than its name says
    path.write_text('{"accuracy":')
    with pytest.raises(InputError) as error:
        store.load()
    assert error.value.where == str(path)


def _finished(accuracies: dict[Row, list[float]]) -> dict:
    results: dict = {}
    for row, values in accuracies.items():
        runs = searches(row, {})
        results = _with(results, runs, _rates(runs)[2])
        finals = wanted(row, len(values), results)[len(runs) :]
        results |= {s.key: _result(a / 100) for s, a in zip(finals, values, strict=True)}
    return results


def test_computed_plans_are_compared_with_the_scheme_whose_bytes_they_have() -> None:
    auto = replace(ROW, scheme="auto:49kb")
    results = _finished({ROW: [88.0, 90.0], auto: [89.0, 90.5]})
    found = auto_difference([auto], results)
    assert found is not None
    assert (found.mean, found.error, found.pairs) == (pytest.approx(0.75), pytest.approx(0.25), 2)
    assert "| flowers5 | 49kb | 89.0 ± 1.4 | 89.8 ± 1.1 | +0.75 ± 0.25 |" in markdown(results)
    assert auto_difference([replace(ROW, scheme="auto:99kb")], results) is None


def test_a_damaged_plan_is_found_before_anything_runs(refdata: Path, tmp_path: Path) -> None:
    row = Row("flowers5", "auto:49kb", INT8)

    def compute() -> None:
        compute_plan(row, refdata, tmp_path, lambda _what, _done, _all: None)

    path = path_of(row, tmp_path)
    path.mkdir(parents=True)
    with pytest.raises(InputError, match="cannot write"):
        compute()
    path.rmdir()
    for content in ("{", "[]", '{"weights": {"absent": "all"}}'):
        path.write_text(content)
        with pytest.raises(InputError, match="computed before is damaged") as caught:
            compute()
        assert caught.value.where == str(path)
    path.write_text('{"bias_last": 3}')
    compute()
    assert path.read_text() == '{"bias_last": 3}'


def test_differences_are_paired_by_seed() -> None:
    """A mean over rows of the same weight; its error from the spread within each of them."""
    other, shadow = Row("cifar10", "49kb", INT8), Row("cifar10", "49kb", SHADOW)
    results = _finished(
        {
            ROW: [80.0, 82.0, 84.0],
            Row("flowers5", "49kb", SHADOW): [81.0, 82.0, 85.0],  # -1, 0, -1
            other: [70.0, 75.0],
            shadow: [69.0, 72.0],  # 1, 3
        }
    )
    found = difference([ROW, other], results)
    assert found is not None
    assert found.mean == pytest.approx((-2 / 3 + 2) / 2)
    errors = np.var([-1, 0, -1], ddof=1) / 3, np.var([1, 3], ddof=1) / 2
    assert found.error == pytest.approx(math.sqrt(sum(errors)) / 2)
    assert found.pairs == 5
    assert difference([ROW, Row("caltech96", "49kb", INT8)], results) is None
    cell = cell_of(ROW, results)
    assert cell is not None
    assert (cell.mean, cell.deviation) == (pytest.approx(82.0), pytest.approx(2.0))


def test_trainers_are_also_compared_at_equal_rates() -> None:
    """Around the rates that were chosen, on the images that chose them."""
    shadow = replace(ROW, trainer=SHADOW)
    mine, theirs = searches(ROW, {}), searches(shadow, {})
    rates = _rates(mine)
    results = _with(_with({}, mine, rates[2]), theirs, rates[2])
    near = [s for s in theirs if s.rate in rates[1:4]]
    results |= {s.key: _result(results[s.key]["accuracy"] - 0.01) for s in near[1:]}
    found = at_equal_rates([ROW], results)
    assert found is not None
    assert found.pairs == len(near) == 3 * SEARCH_SEEDS
    assert found.mean == pytest.approx((found.pairs - 1) / found.pairs)
    assert at_equal_rates([ROW], {k: r for k, r in results.items() if k != near[0].key}) is None


def test_a_table_can_be_drawn_before_all_has_run() -> None:
    results = _finished({ROW: [80.0, 82.0, 84.0], Row("flowers5", "49kb", SHADOW): [81.0]})
    assert "| flowers5 | 49kb | 81.0 | 82.0 ± 2.0 | -1.00 |" in markdown(results)
    rows = to_dict(results)["rows"]
    assert [row["accuracies"] for row in rows] == [[80.0, 82.0, 84.0], [81.0]]
    assert "–" in markdown({})
