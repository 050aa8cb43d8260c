"""A linear probe: the classifier that fits the features of a frozen network best.

Softmax regression on the int8 features that the host engine computes. It is the accuracy that
training more than the classifier must surpass, and a better start than a classifier of zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from mcutrain.compile import compile_program
from mcutrain.data import Dataset
from mcutrain.engine.cached import CachedEngine
from mcutrain.image.pack import pack
from mcutrain.ir.graph import Graph
from mcutrain.plan import Plan
from mcutrain.trainer.minimize import minimize
from mcutrain.trainer.prefix import PrefixCache

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

# Of squared weights beside the mean cross-entropy, for features of variance 1.
PENALTIES = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001)
FOLDS = 3
_ROUGH, _FINE = 1e-4, 1e-5  # gradients at the end: to choose the penalty, and of the probe


@dataclass(frozen=True)
class Probe:
    """Logits = features @ weight.T + bias.

    Attributes:
        weight: (classes, features), of features in real units.
        bias: (classes,).
        penalty: the one of `PENALTIES` that did best on samples left out.
        left_out: accuracy on those, in [0, 1].
    """

    weight: Floats
    bias: Floats
    penalty: float
    left_out: float


def with_probe(graph: Graph, data: Dataset, jobs: int = 1) -> tuple[Graph, Probe]:
    """The network with a probe of the data as its classifier.

    Args:
        graph: a quantised network with at least as many classes as the data.
        data: samples to fit; all views of them.
        jobs: threads that compute features.

    Raises:
        InputError: the data do not fit the network.
    """
    features, labels = features_of(graph, data, jobs)
    probe = fit_probe(features, labels, graph.tensors[graph.output].size)
    head = graph.head
    params = {
        **head.params,
        "weight": probe.weight.reshape(head.params["weight"].shape).astype(np.float32),
        "bias": probe.bias.astype(np.float32),
    }
    nodes = (*graph.nodes[:-1], replace(head, params=params))
    return replace(graph, nodes=nodes), probe


def features_of(graph: Graph, data: Dataset, jobs: int = 1) -> tuple[Floats, Labels]:
    """What the classifier reads, in real units (samples * views, features), and the labels."""
    engine = CachedEngine(pack(compile_program(graph, Plan())))
    cache = PrefixCache(engine, data, len(data) * data.views * engine.prefix_bytes)
    cache.fill(jobs)
    tensor = engine.boundary[0]
    int8 = cache.array().reshape(len(data) * data.views, -1)
    features = (int8.astype(np.float64) - tensor.zero_point) * tensor.scale
    return features, np.repeat(data.y, data.views)


def fit_probe(features: Floats, labels: Labels, classes: int) -> Probe:
    """Choose the penalty by cross-validation, then fit all samples with it.

    Args:
        features: (samples, n).
        labels: (samples,), below `classes`. Neighbours with one label, as the views of a sample
            are, stay in one fold where there are not too many of them.
        classes: of the network.
    """
    mean, deviation = features.mean(axis=0), features.std(axis=0)
    deviation[deviation == 0] = 1.0
    x = (features - mean) / deviation
    right = np.zeros(len(PENALTIES))
    for fit, test in _folds(labels):
        for k, theta in enumerate(_path(x[fit], labels[fit], classes, _ROUGH)):
            right[k] += np.sum(_logits(theta, x[test]).argmax(axis=1) == labels[test])
    best = int(right.argmax())
    *_, theta = _path(x, labels, classes, _FINE, PENALTIES[: best + 1])
    weight = theta[:, :-1] / deviation
    left_out = float(right[best]) / len(labels)
    return Probe(weight, theta[:, -1] - weight @ mean, PENALTIES[best], left_out)


def _folds(labels: Labels) -> Iterator[tuple[Labels, Labels]]:
    """Indices to fit and to test, every class spread over all folds in runs."""
    fold = np.zeros(len(labels), np.int64)
    for label in np.unique(labels):
        mine = np.flatnonzero(labels == label)
        fold[mine] = np.arange(len(mine)) * FOLDS // len(mine)
    for k in range(FOLDS):
        fit, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        if len(fit) and len(test):
            yield fit, test


def _path(
    x: Floats,
    labels: Labels,
    classes: int,
    tolerance: float,
    penalties: tuple[float, ...] = PENALTIES,
) -> Iterator[Floats]:
    """The best (classes, features + 1) for each penalty, each found from the one before."""
    theta = np.zeros((classes, x.shape[1] + 1))
    wanted = np.zeros((len(labels), classes))
    wanted[np.arange(len(labels)), labels] = 1.0
    for penalty in penalties:
        loss = partial(_loss, x=x, wanted=wanted, penalty=penalty)
        theta = minimize(loss, theta.ravel(), tolerance).reshape(theta.shape)
        yield theta


def _logits(theta: Floats, x: Floats) -> Floats:
    return np.asarray(x @ theta[:, :-1].T + theta[:, -1])


def _loss(flat: Floats, x: Floats, wanted: Floats, penalty: float) -> tuple[float, Floats]:
    """Mean cross-entropy and penalty of (classes, features + 1) numbers, and their gradient."""
    theta = flat.reshape(wanted.shape[1], x.shape[1] + 1)
    logits = _logits(theta, x)
    logits -= logits.max(axis=1, keepdims=True)
    exps = np.exp(logits)
    total = exps.sum(axis=1, keepdims=True)
    entropy = float((np.log(total[:, 0]) - (logits * wanted).sum(axis=1)).mean())
    error = (exps / total - wanted) / len(x)
    gradient = np.empty_like(theta)
    gradient[:, :-1] = error.T @ x + penalty * theta[:, :-1]
    gradient[:, -1] = error.sum(axis=0)
    return entropy + 0.5 * penalty * float((theta[:, :-1] ** 2).sum()), gradient.ravel()
