"""The table: means, differences and their standard errors, as data and as markdown."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.accuracy.grid import (
    AUTO,
    DATA,
    INT8,
    PROBE,
    SCHEMES,
    SHADOW,
    Results,
    Row,
    all_rows,
    auto_rows,
    chosen_rate,
    extra_rows,
    final,
    probe_row,
    searches,
)

_MOST_SEEDS = 100


@dataclass(frozen=True)
class Cell:
    """The results of a row, in seed order.

    Attributes:
        rate: the rate that was chosen.
        accuracies: in %, by seed.
        diverged: how many of the runs ran away.
    """

    row: Row
    rate: float
    accuracies: tuple[float, ...]
    diverged: int

    @property
    def mean(self) -> float:
        """In %."""
        return float(np.mean(self.accuracies))

    @property
    def deviation(self) -> float | None:
        """Standard deviation over seeds, in points; None of one seed."""
        several = len(self.accuracies) > 1
        return float(np.std(self.accuracies, ddof=1)) if several else None


@dataclass(frozen=True)
class Difference:
    """Mean of one row minus another, paired by seed and order, in points.

    Attributes:
        error: standard error; None where no row has two pairs.
    """

    mean: float
    error: float | None
    pairs: int


def cell_of(row: Row, results: Results) -> Cell | None:
    """The results of a row so far; None if there are none."""
    rate = 0.0 if row.trainer == PROBE else chosen_rate(row, results)
    if rate is None:
        return None
    found = []
    for seed in range(_MOST_SEEDS):
        result = results.get(final(row, rate, seed).key)
        if result is None:
            break
        found.append(result)
    if not found:
        return None
    accuracies = tuple(100 * float(r["accuracy"]) for r in found)
    return Cell(row, rate, accuracies, sum(bool(r["diverged"]) for r in found))


def difference(rows: Iterable[Row], results: Results) -> Difference | None:
    """Over several int8 rows, each of the same weight; None without a pair in each of them."""
    return _paired([(row, replace(row, trainer=SHADOW)) for row in rows], results)


def auto_difference(rows: Iterable[Row], results: Results) -> Difference | None:
    """Over several computed plans, each minus the published scheme for the same bytes."""
    pairs = [(row, replace(row, scheme=row.scheme.removeprefix(AUTO))) for row in rows]
    return _paired(pairs, results)


def _paired(rows: Iterable[tuple[Row, Row]], results: Results) -> Difference | None:
    differences = []
    for one, other in rows:
        first, second = cell_of(one, results), cell_of(other, results)
        if first is None or second is None:
            return None
        pairs = zip(first.accuracies, second.accuracies, strict=False)
        differences.append(np.array([a - b for a, b in pairs]))
    return _mean_of(differences)


def at_equal_rates(rows: Iterable[Row], results: Results) -> Difference | None:
    """Over several int8 rows, on held-out training images: runs with the same rate and seed.

    Rates from half of the lower one to twice the higher one that the two trainers chose: what the
    search for rates adds to a difference by chance is not in this one.
    """
    differences = []
    for row in rows:
        shadow = replace(row, trainer=SHADOW)
        chosen = [rate for r in (row, shadow) if (rate := chosen_rate(r, results)) is not None]
        if len(chosen) < 2:
            return None
        runs = [s for s in searches(row, results) if min(chosen) / 2 <= s.rate <= 2 * max(chosen)]
        pairs = [(results.get(s.key), results.get(replace(s, row=shadow).key)) for s in runs]
        differences.append(
            np.array([100 * (a["accuracy"] - b["accuracy"]) for a, b in pairs if a and b])
        )
    return _mean_of(differences)


def _mean_of(differences: list[npt.NDArray[np.float64]]) -> Difference | None:
    """Each row has the same weight, whatever its number of pairs."""
    if not differences or not all(map(len, differences)):
        return None
    mean = float(np.mean([d.mean() for d in differences]))
    error = None
    if all(len(d) > 1 for d in differences):
        variances = [d.var(ddof=1) / len(d) for d in differences]
        error = math.sqrt(sum(variances)) / len(differences)
    return Difference(mean, error, sum(map(len, differences)))


def to_dict(results: Results) -> dict[str, Any]:
    """The table as plain data."""
    rows = [row for row, _ in all_rows(tuple(DATA), 1, auto=True, extras=True)]
    cells = [c for c in (cell_of(row, results) for row in rows) if c]
    return {
        "rows": [
            {
                **vars(cell.row),
                "rate": cell.rate,
                "accuracies": [round(a, 2) for a in cell.accuracies],
                "diverged": cell.diverged,
            }
            for cell in cells
        ],
        "differences": {name: _plain(d) for name, d in _differences(results, difference).items()},
        "differences at equal rates": {
            name: _plain(d) for name, d in _differences(results, at_equal_rates).items()
        },
        "computed minus published": _plain(auto_difference(_all_auto(), results)),
    }


def _plain(found: Difference | None) -> dict[str, Any] | None:
    return None if found is None else vars(found)


def _differences(
    results: Results, kind: Callable[[Iterable[Row], Results], Difference | None]
) -> dict[str, Difference | None]:
    """By scheme over all data sets, and over all sparse schemes."""
    sparse = [s for s in SCHEMES if s != "head"]
    found = {s: kind([Row(d, s, INT8) for d in DATA], results) for s in sparse}
    every = [Row(d, s, INT8) for d in DATA for s in sparse]
    return found | {" and ".join(sparse): kind(every, results)}


def markdown(results: Results) -> str:
    """The tables of docs/accuracy.md."""
    return "\n\n".join(
        [
            "## Sparse updates\n\n" + _main_table(results),
            "## int8 minus fp32 shadow\n\n" + _difference_table(results),
            "## Computed plans\n\n" + _auto_table(results),
            "## One seed, flowers5\n\n" + _extra_table(results),
        ]
    )


def _main_table(results: Results) -> str:
    lines = []
    for name in DATA:
        probe = _text(cell_of(probe_row(name), results))
        lines.append((name, "linear probe", probe, "", "", ""))
        for scheme in SCHEMES:
            row = Row(name, scheme, INT8)
            shadow = cell_of(replace(row, trainer=SHADOW), results)
            pair = difference([row], results)
            lines.append(
                (
                    name,
                    "classifier only" if scheme == "head" else scheme,
                    _text(shadow),
                    _text(cell_of(row, results)),
                    _signed(pair),
                    _rates(shadow, cell_of(row, results)),
                )
            )
    head = ("data", "trains", "fp32 shadow", "int8", "int8 − shadow", "rates (shadow, int8)")
    return _lines(head, lines)


def _difference_table(results: Results) -> str:
    lines = []
    equal = _differences(results, at_equal_rates)
    for name, found in _differences(results, difference).items():
        both = (found, equal[name])
        lines.append((name, *(text for d in both for text in (_signed(d), _pairs(d)))))
    head = ("scheme", "test images, points", "pairs", "at equal rates, held-out images", "pairs")
    return _lines(head, lines)


def _pairs(found: Difference | None) -> str:
    return "–" if found is None else str(found.pairs)


def _all_auto() -> list[Row]:
    return auto_rows(tuple(DATA))


def _auto_table(results: Results) -> str:
    lines = []
    for row in _all_auto():
        scheme = row.scheme.removeprefix(AUTO)
        published, computed = cell_of(replace(row, scheme=scheme), results), cell_of(row, results)
        signed = _signed(auto_difference([row], results))
        rates = _rates(published, computed)
        lines.append((row.data, scheme, _text(published), _text(computed), signed, rates))
    lines.append(("all", "", "", "", _signed(auto_difference(_all_auto(), results)), ""))
    head = ("data", "bytes of", "published", "computed", "computed − published", "rates")
    return _lines(head, lines)


def _extra_table(results: Results) -> str:
    """Of rows that have several seeds, the first."""
    lines = []
    for row in extra_rows():
        if row.trainer == SHADOW:
            continue
        shadow = cell_of(replace(row, trainer=SHADOW, bits=8), results)
        cells = [None if c is None else _first(c) for c in (shadow, cell_of(row, results))]
        lines.append((_label(row), *map(_text, cells), _rates(*cells)))
    return _lines(("trains", "fp32 shadow", "int8", "rates (shadow, int8)"), lines)


def _first(cell: Cell) -> Cell:
    return replace(cell, accuracies=cell.accuracies[:1])


def _label(row: Row) -> str:
    names = {"bias:20": "biases of the last 20 layers", "last:12": "last 12 layers", "full": "all"}
    parts = [names.get(row.scheme, row.scheme)]
    parts += [f"{row.bits} fraction bits"] if row.bits != 8 else []
    parts += ["no quantization-aware scaling"] if not row.scaled else []
    return ", ".join(parts)


def _text(cell: Cell | None) -> str:
    if cell is None:
        return "–"
    text = f"{cell.mean:.1f}"
    if cell.deviation is not None:
        text += f" ± {cell.deviation:.1f}"
    return text + (f" ({cell.diverged} diverged)" if cell.diverged else "")


def _signed(found: Difference | None) -> str:
    if found is None:
        return "–"
    error = "" if found.error is None else f" ± {found.error:.2f}"
    return f"{found.mean:+.2f}{error}"


def _rates(*cells: Cell | None) -> str:
    return ", ".join("–" if c is None else f"{c.rate:g}" for c in cells)


def _lines(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rule = "|".join("---" for _ in head)
    body = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    return f"| {' | '.join(head)} |\n|{rule}|\n{body}".rstrip()
