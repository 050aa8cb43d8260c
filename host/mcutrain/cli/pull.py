"""`mcutrain pull`: what a device has learned becomes a network again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.markup import escape

from mcutrain.cli.common import (
    OUT,
    Baud,
    Json,
    load_network,
    output_file,
    read_bytes,
    show,
    writable,
)
from mcutrain.cli.evaluate import check_state
from mcutrain.devices import open_device
from mcutrain.errors import InputError, UsageError
from mcutrain.files import write_atomic
from mcutrain.image.unpack import Image, unpack
from mcutrain.ir.graph import Array, Graph
from mcutrain.ir.serialize import network_hash, save
from mcutrain.passes.lift import lift
from mcutrain.plan.head import fresh_head
from mcutrain.plan.scheme import plan_from_dict
from mcutrain.report.log import IMAGE, Run
from mcutrain.trainer import Checkpoint

_NUMPY = {"s8": "i1", "s32": "<i4", "f32": "<f4"}


def run(
    source: Annotated[
        Path, typer.Argument(help="The folder of a run; or, with --device, the image it runs.")
    ],
    net: Annotated[str, typer.Option(help="The network that the image was packed from.")],
    output: Annotated[Path, output_file("The network file to write.")],
    device: Annotated[
        str | None, typer.Option(help="Read the state of a device that runs now.")
    ] = None,
    baud: Baud = None,
    state_out: Annotated[
        Path | None,
        typer.Option("--state", help="Write the bytes of the state, too.", callback=writable),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a network file with the trained weights, biases and classifier.

    What a network file cannot hold, the fraction bits of trained weights, is rounded away; --state
    keeps them.

    Example: mcutrain pull run --net demo -o trained.net.npz
    """
    if device is None:
        image = unpack(Run.load(source).image, str(source / IMAGE))
        checkpoint = Checkpoint.load(source)
        state, steps = checkpoint.state, checkpoint.step
    else:
        _check_keeps_state(device)
        image = unpack(read_bytes(source, "image"), str(source))
        state, steps = _read_device(device, baud, image)
    check_state(state, image, str(source) if device is None else device)
    graph = matching_network(net, image)
    trained = lift(graph, plan_from_dict(graph, image.metadata["plan"], net), arrays(image, state))
    save(trained, output)
    if state_out is not None:
        write_atomic(state_out, state)
    summary = {
        "network": str(output),
        "hash": network_hash(trained).hex(),
        "steps": steps,
        "state_bytes": len(state),
        "state": None if state_out is None else str(state_out),
    }
    show(
        as_json,
        summary,
        lambda: OUT.print(f"{escape(str(output))}: the network after {steps:,} training steps"),
    )


def _check_keeps_state(device: str) -> None:
    if device == "host" or device.startswith("qemu:"):
        raise UsageError(
            "an emulated device ends with the run and keeps no state",
            where=device,
            hint="mcutrain pull RUN: the run folder has the last state",
        )


def _read_device(device: str, baud: int | None, image: Image) -> tuple[bytes, int]:
    with open_device(device, baud=baud) as session:
        step = session.info.step
        opened = session.attach()
        if opened.image_crc != image.header["crc"]:
            raise InputError(
                "the device runs another image",
                where=device,
                why=f"its CRC is {opened.image_crc:#010x}, not {image.header['crc']:#010x}",
                hint="name the image that was opened on the device",
            )
        return session.read_state(), step


def matching_network(net: str, image: Image) -> Graph:
    """The network that an image was packed from: as it is, or with a fresh classifier.

    Raises:
        InputError: it is another network.
    """
    graph = load_network(net)
    wanted = image.header["model_hash"]
    classes = tuple(image.metadata["classes"])
    for candidate in (graph, fresh_head(graph, classes)):
        if network_hash(candidate) == wanted:
            return candidate
    raise InputError(
        "the image was packed from another network",
        where=net,
        why=f"the image names {image.metadata['network']['name']} {wanted.hex()}, this is "
        f"{graph.name} {network_hash(graph).hex()}",
        hint="give --net the network file that the image was packed from",
    )


def arrays(image: Image, state: bytes) -> dict[str, Array]:
    """The trained values of a state by name; what is packed (fractions) is left out."""
    return {
        t.name: np.frombuffer(
            state, _NUMPY[t.dtype], t.shape[0] * t.shape[1] * t.shape[2], t.offset
        )
        for t in image.tensors
        if t.space == "state" and t.dtype in _NUMPY
    }
