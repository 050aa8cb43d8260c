"""`mcutrain quantize`: a PyTorch module becomes an int8 network."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape

import mcutrain.data
from mcutrain.cli.common import OUT, ROOT, Data, Json, output_file, show, table
from mcutrain.cli.saturation import outside_input
from mcutrain.compile import compile_program
from mcutrain.data import Dataset
from mcutrain.engine.engine import Engine
from mcutrain.errors import InputError, ToolchainError, UsageError
from mcutrain.frontends.torch import from_torch, input_shape
from mcutrain.image.pack import pack
from mcutrain.ir.graph import Array, Graph
from mcutrain.ir.ops import evaluate
from mcutrain.ir.serialize import network_hash, save
from mcutrain.plan import Plan
from mcutrain.quantize import quantize, quantize_input, simulate

_COMPARED = 256  # samples for the comparison with the float network


def run(
    model: Annotated[
        str, typer.Argument(help="MODULE:FUNCTION or FILE.py:FUNCTION that returns the module.")
    ],
    data: Data,
    output: Annotated[Path, output_file("NAME.net.npz to write.")],
    name: Annotated[str | None, typer.Option(help="The network's name.")] = None,
    count: Annotated[int, typer.Option(min=1, help="Samples to calibrate with.")] = 256,
    method: Annotated[str, typer.Option(help="Ranges by mse, percentile or minmax.")] = "mse",
    as_json: Json = False,
) -> None:
    """Trace, fold batch norm, calibrate and quantise a network, and compare it with its original.

    Needs PyTorch (extra torch). The classifier stays in floating point: it is trained as such.

    Example: mcutrain quantize models.demo:load --data fashion-mnist:train -o demo.net.npz
    """
    samples = mcutrain.data.open(data)
    title = name or output.name.removesuffix(".npz").removesuffix(".net")
    # The user's code may print; stdout is for our answer.
    with contextlib.redirect_stdout(sys.stderr):
        module = load_model(model)
        shape = input_shape(module, *samples.shape)
        plain = from_torch(module, shape, name=title, classes=samples.classes)
    graph = quantize(plain, samples.spread(count).array(), method=method)
    save(graph, output)
    rows, agreement = compare(plain, graph, samples.spread(_COMPARED))
    summary = {
        "network": str(output),
        "name": graph.name,
        "hash": network_hash(graph).hex(),
        "layers": rows,
        "outside_input": outside_input(samples, graph.tensors[graph.inputs[0]].q, as_json),
        **agreement,
    }
    show(as_json, summary, lambda: _draw(output, rows, agreement))


def load_model(place: str) -> Any:
    """What the function that MODULE:FUNCTION or FILE.py:FUNCTION names returns.

    Raises:
        UsageError: it is not of this form.
        InputError: there is no such module or function, or it fails.
        ToolchainError: it needs PyTorch, which is not installed.
    """
    source, colon, function = place.rpartition(":")
    if not colon or not source or not function:
        raise UsageError(
            "the model is given as MODULE:FUNCTION or FILE.py:FUNCTION",
            where=place,
            hint="for example mynet.py:build, a function without arguments that returns the module",
        )
    for folder in (str(ROOT), str(Path.cwd())):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    try:
        module = _from_file(source) if source.endswith(".py") else importlib.import_module(source)
        return getattr(module, function)()
    except (Exception, SystemExit) as error:  # this runs the user's code
        if isinstance(error, ImportError) and error.name == "torch":
            raise ToolchainError(
                "PyTorch is not installed", where=place, hint="pip install 'mcutrain[torch]'"
            ) from error
        raise InputError(
            "cannot load the model",
            where=place,
            why=f"{type(error).__name__}: {error}",
            hint=f"python -c 'from {Path(source).stem} import {function}; {function}()' shows where"
            if source.endswith(".py")
            else "check module, function, and the folder that you are in",
        ) from error


def _from_file(source: str) -> Any:
    path = Path(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise FileNotFoundError(f"no such file: {source}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def compare(
    plain: Graph, graph: Graph, data: Dataset
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """How far int8 is from float: signal to noise by layer, and classes on the samples.

    The classes are those of the executor, bit for bit as on a device.
    """
    exact = evaluate(plain, {plain.inputs[0]: data.real()})
    rounded = simulate(graph, data.array())
    rows = [
        {
            "name": node.name,
            "op": node.op,
            "shape": list(graph.tensors[node.output].shape),
            "weights": int(node.params["weight"].size) if "weight" in node.params else 0,
            "sqnr_db": _sqnr(exact[node.output], rounded[node.output]),
        }
        for node in graph.nodes
    ]
    engine = Engine(pack(compile_program(graph, Plan())))
    inputs = quantize_input(graph, data.array())[graph.inputs[0]]
    int8 = np.array([int(engine.forward(x).argmax()) for x in inputs])
    real = exact[plain.output].reshape(len(data), -1).argmax(axis=1)
    return rows, {
        "samples": len(data),
        "agreement": float((int8 == real).mean()),
        "accuracy_float": float((real == data.y).mean()),
        "accuracy_int8": float((int8 == data.y).mean()),
    }


def _sqnr(signal: Array, rounded: Array) -> float | None:
    """Signal to quantisation noise in dB; None where there is no noise or no signal."""
    noise = float(((signal - rounded) ** 2).mean())
    power = float((signal.astype(np.float64) ** 2).mean())
    return round(10 * float(np.log10(power / noise)), 1) if noise and power else None


def _draw(output: Path, rows: list[dict[str, Any]], agreement: dict[str, Any]) -> None:
    grid = table(
        f"{escape(str(output))}", "layer", "kind", "output", " weights", " signal to noise, dB"
    )
    for row in rows:
        shape = " x ".join(map(str, row["shape"]))
        noise = "" if row["sqnr_db"] is None else f"{row['sqnr_db']:.1f}"
        grid.add_row(escape(row["name"]), row["op"], shape, f"{row['weights']:,}", noise)
    OUT.print(grid)
    OUT.print(
        f"on {agreement['samples']} samples: float and int8 agree on {agreement['agreement']:.1%}; "
        f"right: float {agreement['accuracy_float']:.1%}, int8 {agreement['accuracy_int8']:.1%}",
        highlight=False,
    )
