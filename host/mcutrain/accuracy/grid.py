"""What the table is made of: data sets, rows, the settings of one run, and the search for rates."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

INT8, SHADOW, PROBE = "int8", "shadow", "probe"
SEARCH, TEST = "search", "test"  # what a run is for
SAMPLES = 256  # rates are given for so many samples, as in the publication
CANDIDATES = 5
SEARCH_SEEDS = 2  # runs of a candidate; 1 in rows that are run once
MOST_CANDIDATES = 8  # where the best one is at an end of the range
GENERATION = 1  # raise it where a change of the code changes results: old ones are left out then
AUTO_GENERATION = 3  # the same, for the method that computes plans
NETWORK = "mcunet-5fps.pkl"


@dataclass(frozen=True)
class DataSource:
    """A data set and for how long it is trained on.

    Attributes:
        file: in the folder of data sets.
        options: of its spec; crops are drawn and mirrored once, so that prefixes can be kept.
        views: of each training sample, the sample itself included.
        epochs: of training.
    """

    name: str
    file: str
    options: str
    views: int
    epochs: int


DATA = {
    source.name: source
    for source in (
        DataSource("flowers5", "flowers5_jpeg128.npz", "", 4, 6),
        DataSource("caltech96", "caltech96_jpeg128.npz", "", 4, 6),
        DataSource("cifar10", "cifar10_10k_png32.npz", "&size=128x128", 2, 3),
    )
}


@dataclass(frozen=True)
class Row:
    """One cell of the table: what trains, on what, and how.

    Attributes:
        data: a key of `DATA`.
        scheme: what trains.
        trainer: INT8, SHADOW, or PROBE: a linear probe of the features, without steps.
        bits: fraction bits of a trained weight; 8 for a shadow, which has no such thing.
        scaled: whether gradients get quantization-aware scaling.
    """

    data: str
    scheme: str
    trainer: str
    bits: int = 8
    scaled: bool = True


@dataclass(frozen=True)
class Settings:
    """All that decides the result of a run.

    Attributes:
        row: see there.
        part: SEARCH trains on a part of the training samples and evaluates on the others, TEST
            trains on all and evaluates on the test samples.
        rate: highest rate, for `SAMPLES` samples.
        head_factor: the classifier's rate is so many times as high.
        epochs, views, seed: of the training; the seed decides order, views and random bits.
    """

    row: Row
    part: str
    rate: float
    head_factor: float
    epochs: int
    views: int
    seed: int

    @property
    def key(self) -> str:
        """The name under which the result is kept."""
        auto = [AUTO_GENERATION] if self.row.scheme.startswith(AUTO) else []
        text = json.dumps([GENERATION, *auto, asdict(self)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Settings:
        """The inverse of `asdict`."""
        return cls(**{**data, "row": Row(**data["row"])})


Results = Mapping[str, Mapping[str, Any]]  # by key

SCHEMES = ("head", "49kb", "99kb")
AUTO = "auto:"  # and a published scheme: the plan that is computed for the bytes it needs
AUTO_DATA = ("flowers5", "caltech96")
EXTRA_DATA = "flowers5"
EXTRA_SCHEMES = ("bias:20", "148kb", "last:12", "full")
_FIRST_RATE = {"head": 0.4}  # of the candidates; each is twice the one before
_HEAD_FACTOR = 1.0


def all_rows(data: tuple[str, ...], seeds: int, auto: bool, extras: bool) -> list[tuple[Row, int]]:
    """The rows of the table, the most wanted first, each with its number of seeds."""
    main = [
        Row(name, scheme, trainer)
        for scheme in SCHEMES
        for name in data
        for trainer in (INT8, SHADOW)
    ]
    rows = [(probe_row(name), 1) for name in data] + [(row, seeds) for row in main]
    rows += [(row, seeds) for row in auto_rows(data)] if auto else []
    once = extra_rows() if extras and EXTRA_DATA in data else ()
    return rows + [(row, 1) for row in once]


def auto_rows(data: tuple[str, ...]) -> list[Row]:
    """Computed plans."""
    names = [name for name in AUTO_DATA if name in data]
    return [Row(name, AUTO + scheme, INT8) for scheme in SCHEMES[1:] for name in names]


def probe_row(data: str) -> Row:
    """A linear probe of the frozen network's features."""
    return Row(data, "head", PROBE)


