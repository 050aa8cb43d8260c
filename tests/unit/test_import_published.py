"""Published pickles and their JSON form, on small ones made here; hostile pickles are refused."""

from __future__ import annotations

import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcutrain.errors import InputError, UnsupportedError
from mcutrain.frontends import import_network
from mcutrain.frontends.published import import_published
from mcutrain.ir.graph import Graph, QParams
from mcutrain.ir.serialize import network_hash, save

Tree = dict[str, Any]
Q = tuple[float, int]

INPUT: Q = (0.0078, 0)
HIDDEN: Q = (0.0235, -128)
BLOCK: Q = (0.06, 4)
SUM: Q = (0.09, -3)


def _conv(
    rng: np.random.Generator, c_in: int, c_out: int, kernel: int, stride: int, x: Q, y: Q
) -> Tree:
    depthwise = kernel > 1 and c_in == c_out
    params = {
        "weight": rng.integers(-127, 128, (c_out, 1 if depthwise else c_in, kernel, kernel)),
        "bias": rng.integers(-500, 500, c_out).astype(np.int32),
        "x_scale": x[0],
        "x_zero": x[1],
        "y_scale": y[0],
        "y_zero": y[1],
        "w_scales": rng.uniform(0.001, 0.002, c_out).astype(np.float32),
    }
    params["weight"] = params["weight"].astype(np.int8)
    return {
        "in_channel": c_in,
        "in_shape": 16,
        "out_channel": c_out,
        "kernel_size": (kernel, kernel),
        "stride": stride,
        "groups": c_in if depthwise else 1,
        "params": params,
    }


def _network() -> Tree:
    """One block of each kind: without expansion, and with a residual."""
    rng = np.random.default_rng(0)
    residual = {"params": {"x_scale": BLOCK[0], "x_zero": BLOCK[1], "y_scale": SUM[0]}}
    residual["params"]["y_zero"] = SUM[1]
    blocks = [
        {
            "pointwise1": None,
            "depthwise": _conv(rng, 8, 8, 3, 1, HIDDEN, HIDDEN),
            "pointwise2": _conv(rng, 8, 6, 1, 1, HIDDEN, BLOCK),
            "residual": None,
            "se": None,
        },
        {
            "pointwise1": _conv(rng, 6, 12, 1, 1, BLOCK, HIDDEN),
            "depthwise": _conv(rng, 12, 12, 5, 1, HIDDEN, HIDDEN),
            "pointwise2": _conv(rng, 12, 6, 1, 1, HIDDEN, BLOCK),
            "residual": residual,
            "se": None,
        },
    ]
    return {
        "first_conv": _conv(rng, 3, 8, 3, 2, INPUT, HIDDEN),
        "blocks": blocks,
        "feature_mix": None,
        "classifier": _conv(rng, 6, 5, 1, 1, SUM, (0.2, 0)),
    }


