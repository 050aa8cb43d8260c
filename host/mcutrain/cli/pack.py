"""`mcutrain pack`: a network and a scheme become an image."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.markup import escape

import mcutrain.data
from mcutrain.boards.budgets import fit, room_on
from mcutrain.boards.table import get_board
from mcutrain.cli.common import (
    ERR,
    MAX_SEED,
    OUT,
    Classes,
    FractionBits,
    Json,
    Net,
    Scheme,
    kib,
    load_network,
    output_file,
    show,
)
from mcutrain.cli.fits import check_fit
from mcutrain.cli.saturation import outside_input
from mcutrain.compile import compile_program
from mcutrain.engine.engine import verify
from mcutrain.files import write_atomic
from mcutrain.image.pack import pack
from mcutrain.ir.graph import Graph
from mcutrain.ir.program import CompiledProgram
from mcutrain.plan.scheme import resolve_scheme
from mcutrain.trainer import calibrated, samples_of
from mcutrain.trainer.probe import Probe, with_probe

CALIBRATION_SAMPLES = 64


Calibrate = Annotated[
    str | None,
    typer.Option(help="Samples for the first exponents of errors (the first 64 are used)."),
]
HeadFrom = Annotated[
    str | None,
    typer.Option(help="Samples (training data) to fit the classifier to, instead of zeros."),
]
Seed = Annotated[
    int, typer.Option(min=0, max=MAX_SEED, help="Seed of the random bits in training.")
]


def run(
    net: Net,
    output: Annotated[Path, output_file("The image to write.")],
    scheme: Scheme = "last:3",
    fraction_bits: FractionBits = None,
    classes: Classes = None,
    calibrate: Calibrate = None,
    head_from: HeadFrom = None,
    board: Annotated[
        str | None, typer.Option(help="Make the image fit into this board, or refuse it.")
    ] = None,
    seed: Seed = 0,
    exact: Annotated[
        bool, typer.Option("--exact", help="Lay memory out with OR-tools (extra solver).")
    ] = False,
    as_json: Json = False,
) -> None:
    """Compile forward pass, backward pass, updates and memory layout into one image file.

    --head-from DATA fits the classifier (softmax regression on the frozen network's features): a
    better start than zeros, and what training more layers must surpass. Without --calibrate, errors
    are coarse or saturate in the first steps of a training run, until their exponents have adapted.
    Exit code 4 if the image does not fit into --board.

    Example: mcutrain pack demo --scheme last:4 --calibrate fashion-mnist:train -o demo.mcti
    """
    target = None if board is None else get_board(board)
    graph = load_network(net, classes)
    probe, input_q = None, graph.tensors[graph.inputs[0]].q
    outside: dict[str, float] = {}
    if head_from is not None:
        with ERR.status("fitting the classifier"):
            data = mcutrain.data.open(head_from).labelled_as(graph.classes)
            outside["head_from"] = outside_input(data, input_q, as_json)
            graph, probe = with_probe(graph, data, os.cpu_count() or 1)
    plan = resolve_scheme(graph, scheme, fraction_bits)
    room = None if target is None else room_on(target)
    compiled = compile_program(graph, plan, seed=seed, exact=exact, pool=room)
    if calibrate is not None:
        data = mcutrain.data.open(calibrate).labelled_as(graph.classes)
        outside["calibrate"] = outside_input(data, input_q, as_json)
        compiled = calibrated(compiled, samples_of(graph, data.spread(CALIBRATION_SAMPLES)), seed)
    image = pack(compiled)
    verify(image, str(output))
    if target is not None:
        check_fit(fit(target, compiled.pool_bytes, len(image)), target, compiled)
    write_atomic(output, image)
    summary = {
        "image": str(output),
        "network": graph.name,
        "model_hash": compiled.model_hash.hex(),
        "image_bytes": len(image),
        "state_bytes": compiled.state_bytes,
        "arena_bytes": compiled.memory.arena_bytes,
        "pool_bytes": compiled.pool_bytes,
        "calibrated": calibrate is not None,
        "head_left_out": None if probe is None else probe.left_out,
        "outside_input": outside,
    }
    show(as_json, summary, lambda: _draw(output, image, compiled, probe))


def synthetic_samples(graph: Graph, count: int, seed: int) -> list[tuple[bytes, int]]:
    """Uniform int8 noise with labels in turn: for measuring, where there are no data."""
    rng = np.random.Generator(np.random.PCG64(seed))
    size = sum(graph.tensors[name].size for name in graph.inputs)
    return [(rng.integers(-128, 128, size).astype(np.int8).tobytes(), i) for i in range(count)]


def _draw(output: Path, image: bytes, compiled: CompiledProgram, probe: Probe | None) -> None:
    if probe is not None:
        OUT.print(f"classifier: {probe.left_out:.1%} right on samples left out", highlight=False)
    OUT.print(
        f"{escape(str(output))}: {kib(len(image))}, needs {kib(compiled.pool_bytes)} of SRAM "
        f"(state {compiled.state_bytes:,}, arena {compiled.memory.arena_bytes:,})",
        highlight=False,
    )
