"""The published update schemes: which layers they name, and the publication's own accounting."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.networks import residual_network

from mcutrain.errors import InputError
from mcutrain.frontends import import_network
from mcutrain.ir.graph import Graph
from mcutrain.plan.head import fresh_head
from mcutrain.plan.plan import strongest_channels
from mcutrain.plan.published import NETWORKS, published_accounting
from mcutrain.plan.scheme import resolve_scheme, trainable_layers

KIB = 1024

# Weights and biases, saved inputs and masks, total, in KiB, as published.
TABLE = {
    "mcunet-5fps": {
        "49kb": (30, 20, 49.8),
        "74kb": (47, 28, 74.8),
        "99kb": (70, 30, 99.8),
        "124kb": (94, 31, 125.0),
        "148kb": (116, 33, 148.4),
        "last:6": (None, None, 276.3),
        "last:12": (None, None, 448.0),
        "full": (None, None, 1400.4),
    },
    "mbv2-w0.35": {
        "49kb": (34, 16, 49.8),
        "73kb": (53, 21, 73.9),
        "99kb": (71, 29, 99.4),
        "123kb": (89, 34, 123.6),
        "138kb": (99, 39, 138.2),
        "full": (None, None, 1306.4),
    },
}
CASES = [(network, scheme) for network, rows in TABLE.items() for scheme in rows]


@pytest.fixture(scope="module")
def networks(refdata: Path) -> dict[str, Graph]:
    return {name: import_network(refdata / f"{name}.pkl") for name in TABLE}


@pytest.mark.parametrize(("name", "scheme"), CASES)
def test_the_published_table(networks: dict[str, Graph], name: str, scheme: str) -> None:
    graph = networks[name]
    plan = resolve_scheme(graph, scheme)
    counted = published_accounting(graph, trainable_layers(graph), plan)
    parameters, activations, total = TABLE[name][scheme]
    # The table gives whole and tenths of KiB.
    assert counted.total / KIB == pytest.approx(total, abs=0.0501)
    if parameters is not None:
        assert (counted.weights + counted.biases) / KIB == pytest.approx(parameters, abs=0.501)
        assert (counted.inputs + counted.masks) / KIB == pytest.approx(activations, abs=0.501)


def test_layers_and_channels_of_49kb(networks: dict[str, Graph]) -> None:
    plan = resolve_scheme(networks["mcunet-5fps"], "49kb")
    counts = {layer: len(channels) for layer, channels in plan.weights.items()}
    assert counts == {"b8.pointwise1": 12, "b9.pointwise1": 24, "b10.pointwise1": 24}
    assert len(plan.biases) == 20
    assert (plan.biases[0], plan.biases[-1]) == ("b7.depthwise", "b13.pointwise2")
    assert plan.head
    node = networks["mcunet-5fps"].node("b8.pointwise1")
    assert plan.weights["b8.pointwise1"] == strongest_channels(networks["mcunet-5fps"], node, 12)


def test_channel_counts_of_the_mobilenet(networks: dict[str, Graph]) -> None:
    plan = resolve_scheme(networks["mbv2-w0.35"], "49kb")
    assert sorted(map(len, plan.weights.values())) == [7, 7, 7, 32, 32, 42, 48]
    assert len(plan.weights["b16.depthwise"]) == 42


def test_schemes_stay_known_with_another_classifier(networks: dict[str, Graph]) -> None:
    graph = fresh_head(networks["mcunet-5fps"], 5)
    plan = resolve_scheme(graph, "49kb")
    assert plan == resolve_scheme(networks["mcunet-5fps"], "49kb")


def test_a_scheme_of_another_network_is_refused(networks: dict[str, Graph]) -> None:
    with pytest.raises(InputError, match=r"not published for this network[\s\S]*mcunet-5fps"):
        resolve_scheme(networks["mcunet-5fps"], "73kb")


def test_an_own_network_has_no_published_schemes() -> None:
    with pytest.raises(InputError, match=r"'residual' is another network"):
        resolve_scheme(residual_network(), "49kb")


def test_tables_name_layers_that_exist() -> None:
    for network in NETWORKS:
        for scheme in network.schemes.values():
            assert scheme.biases <= network.layers
            assert set(scheme.weights) <= set(network.widths)
            assert max(network.widths) < network.layers


def test_a_file_called_like_a_published_scheme_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "49kb").write_text('{"bias_last": 2}')
    monkeypatch.chdir(tmp_path)
    assert len(resolve_scheme(residual_network(), "49kb").biases) == 2