def _pickle(path: Path, content: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive/data.pkl", content)
        file.writestr("archive/version", "3\n")
    return path


def _write(path: Path, network: Tree, protocol: int = 2) -> Path:
    return _pickle(path, pickle.dumps(network, protocol=protocol))


def _json_form(folder: Path, network: Tree) -> Path:
    """The same network as `int8-graph-v1`."""
    arrays: dict[str, np.ndarray] = {}
    layers: list[Tree] = []

    def conv(name: str, x: str, layer: Tree) -> str:
        params, k = layer["params"], layer["kernel_size"][0]
        for ours, theirs in (("weight", "weight"), ("bias", "bias"), ("w_scale", "w_scales")):
            arrays[f"{name}.{ours}"] = params[theirs]
        keys = {key: f"{name}.{key}" for key in ("weight", "bias", "w_scale")}
        scales = {key: params[key] for key in ("x_scale", "x_zero", "y_scale", "y_zero")}
        layers.append(
            {"name": name, "op": "conv2d", "inputs": [x], "output": f"t_{name}", **keys, **scales}
            | {"stride": [layer["stride"]] * 2, "padding": [(k - 1) // 2] * 2}
            | {"groups": layer["groups"], "dilation": [1, 1], "out_clamp": [-128, 127]}
        )
        return f"t_{name}"

    x = conv("first_conv", "input", network["first_conv"])
    for i, block in enumerate(network["blocks"]):
        y = x
        for part in ("pointwise1", "depthwise", "pointwise2"):
            y = conv(f"b{i}.{part}", y, block[part]) if block[part] else y
        if block["residual"] is not None:
            p, second = block["residual"]["params"], block["pointwise2"]["params"]
            layers.append(
                {"name": f"b{i}.add", "op": "add", "inputs": [x, y], "output": f"t_b{i}.add"}
                | {"x1_scale": p["x_scale"], "x1_zero": p["x_zero"]}
                | {"x2_scale": second["y_scale"], "x2_zero": second["y_zero"]}
                | {"y_scale": p["y_scale"], "y_zero": p["y_zero"]}
            )
            y = f"t_b{i}.add"
        x = y
    layers.append({"name": "avgpool", "op": "global_avgpool", "inputs": [x], "output": "t_pool"})
    conv("classifier", "t_pool", network["classifier"])
    given = {"name": "input", "shape": [1, 3, 16, 16], "scale": INPUT[0], "zero": INPUT[1]}
    document = {"format": "int8-graph-v1", "model": "small", "input": given}
    document |= {"output": "t_classifier", "layers": layers}
    (folder / "small.json").write_text(json.dumps(document))
    np.savez(folder / "small.npz", **arrays)
    return folder / "small.json"


def test_layers_have_the_published_names_and_scales(tmp_path: Path) -> None:
    network = _network()
    graph = import_network(_write(tmp_path / "small.pkl", network))
    assert [n.name for n in graph.nodes] == [
        "first_conv",
        "b0.depthwise",
        "b0.pointwise2",
        "b1.pointwise1",
        "b1.depthwise",
        "b1.pointwise2",
        "b1.add",
        "avgpool",
        "classifier",
    ]
    assert graph.tensors["b1.add"].q == QParams(*SUM)
    assert graph.node("b1.add").inputs == ("b0.pointwise2", "b1.pointwise2")
    assert graph.node("b1.depthwise").attrs["pad"] == (2, 2, 2, 2)
    stored = network["blocks"][0]["pointwise2"]["params"]["weight"]
    assert np.array_equal(
        graph.node("b0.pointwise2").params["weight"], stored.transpose(0, 2, 3, 1)
    )
    head = network["classifier"]["params"]
    real = head["weight"][:, :, 0, 0] * head["w_scales"].astype(np.float64)[:, None]
    assert np.allclose(graph.head.params["weight"][:, 0, 0], real, rtol=1e-6)
    bias = head["bias"] * head["w_scales"].astype(np.float64) * SUM[0]
    assert np.allclose(graph.head.params["bias"], bias, rtol=1e-6)


def test_json_form_is_the_same_network(tmp_path: Path) -> None:
    network = _network()
    pickled = import_network(_write(tmp_path / "small.pkl", network))
    for path in (_json_form(tmp_path, network), tmp_path / "small.npz"):
        assert network_hash(import_network(path)) == network_hash(pickled)


def _as_numpy_1(data: bytes) -> bytes:
    return data.replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n")


def test_pickles_of_both_numpy_generations_are_read(tmp_path: Path) -> None:
    network = _network()
    new = pickle.dumps(network, protocol=2)
    old = _as_numpy_1(new)
    assert old != new
    graphs = [import_published(_pickle(tmp_path / "small.pkl", content)) for content in (new, old)]
    assert network_hash(graphs[0]) == network_hash(graphs[1])


def test_a_refdata_pickle_and_its_json_form_agree(refdata: Path) -> None:
    for name in ("mcunet-5fps", "mbv2-w0.35"):
        pickled = import_network(refdata / f"{name}.pkl")
        other: Graph = import_network(refdata / f"{name}-int8.json")
        assert network_hash(pickled) == network_hash(other)


# --- hostile and damaged pickles -----------------------------------------------------------------


class _Call:
    """Pickles as a call of any function."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        self._reduced = (function, args)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self._reduced


def _names(module: str, name: str, rest: bytes = b"") -> bytes:
    return b"\x80\x02c" + module.encode() + b"\n" + name.encode() + b"\n" + rest + b"."


def _text(value: str) -> bytes:
    return b"X" + len(value).to_bytes(4, "little") + value.encode()


# Calls that would leave a file behind, by the name that the refusal must give.
CALLS: dict[str, Callable[[Path], _Call]] = {
    "posix.system": lambda path: _Call(os.system, f"touch {path}"),
    "builtins.eval": lambda path: _Call(eval, f"open({str(path)!r}, 'w')"),
    "io.open": lambda path: _Call(open, str(path), "w"),
    "builtins.getattr": lambda path: _Call(getattr, path, "touch"),
}
# What the refusal must say, and the pickle.
HOSTILE = {
    "numpy.load": _names("numpy", "load"),
    "numpy.fromfile": _names("numpy", "fromfile"),
    "numpy.ndarray.tofile": b"\x80\x04" + b"\x8c\x05numpy\x8c\x0endarray.tofile\x93.",
    "numpy.core.umath.frompyfunc": _names("numpy.core.umath", "frompyfunc"),
    "only latin1": _names("_codecs", "encode", _text("b") + _text("hex") + b"\x86R"),
    "'O8'": _names("numpy", "dtype", _text("O8") + b"\x89\x88\x87R"),
    "only numpy.ndarray": _names(
        "numpy.core.multiarray", "_reconstruct", b"cnumpy\ndtype\nK\x00\x85" + _text("b") + b"\x87R"
    ),
    "stored object (7)": b"\x80\x02K\x07Q.",
    "stored object (0)": b"\x80\x02P0\n.",
    "changes a function": _names("_codecs", "encode", b"}" + _text("a") + b"K\x01sb"),
    "extension code": b"\x80\x02\x82\x01.",
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_hostile_calls_are_refused_and_not_executed(
    name: str, protocol: int, tmp_path: Path
) -> None:
    mark = tmp_path / "executed"
    content = pickle.dumps(CALLS[name](mark), protocol=protocol)
    named = name.replace("builtins", "__builtin__") if protocol < 3 else name
    with pytest.raises(InputError, match="refused to load the pickle") as caught:
        import_network(_pickle(tmp_path / "bad.pkl", content))
    assert named in str(caught.value.why)
    assert not mark.exists()


@pytest.mark.parametrize("reason", HOSTILE)
def test_names_beyond_the_admitted_are_refused(reason: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="refused to load the pickle") as caught:
        import_network(_pickle(tmp_path / "bad.pkl", HOSTILE[reason]))
    assert reason in str(caught.value.why)


def test_damaged_pickles_end_in_an_error(tmp_path: Path) -> None:
    whole = pickle.dumps(_network(), protocol=2)
    for n in range(0, len(whole), 97):
        with pytest.raises(InputError):
            import_published(_pickle(tmp_path / "cut.pkl", whole[:n]))


@pytest.mark.parametrize("content", [1, [], {}, {"first_conv": 3}, {"first_conv": {"params": {}}}])
def test_other_contents_are_no_network(content: object, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not hold such a network"):
        import_published(_pickle(tmp_path / "other.pkl", pickle.dumps(content)))


def test_a_structure_that_contains_itself_is_refused(tmp_path: Path) -> None:
    loop: dict[str, Any] = {}
    loop["loop"] = loop
    with pytest.raises(InputError, match="refused"):
        import_published(_pickle(tmp_path / "loop.pkl", pickle.dumps(loop)))


# --- what is not supported -----------------------------------------------------------------------


def test_a_layer_that_reads_another_scale_is_refused(tmp_path: Path) -> None:
    network = _network()
    network["blocks"][1]["depthwise"]["params"]["x_scale"] = 0.5
    with pytest.raises(UnsupportedError, match="another scale") as caught:
        import_network(_write(tmp_path / "small.pkl", network))
    assert caught.value.where == "b1.depthwise"


def test_squeeze_and_excitation_is_refused(tmp_path: Path) -> None:
    network = _network()
    network["blocks"][1]["se"] = {"reduce": 1}
    with pytest.raises(UnsupportedError, match="squeeze") as caught:
        import_network(_write(tmp_path / "small.pkl", network))
    assert caught.value.where == "b1"


def test_json_operators_and_formats_are_checked(tmp_path: Path) -> None:
    path = _json_form(tmp_path, _network())
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"format": "int8-graph-v2"}))
    with pytest.raises(InputError, match="another format"):
        import_network(path)
    document["layers"][1]["op"] = "swish"
    path.write_text(json.dumps(document))
    with pytest.raises(UnsupportedError, match="'swish' is not supported") as caught:
        import_network(path)
    assert caught.value.where == "b0.depthwise"


def test_json_without_its_weights_says_so(tmp_path: Path) -> None:
    path = _json_form(tmp_path, _network())
    (tmp_path / "small.npz").unlink()
    with pytest.raises(InputError, match="weights that belong to the JSON") as caught:
        import_network(path)
    assert str(caught.value.where).endswith("small.npz")


def test_files_that_are_no_networks(tmp_path: Path) -> None:
    graph = import_network(_write(tmp_path / "small.pkl", _network()))
    save(graph, tmp_path / "net.net.npz")
    with pytest.raises(InputError, match="network already"):
        import_network(tmp_path / "net.net.npz")
    for name, content in (("a.txt", b"hello"), ("b.tflite", b""), ("c.json", b"{")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError):
            import_network(tmp_path / name)
    with pytest.raises(InputError, match="cannot read"):
        import_network(tmp_path / "absent")
