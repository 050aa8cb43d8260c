"""`mcutrain inspect`: what is in an image or a network file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from mcutrain.cli.common import OUT, Json, load_network, read_bytes, show, table
from mcutrain.image import format as fmt
from mcutrain.image.account import bytes_by_use
from mcutrain.image.unpack import Image, ImageInstruction, unpack
from mcutrain.ir.graph import Graph, Node
from mcutrain.ir.serialize import network_hash
from mcutrain.quantize.inputs import PIXEL_ZERO_POINT
from mcutrain.report.html import describe_plan
from mcutrain.report.log import IMAGE


def run(
    file: Annotated[
        str, typer.Argument(help="An image, a run, a network file, or a name of a network.")
    ],
    as_bytes: Annotated[
        bool, typer.Option("--bytes", help="Of an image: what its bytes are for.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the layers of a network, or header, tensors, program, memory and plan of an image.

    Of a run folder it shows the image that was trained.

    Example: mcutrain inspect demo.mcti
    """
    path = Path(file)
    if path.is_dir() and (path / IMAGE).is_file():
        path = path / IMAGE
    content = read_bytes(path, "file") if path.is_file() else b""
    if content.startswith(fmt.MAGIC):
        image = unpack(content, str(path))
        show(as_json, image_to_dict(image), lambda: _draw(image, as_bytes))
    else:
        graph = load_network(file)
        show(as_json, network_to_dict(graph), lambda: _draw_network(graph))


def network_to_dict(graph: Graph) -> dict[str, Any]:
    """A network for `--json`, without its weights."""
    return {
        "kind": "network",
        "name": graph.name,
        "hash": network_hash(graph).hex(),
        "classes": list(graph.classes),
        "inputs": [
            {"name": n, "shape": list(t.shape)}
            | ({"scale": t.q.scale, "zero_point": t.q.zero_point} if t.q else {})
            for n in graph.inputs
            for t in [graph.tensors[n]]
        ],
        "layers": [
            {
                "name": node.name,
                "op": node.op,
                "inputs": list(node.inputs),
                "shape": list(graph.tensors[node.output].shape),
                "parameters": _parameters(node),
            }
            for node in graph.nodes
        ],
    }


def image_to_dict(image: Image) -> dict[str, Any]:
    """An image for `--json`."""
    header = {k: v.hex() if isinstance(v, bytes) else v for k, v in image.header.items()}
    return {
        "kind": "image",
        "header": header | {"pool_bytes": image.pool_bytes},
        "network": image.metadata["network"],
        "plan": image.metadata["plan"],
        "classes": image.metadata["classes"],
        "inputs": image.metadata["inputs"],
        "tensors": [
            {
                "name": t.name,
                "space": t.space,
                "dtype": t.dtype,
                "shape": list(t.shape),
                "offset": t.offset,
                "bytes": t.nbytes,
            }
            for t in image.tensors
        ],
        "program": [
            {
                "op": i.op,
                "layer": i.layer,
                "operands": {slot: image.tensors[t].name for slot, t in i.operands.items()},
                "params": dict(i.params),
            }
            for i in image.program
        ],
        "memory": image.metadata["memory"],
        "bytes": bytes_by_use(image),
    }


def _parameters(node: Node) -> int:
    return sum(int(node.params[name].size) for name in ("weight", "bias") if name in node.params)


def _draw_network(graph: Graph) -> None:
    grid = table(f"network {graph.name}", "layer", "kind", "inputs", "output", " parameters")
    for node in graph.nodes:
        grid.add_row(
            escape(node.name),
            node.op,
            escape(", ".join(node.inputs)),
            " x ".join(map(str, graph.tensors[node.output].shape)),
            f"{_parameters(node):,}",
        )
    OUT.print(grid)
    for name in graph.inputs:
        OUT.print(_describe_input(graph, name), highlight=False, markup=False)
    named = ", ".join(graph.classes) or f"{graph.tensors[graph.output].size}, without names"
    OUT.print(f"classes: {named}", highlight=False, markup=False)
    OUT.print(f"hash: {network_hash(graph).hex()}", highlight=False)


def _describe_input(graph: Graph, name: str) -> str:
    tensor = graph.tensors[name]
    shape = " x ".join(map(str, tensor.shape))
    if tensor.q is None:
        return f"input {name}: {shape}"
    scale, zero = tensor.q.scale, tensor.q.zero_point
    low, high = ((end - zero) * scale for end in (-128, 127))
    pixels = ", pixels 0 to 255 as they are" if zero == PIXEL_ZERO_POINT else ""
    return f"input {name}: {shape} (height, width, channels), {low:.4g} to {high:.4g}{pixels}"


def _draw(image: Image, as_bytes: bool) -> None:
    if not as_bytes:
        _draw_image(image)
        return
    grid = table(f"bytes of {image.metadata['network'].get('name')}", "for", " bytes")
    for use, size in bytes_by_use(image).items():
        grid.add_row(use, f"{size:,}")
    grid.add_row("all", f"{image.header['image_bytes']:,}")
    OUT.print(grid)


def _draw_image(image: Image) -> None:
    head = table(f"image of {image.metadata['network'].get('name')}", "field", " value")
    for name, value in image.header.items():
        if name != "magic":
            head.add_row(name, value.hex() if isinstance(value, bytes) else str(value))
    OUT.print(head)
    plan = image.metadata["plan"]
    OUT.print(f"\ntrains: {describe_plan(plan)}", highlight=False, markup=False)
    for number, instr in enumerate(image.program):
        if number in (0, image.header["forward"]):
            title = "forward" if number == 0 else "backward"
            grid = table(f"\n{title}", " #", "op", "layer", "reads and writes")
        grid.add_row(str(number), instr.op, escape(instr.layer), escape(_operands(image, instr)))
        if number + 1 in (image.header["forward"], len(image.program)):
            OUT.print(grid)
    memory = table("\narena", "buffer", " offset", " bytes", " first", " last")
    for b in sorted(image.metadata["memory"], key=lambda b: (b["first"], b["offset"])):
        memory.add_row(
            escape(b["name"]), *(f"{b[k]:,}" for k in ("offset", "bytes", "first", "last"))
        )
    OUT.print(memory)


def _operands(image: Image, instr: ImageInstruction) -> str:
    return " ".join(f"{slot}={image.tensors[t].name}" for slot, t in instr.operands.items())
