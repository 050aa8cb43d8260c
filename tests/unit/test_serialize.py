"""The network file: what is loaded is what was saved, bytes are stable, damage is found."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mcutrain.errors import InputError
from mcutrain.ir.graph import Graph, Node, QParams, Tensor
from mcutrain.ir.serialize import load, network_hash, save


def quantised_graph() -> Graph:
    """conv, clamp, concat, classifier, in int8."""
    rng = np.random.default_rng(0)
    conv = {
        "weight": rng.integers(-127, 128, (3, 3, 2, 1), np.int8),
        "bias": rng.integers(-1000, 1000, 3, np.int32),
        "w_scale": rng.uniform(0.001, 0.1, 3),
    }
    head = {
        "weight": rng.normal(size=(2, 1, 1, 96)).astype(np.float32),
        "bias": np.zeros(2, np.float32),
    }
    attrs = {"stride": (1, 1), "pad": (1, 0, 1, 1), "groups": 1, "lo": -128, "hi": 127}
    tensors = (
        Tensor("x", (4, 4, 1), QParams(1 / 255, -128)),
        Tensor("c", (4, 4, 3), QParams(0.1, 5)),
        Tensor("r", (4, 4, 3), QParams(0.1 + 1e-17, 5)),
        Tensor("cat", (4, 4, 6), QParams(0.3, -7)),
        Tensor("logits", (1, 1, 2)),
    )
    return Graph(
        "näme",
        ("x",),
        "logits",
        {t.name: t for t in tensors},
        (
            Node("conv2d", "conv", ("x",), "c", attrs, conv),
            Node("clamp", "relu", ("c",), "r", {"lo": 5, "hi": 127}),
            Node("concat", "cat", ("c", "r"), "cat"),
            Node("linear", "classifier", ("cat",), "logits", {}, head),
        ),
        ("left", "right"),
    )


def assert_same(a: Graph, b: Graph) -> None:
    for field in ("name", "inputs", "output", "tensors", "classes"):
        assert getattr(a, field) == getattr(b, field)
    assert len(a.nodes) == len(b.nodes)
    for x, y in zip(a.nodes, b.nodes, strict=True):
        assert (x.op, x.name, x.inputs, x.output, x.attrs) == (
            y.op,
            y.name,
            y.inputs,
            y.output,
            y.attrs,
        )
        assert list(x.params) == list(y.params) or set(x.params) == set(y.params)
        for key in x.params:
            assert x.params[key].dtype == y.params[key].dtype
            np.testing.assert_array_equal(x.params[key], y.params[key])


def test_round_trip(tmp_path: Path) -> None:
    graph = quantised_graph()
    save(graph, tmp_path / "a.net.npz")
    loaded = load(tmp_path / "a.net.npz")
    assert_same(graph, loaded)
    assert network_hash(graph) == network_hash(loaded)
    save(loaded, tmp_path / "b.net.npz")
    assert (tmp_path / "a.net.npz").read_bytes() == (tmp_path / "b.net.npz").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.net.npz", "b.net.npz"]


def test_hash_is_stable_and_depends_on_everything() -> None:
    graph = quantised_graph()
    # Written down once: a change means that files made earlier no longer belong to their images.
    assert network_hash(graph).hex() == "89494990b086fd433466fa20417715ca"
    tensors = {**graph.tensors, "c": Tensor("c", (4, 4, 3), QParams(0.1 + 2e-17, 5))}
    conv = graph.nodes[0]
    weight = conv.params["weight"].copy()
    weight[0, 0, 0, 0] ^= 1
    changed = (
        replace(graph, name="other"),
        replace(graph, tensors=tensors),
        replace(graph, classes=("right", "left")),
        replace(
            graph,
            nodes=(replace(conv, params={**conv.params, "weight": weight}), *graph.nodes[1:]),
        ),
        replace(graph, nodes=(replace(conv, attrs={**conv.attrs, "lo": -127}), *graph.nodes[1:])),
    )
    hashes = {network_hash(g) for g in (graph, *changed)}
    assert len(hashes) == len(changed) + 1


def test_hash_ignores_order_in_mappings_and_memory() -> None:
    graph = quantised_graph()
    conv = graph.nodes[0]
    params = {k: np.asfortranarray(v) for k, v in reversed(conv.params.items())}
    attrs = dict(reversed(conv.attrs.items()))
    other = replace(
        graph,
        tensors=dict(reversed(graph.tensors.items())),
        nodes=(replace(conv, params=params, attrs=attrs), *graph.nodes[1:]),
    )
    assert network_hash(graph) == network_hash(other)


def test_a_damaged_byte_is_refused_or_harmless(tmp_path: Path) -> None:
    graph = quantised_graph()
    path = tmp_path / "n.net.npz"
    save(graph, path)
    data = path.read_bytes()
    refused = 0
    for place in range(0, len(data), 7):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x41]) + data[place + 1 :])
        try:
            loaded = load(path)
        except InputError:
            refused += 1
        else:  # a time stamp or attribute of the zip
            assert network_hash(loaded) == network_hash(graph)
    assert refused > len(data) // 7 * 0.8


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"hello, world", b"\x93NUMPY\x01\x00"])
def test_a_foreign_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.net.npz"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        load(path)
    assert error.value.where == str(path)


def test_another_npz_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, images=np.zeros(3))
    with pytest.raises(InputError, match="not a network file"):
        load(path)


def test_a_pickle_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, graph=np.array([{}], dtype=object))
    with pytest.raises(InputError, match="damaged"):
        load(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such network file"):
        load(tmp_path / "absent.net.npz")


def test_a_newer_version_is_named(tmp_path: Path) -> None:
    path = tmp_path / "n.net.npz"
    save(quantised_graph(), path)
    with np.load(path) as file:
        members = {k: file[k] for k in file.files}
    text = members["graph"].tobytes().replace(b'"version":1', b'"version":9')
    members["graph"] = np.frombuffer(text, np.uint8)
    np.savez(path, **members)
    with pytest.raises(InputError, match="version"):
        load(path)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "n.net.npz"
    save(quantised_graph(), path)
    before = path.read_bytes()
    bad = replace(quantised_graph(), classes=("one",))
    with pytest.raises(InputError):
        save(bad, path)
    assert path.read_bytes() == before
    with pytest.raises(InputError, match="cannot write"):
        save(quantised_graph(), tmp_path / "no" / "n.net.npz")


def test_members_are_stored_without_a_time(tmp_path: Path) -> None:
    save(quantised_graph(), tmp_path / "n.net.npz")
    with zipfile.ZipFile(tmp_path / "n.net.npz") as archive:
        assert {i.date_time for i in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {i.compress_type for i in archive.infolist()} == {zipfile.ZIP_STORED}


@pytest.mark.parametrize("content", [b"", b"hello", b"MCTI" + bytes(100), b"\x80\x04."])
def test_foreign_file_is_not_loaded_unsafely(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(InputError, match="not a network file") as caught:
        load(tmp_path / "x")
    assert "allow_pickle" not in str(caught.value)
