"""Run what is missing for the table, several runs at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mcutrain.accuracy.grid import AUTO, Results, Row, Settings, expected, wanted
from mcutrain.accuracy.plans import compute_plan
from mcutrain.accuracy.store import Store
from mcutrain.accuracy.workers import Workers
from mcutrain.search.auto import Progress

# A run and its result (None at the start), how many are done, and how many there will be.
Note = Callable[[Settings | None, dict[str, Any], int, int], None]


def drive(
    rows: list[tuple[Row, int]],
    refdata: Path,
    out: Path,
    jobs: int,
    note: Note,
    tell: Progress = lambda _what, _done, _all: None,
) -> Results:
    """All runs of the rows that are not done yet, in order of the rows.

    Args:
        rows: each with its number of seeds.
        refdata: the reference data.
        out: the folder of results.
        jobs: processes.
        note: called at the start and after each run.
        tell: called while plans are computed.

    Returns:
        All results, of other rows, too.

    Raises:
        McutrainError: a run failed; what was done before is kept.
    """
    store = Store(out / "runs")
    results: dict[str, Any] = store.load()
    note(None, {}, *_progress(rows, results))
    if not _missing(rows, results):
        return results
    for row in dict.fromkeys(s.row for s in _missing(rows, results)):
        if row.scheme.startswith(AUTO):
            compute_plan(row, refdata, out, tell)
    with Workers(jobs, refdata, out) as workers:
        while True:
            running = {s.key for s in workers.running}
            waiting = [s for s in _missing(rows, results) if s.key not in running]
            for settings in waiting[: workers.idle]:
                workers.start(settings)
            if not workers.running:
                return results
            for settings, result in workers.finished():
                results[settings.key] = store.save(settings, result)
                note(settings, result, *_progress(rows, results))


def _missing(rows: list[tuple[Row, int]], results: Results) -> list[Settings]:
    """Runs that can start, the most wanted first; rows may share runs."""
    runs = (s for row, seeds in rows for s in wanted(row, seeds, results))
    return list({s.key: s for s in runs if s.key not in results}.values())


def _progress(rows: list[tuple[Row, int]], results: Results) -> tuple[int, int]:
    runs = [s for row, seeds in rows for s in wanted(row, seeds, results)]
    total = sum(expected(row, seeds, results) for row, seeds in rows)
    return sum(s.key in results for s in runs), total
