"""`mcutrain import`: a network that is int8 already, from another tool's file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from mcutrain.cli.common import OUT, Json, output_file, show
from mcutrain.frontends.detect import import_network
from mcutrain.ir.serialize import network_hash, save


def run(
    file: Annotated[Path, typer.Argument(help="An int8 TFLite file or a published pickle.")],
    output: Annotated[Path, output_file("NAME.net.npz to write.")],
    as_json: Json = False,
) -> None:
    """Read an int8 network as it is; its format is recognised by its content.

    A network in floating point is quantised instead: mcutrain quantize.

    Example: mcutrain import person-detection.tflite -o person.net.npz
    """
    graph = import_network(file)
    save(graph, output)
    summary = {
        "network": str(output),
        "name": graph.name,
        "hash": network_hash(graph).hex(),
        "layers": len(graph.nodes),
        "classes": len(graph.classes),
    }
    text = f"{output}: {graph.name}, {len(graph.nodes)} layers"
    show(as_json, summary, lambda: OUT.print(escape(text), highlight=False))
