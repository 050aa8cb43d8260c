"""A short list of plans, short trainings of each, and which of them wins."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.networks import residual_network

from mcutrain.cli.main import main
from mcutrain.cli.plan_auto import Written, draw_auto
from mcutrain.compile import compile_program
from mcutrain.data import Dataset
from mcutrain.errors import InputError
from mcutrain.ir.graph import Graph
from mcutrain.ir.serialize import save
from mcutrain.plan import Plan
from mcutrain.plan.scheme import resolve_scheme
from mcutrain.search.auto import LEAST_SAMPLES, Automatic, Tried, automatic_plan, samples_over
from mcutrain.search.gradients import score
from mcutrain.search.kept import Kept
from mcutrain.search.race import KNOWN, TURNS, Standing, race
from mcutrain.search.shortlist import shortlist
from mcutrain.search.trials import FOLDS, Arm, Trials

CLASSES = 4
BEST_RATE = 2.0**-8


def _data(graph: Graph, count: int = 120) -> Dataset:
    """A colour for each class, and noise; sorted by class."""
    rng = np.random.default_rng(7)
    y = np.sort(np.arange(count) % CLASSES).astype(np.int64)
    colours = rng.normal(0, 1, (CLASSES, 1, 1, graph.tensors["x"].shape[2]))
    x = colours[y] + rng.normal(0, 0.5, (count, *graph.tensors["x"].shape))
    return Dataset(x.astype(np.float32), y, graph.classes)


def _saved(folder: Path, count: int = 120) -> tuple[Path, Path]:
    """The files of a network and of samples."""
    graph = residual_network(8, CLASSES)
    net, samples = folder / "small.net.npz", folder / "data.npz"
    save(graph, net)
    data = _data(graph, count)
    np.savez(samples, x=data.x, y=data.y)
    return net, samples


def _pool(graph: Graph, scheme: str) -> int:
    return compile_program(graph, resolve_scheme(graph, scheme)).pool_bytes


class _Odds:
    """Plans that are right as often as their means say, with chance added; at one rate most."""

    def __init__(self, means: Sequence[float], spread: float) -> None:
        self._means, self._spread = means, spread
        self.runs: set[tuple[Arm, int]] = set()

    def __call__(self, arms: Sequence[Arm], number: int) -> list[float]:
        self.runs |= {(arm, number) for arm in arms}
        shares = []
        for arm in arms:
            rng = np.random.default_rng([arm.plan, number])
            off = abs(np.log2(arm.rate / BEST_RATE))
            shares.append(self._means[arm.plan] - 0.1 * off + self._spread * float(rng.normal()))
        return shares


def _raced(means: Sequence[float], spread: float) -> tuple[list[Standing], _Odds]:
    run = _Odds(means, spread)
    return race(len(means), run), run


def test_a_clearly_better_plan_wins_and_its_best_rate_is_known() -> None:
    winner = _raced([0.80, 0.78, 0.84, 0.80], 0.01)[0][0]
    assert (winner.plan, winner.rate) == (2, BEST_RATE)


def test_the_known_plan_wins_where_the_others_are_not_better() -> None:
    assert _raced([0.80, 0.80], 0.0)[0][0].plan == KNOWN
    assert _raced([0.80, 0.78, 0.79, 0.70, 0.75], 0.01)[0][0].plan == KNOWN


@pytest.mark.parametrize(("noise", "winner"), [(0.0, 1), (0.001, 1), (0.002, KNOWN)])
def test_a_lead_that_chance_may_have_made_does_not_beat_the_known_plan(
    noise: float, winner: int
) -> None:
    """The other plan leads by a thousandth in the mean."""

    def run(arms: Sequence[Arm], number: int) -> list[float]:
        return [0.8 + arm.plan * (0.001 + noise * (-1) ** number) for arm in arms]

    assert race(2, run)[0].plan == winner


def test_a_race_takes_few_trials_and_the_known_plan_runs_in_all() -> None:
    found, run = _raced([0.7, 0.8, 0.8, 0.8, 0.8, 0.9], 0.01)
    assert len(run.runs) == (6 - 2) * FOLDS + 2 * (6 + 4 + 3 + 2) * FOLDS
    numbers = {number for arm, number in run.runs if arm.plan == KNOWN}
    assert numbers == set(range(TURNS * FOLDS))
    assert sorted(one.plan for one in found) == list(range(6))
    lengths = [len(one.shares) for one in found]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] == lengths[1] == TURNS * FOLDS


def test_a_short_list_fits_and_fewer_bits_train_more() -> None:
    graph = residual_network(8, CLASSES)
    scores = score(graph, samples_over(graph, _data(graph, 12)))
    pool = _pool(graph, "last:3")
    entries = shortlist(graph, scores, pool)
    named = [entry for entry in entries if entry.name.startswith("last:")]
    assert entries[0].name == "gradients, 8 bits"
    assert [entry.name for entry in named[:2]] == ["last:3, 8 bits", "last:3, 4 bits"]
    for entry in entries:
        assert compile_program(graph, entry.plan).pool_bytes <= pool
    last = resolve_scheme(graph, "last:3")
    assert set(last.biases) <= set(named[0].plan.biases)
    for name, channels in last.weights.items():
        assert set(channels) <= set(named[0].plan.weights[name])
    computed = [entry.plan for entry in entries if entry.name.startswith("gradients")]
    counts = [sum(map(len, plan.weights.values())) for plan in computed]
    assert [plan.fraction_bits for plan in computed] == [8, 4, 0]
    assert counts[0] < counts[1] < counts[2]


def test_without_room_for_weights_there_is_nothing_to_try() -> None:
    graph = residual_network(8, CLASSES)
    data = _data(graph, LEAST_SAMPLES)
    found = automatic_plan(graph, data, 0)
    assert found.plan == Plan()
    assert not found.tried


def test_trials_of_a_number_are_the_same_each_time_and_train() -> None:
    graph = residual_network(8, CLASSES)
    data, plans = _data(graph), [Plan(), resolve_scheme(graph, "last:2")]
    arms = [Arm(0, 0.1), Arm(1, 0.1), Arm(1, 0.0)]
    shares = Trials(graph, data, plans).run(arms, 1)
    assert Trials(graph, data, plans).run(arms, 1) == shares
    assert min(shares[:2]) > 0.7
    assert shares[2] < 1.5 / CLASSES  # a rate of 0 learns nothing


def test_each_sample_is_held_out_once() -> None:
    graph = residual_network(8, CLASSES)
    trials = Trials(graph, _data(graph, 100), [Plan()])
    parts = [trials.split(number)[1] for number in range(FOLDS)]
    assert sorted(np.concatenate(parts).tolist()) == list(range(100))
    for number in range(FOLDS):
        training, held_out = trials.split(number)
        assert not set(training.tolist()) & set(held_out.tolist())
    assert trials.split(FOLDS)[1].tolist() != parts[0].tolist()


def test_a_search_that_was_interrupted_goes_on_and_ends_the_same(tmp_path: Path) -> None:
    graph = residual_network(8, CLASSES)
    data, pool, kept = _data(graph), _pool(graph, "last:2"), tmp_path / "auto.json.trials"
    whole = automatic_plan(graph, data, pool)
    assert len(whole.tried) > 2
    ran: list[int] = []

    def interrupt(what: str, done: int, _all: int) -> None:
        if what.startswith("trials, 5 of"):
            raise KeyboardInterrupt

    def count(what: str, done: int, _all: int) -> None:
        ran.append(done) if what.startswith("trials, 4 of") else None

    with pytest.raises(KeyboardInterrupt):
        automatic_plan(graph, data, pool, progress=interrupt, kept=kept)
    assert automatic_plan(graph, data, pool, progress=count, kept=kept) == whole
    assert not ran


def test_a_damaged_file_of_results_counts_as_empty(tmp_path: Path) -> None:
    path = tmp_path / "trials"
    for content in (b"", b"{", b"[1]", b"\xff\xfe", b'{"a": "x", "b": NaN, "c": 7, "d": null}'):
        path.write_bytes(content)
        kept = Kept(path)
        assert not any(key in kept for key in "abcd")
    kept["a"] = 0.5
    assert Kept(path)["a"] == 0.5


def test_an_arm_that_diverges_is_last_not_fatal() -> None:
    graph = residual_network(8, CLASSES)
    assert Trials(graph, _data(graph), [resolve_scheme(graph, "full")]).run([Arm(0, 3e38)], 0) == [
        0.0
    ]


def test_plan_says_what_was_tried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, samples = _saved(tmp_path)
    scheme = tmp_path / "auto.json"
    words = ["plan", str(net), "--ram", "11K", "--auto", f"npz:{samples}", "-o", str(scheme)]
    with pytest.raises(SystemExit) as caught:
        main([*words, "--fraction-bits", "4", "--json"])
    assert not caught.value.code
    found = json.loads(capsys.readouterr().out)["auto"]
    assert found["tried"][0]["name"] == found["chosen"]
    assert len(found["tried"]) == 2
    assert found["outside_input"] < 0.05
    assert json.loads(scheme.read_text())["fraction_bits"] == 4
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["auto.json", "data.npz", "small.net.npz"]


def test_what_was_tried_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    tried = (Tried("99kb, 4 bits", 0.002, 0.8125, 12), Tried("gradients, 8 bits", 0.004, 0.75, 3))
    draw_auto(_written(tried))
    shown = capsys.readouterr().out
    for word in ("99kb, 4 bits", "81.2%", "12", "gradients, 8 bits", "75.0%", "--rate 0.0020"):
        assert word in shown
    assert "chance" not in shown
    ahead = (*tried, Tried("last:3, 8 bits", 0.002, 0.82, 12))
    draw_auto(_written(ahead))
    assert "chance" in capsys.readouterr().out
    draw_auto(_written(()))
    assert not capsys.readouterr().out


def test_where_samples_are_too_few_for_trials_it_is_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    draw_auto(_written((), samples=LEAST_SAMPLES - 1))
    assert "99 samples are too few" in capsys.readouterr().out


def test_where_no_plan_learns_no_rate_is_said_to_suit(capsys: pytest.CaptureFixture[str]) -> None:
    draw_auto(_written((Tried("99kb, 4 bits", 0.002, 0.25, 12),), most_frequent=0.25))
    shown = capsys.readouterr().out
    assert "25.0% of the time" in shown
    assert "--rate" not in shown


def _written(tried: tuple[Tried, ...], samples: int = 200, most_frequent: float = 0.2) -> Written:
    return Written(Automatic(Plan(), "99kb, 4 bits", tried), samples, most_frequent, 0.0)


def test_what_cannot_work_is_refused_before_anything_is_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net, samples = _saved(tmp_path)
    (tmp_path / "busy.json.trials").mkdir()
    scheme = tmp_path / ("a" * 250)  # the name of the file beside it would be too long

    def refused(ram: str, output: Path, code: int) -> str:
        with pytest.raises(SystemExit) as caught:
            main(["plan", str(net), "--ram", ram, "--auto", f"npz:{samples}", "-o", str(output)])
        assert caught.value.code == code
        return capsys.readouterr().err

    assert "busy.json.trials" in refused("11K", tmp_path / "busy.json", 3)
    assert "too long" in refused("11K", scheme, 3)
    assert "is the smallest that fits" in refused("8K", tmp_path / "auto.json", 4)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["busy.json.trials", "data.npz", "small.net.npz"]


def test_a_scheme_can_go_into_what_is_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net, samples = _saved(tmp_path, 20)
    words = ["plan", str(net), "--ram", "11K", "--auto", f"npz:{samples}", "-o", "/dev/null"]
    with pytest.raises(SystemExit) as caught:
        main([*words, "--json"])
    assert not caught.value.code
    found = json.loads(capsys.readouterr().out)["auto"]
    assert (found["samples"], found["tried"]) == (20, [])


def test_classes_need_no_names() -> None:
    """Those of TFLite files have none."""
    graph = replace(residual_network(8, CLASSES), classes=())
    data, pool = _data(residual_network(8, CLASSES)), _pool(graph, "last:2")
    assert len(automatic_plan(graph, data, pool, [8]).tried) == 2
    more = replace(data, classes=tuple("abcde"))
    with pytest.raises(InputError, match="more classes") as caught:
        automatic_plan(graph, more, pool)
    assert caught.value.why == "5 classes, the network has 4"


def test_threads_share_the_prefixes_of_all_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = residual_network(8, CLASSES)
    data = _data(graph)
    trials, arms = Trials(graph, data, [Plan()]), [Arm(0, BEST_RATE)]
    shares = Trials(graph, data, [Plan()]).run(arms, 0)

    def copied(*_: object) -> None:
        raise AssertionError("samples are copied")

    monkeypatch.setattr(Dataset, "take", copied)
    assert trials.run(arms, 0) == shares


def test_where_few_samples_fit_into_memory_gradients_alone_decide(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = residual_network(8, CLASSES)
    monkeypatch.setattr("mcutrain.search.trials.CACHE_BYTES", 1000)
    assert not automatic_plan(graph, _data(graph), _pool(graph, "last:2")).tried