def extra_rows() -> Iterator[Row]:
    """The rows that are run once."""
    data = EXTRA_DATA
    for scheme in EXTRA_SCHEMES:
        for trainer in (INT8, SHADOW):
            yield Row(data, scheme, trainer)
    for bits in (0, 4):
        yield Row(data, "99kb", INT8, bits)
    for trainer in (INT8, SHADOW):
        yield Row(data, "99kb", trainer, scaled=False)


def searches(row: Row, results: Results) -> list[Settings]:
    """The runs that choose a rate: five candidates, and more while the best is at an end."""
    first = _FIRST_RATE.get(row.scheme, 0.2)
    rates = [first * 2**i for i in range(CANDIDATES)]
    while len(rates) < MOST_CANDIDATES:
        best = _best(row, rates, results)
        if best is None:
            break
        if best == rates[0]:
            rates.insert(0, best / 2)
        elif best == rates[-1]:
            rates.append(best * 2)
        else:
            break
    return [run for rate in rates for run in _candidate(row, rate)]


def chosen_rate(row: Row, results: Results) -> float | None:
    """The best of the candidates; None until all of them have run."""
    return _best(row, list(dict.fromkeys(s.rate for s in searches(row, results))), results)


def final(row: Row, rate: float, seed: int) -> Settings:
    """The run of a row that goes into the table."""
    return replace(_search(row, rate, seed), part=TEST, epochs=DATA[row.data].epochs)


def _search(row: Row, rate: float, seed: int) -> Settings:
    source = DATA[row.data]
    epochs = source.epochs if _is_main(row) else source.epochs // 2  # extras take longer
    return Settings(row, SEARCH, rate, _HEAD_FACTOR, epochs, source.views, seed)


def _candidate(row: Row, rate: float) -> list[Settings]:
    seeds = SEARCH_SEEDS if _is_main(row) and row.bits == 8 and row.scaled else 1
    return [_search(row, rate, seed) for seed in range(seeds)]


def _is_main(row: Row) -> bool:
    return row.scheme.removeprefix(AUTO) in SCHEMES


def _best(row: Row, rates: list[float], results: Results) -> float | None:
    """The rate with the highest accuracy, averaged with its neighbours' by 1/4, 1/2, 1/4.

    Some hundred samples tell neighbours apart by chance only; an end stands for what is beyond it.
    """
    scores = []
    for rate in rates:
        found = [results.get(run.key) for run in _candidate(row, rate)]
        accuracies = [float(result["accuracy"]) for result in found if result is not None]
        if len(accuracies) < len(found):
            return None
        scores.append(sum(accuracies) / len(accuracies))
    before, after = [scores[0], *scores[:-1]], [*scores[1:], scores[-1]]
    smooth = [a + 2 * b + c for a, b, c in zip(before, scores, after, strict=True)]
    return rates[smooth.index(max(smooth))]


def wanted(row: Row, seeds: int, results: Results) -> list[Settings]:
    """The runs of a row that are known to be needed by now, those that are done included."""
    if row.trainer == PROBE:
        return [final(row, 0.0, 0)]
    runs = searches(row, results)
    rate = chosen_rate(row, results)
    return runs if rate is None else runs + [final(row, rate, seed) for seed in range(seeds)]


def expected(row: Row, seeds: int, results: Results) -> int:
    """How many runs a row will have, as far as can be said."""
    least = 1 if row.trainer == PROBE else len(searches(row, {})) + seeds
    return max(least, len(wanted(row, seeds, results)))
