"""The linear probe: an optimum, a fair choice of its penalty, and the executor's own features."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.networks import residual_network

import mcutrain.data
from mcutrain.compile import compile_program
from mcutrain.data.dataset import Dataset, make
from mcutrain.engine import Engine
from mcutrain.errors import InputError
from mcutrain.frontends.published import import_published
from mcutrain.image.pack import pack
from mcutrain.plan import Plan
from mcutrain.plan.head import fresh_head
from mcutrain.trainer import encoder
from mcutrain.trainer.minimize import minimize
from mcutrain.trainer.probe import PENALTIES, _folds, _loss, fit_probe, with_probe


def test_minimum_of_a_quadratic_function() -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(0, 1, (30, 30))
    matrix, place = root @ root.T + 0.1 * np.eye(30), rng.normal(0, 3, 30)

    def function(x: np.ndarray) -> tuple[float, np.ndarray]:
        return 0.5 * float((x - place) @ matrix @ (x - place)), matrix @ (x - place)

    np.testing.assert_allclose(minimize(function, np.zeros(30)), place, atol=1e-4)


def test_minimum_at_the_end_of_a_bent_valley() -> None:
    """Rosenbrock's function."""

    def function(x: np.ndarray) -> tuple[float, np.ndarray]:
        a, b = 1 - x[0], x[1] - x[0] ** 2
        return float(a * a + 100 * b * b), np.array([-2 * a - 400 * x[0] * b, 200 * b])

    np.testing.assert_allclose(minimize(function, np.array([-1.2, 1.0])), [1, 1], atol=1e-4)


def test_gradient_is_that_of_the_loss() -> None:
    rng = np.random.default_rng(0)
    x, theta = rng.normal(0, 1, (20, 5)), rng.normal(0, 1, (3, 6))
    wanted = np.eye(3)[rng.integers(0, 3, 20)]
    _, gradient = _loss(theta.ravel(), x, wanted, 0.2)
    for k, at in enumerate(np.ndindex(theta.shape)):
        step = np.zeros_like(theta)
        step[at] = 1e-5
        ends = [_loss((theta + sign * step).ravel(), x, wanted, 0.2)[0] for sign in (1, -1)]
        assert gradient[k] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-8)


def blobs(count: int, spread: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(7).normal(0, 1, (4, 20))
    labels = rng.integers(0, 4, count)
    return 5 + 3 * (centres[labels] + rng.normal(0, spread, (count, 20))), labels


def accuracy(probe: object, x: np.ndarray, y: np.ndarray) -> float:
    return float(((x @ probe.weight.T + probe.bias).argmax(axis=1) == y).mean())  # type: ignore[attr-defined]


def test_noise_asks_for_a_large_penalty_and_clear_data_do_not() -> None:
    noisy = fit_probe(*blobs(80, 4.0, 0), 4)
    clear = fit_probe(*blobs(2000, 1.2, 0), 4)
    assert noisy.penalty > clear.penalty
    assert noisy.penalty in PENALTIES
    assert accuracy(clear, *blobs(2000, 1.2, 1)) == pytest.approx(clear.left_out, abs=0.03)


def test_the_fit_is_the_same_again_and_for_features_in_other_units() -> None:
    x, y = blobs(200, 1.5, 0)
    first, again, scaled = fit_probe(x, y, 4), fit_probe(x, y, 4), fit_probe(x * 10 - 3, y, 4)
    assert np.array_equal(first.weight, again.weight)
    np.testing.assert_allclose(
        x @ first.weight.T + first.bias, (x * 10 - 3) @ scaled.weight.T + scaled.bias, atol=1e-3
    )


def test_a_feature_that_never_changes_does_no_harm() -> None:
    x, y = blobs(100, 1.0, 0)
    x[:, 3] = 2.5
    assert np.isfinite(fit_probe(x, y, 4).weight).all()


def test_folds_take_each_sample_once_and_all_classes() -> None:
    labels = np.repeat(np.arange(5), 12)
    tested = [test for _, test in _folds(labels)]
    assert sorted(np.concatenate(tested).tolist()) == list(range(60))
    assert all(set(labels[test]) == set(range(5)) for test in tested)


def small_data(classes: int = 4) -> Dataset:
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, 80)
    x = rng.normal(0, 1, (classes, 8, 8, 3))[y] + rng.normal(0, 0.3, (80, 8, 8, 3))
    return make(x, y, "small", [str(c) for c in range(classes)])


def test_the_executor_classifies_as_the_probe_does() -> None:
    graph, data = fresh_head(residual_network(8, 9), 4), small_data()
    fitted, probe = with_probe(graph, data, jobs=2)
    engine = Engine(pack(compile_program(fitted, Plan())))
    encode = encoder(engine.image, data)
    right = [int(engine.forward(encode(x)).argmax()) == label for x, label in data]
    assert np.mean(right) >= probe.left_out > 0.8


def test_data_of_more_classes_than_the_network_are_refused() -> None:
    with pytest.raises(InputError, match="more classes"):
        with_probe(residual_network(8, 4), small_data(5))


# Softmax regression on these features, as published with the data (one run).
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "published"),
    [("flowers5_jpeg128", 0.844), ("caltech96_jpeg128", 0.808), ("cifar10_10k_png32", 0.779)],
)
def test_published_probes_are_reached(refdata: Path, name: str, published: float) -> None:
    spec = f"npz:{refdata}/datasets/{name}.npz?size=128x128&range=-1,1&split="
    training, test = (mcutrain.data.open(spec + split) for split in ("train", "test"))
    graph = fresh_head(import_published(refdata / "mcunet-5fps.pkl"), len(training.classes))
    fitted, _ = with_probe(graph, training, jobs=2)
    engine = Engine(pack(compile_program(fitted, Plan())))
    encode = encoder(engine.image, test)
    right = [int(engine.forward(encode(x)).argmax()) == label for x, label in test]
    assert np.mean(right) >= published
