"""`mcutrain save`: what a board has learned stays in its flash."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from mcutrain.cli.common import OUT, Baud, Json, show
from mcutrain.devices import open_device
from mcutrain.errors import UsageError


def run(
    device: Annotated[str, typer.Option(help="The serial port of a board that has been trained.")],
    baud: Baud = None,
    as_json: Json = False,
) -> None:
    """Keep the trained state in the board's flash, so that it outlives a loss of power.

    Power may fail while it is saved: then the state saved before is still there. With its image in
    flash, the board goes on from the saved state by itself when it starts.

    Example: mcutrain save --device /dev/ttyACM0
    """
    if device == "host" or device.startswith("qemu:"):
        raise UsageError(
            "an emulated device ends with the run and keeps no state",
            where=device,
            hint="mcutrain train keeps the state in its run folder, and --resume goes on from it",
        )
    with open_device(device, baud=baud) as session:
        session.attach()
        saved = session.save()
    show(
        as_json,
        asdict(saved),
        lambda: OUT.print(
            f"{device}: saved after {saved.step:,} steps, {saved.state_bytes:,} bytes; flash "
            f"erased {saved.erasures_0:,} and {saved.erasures_1:,} times so far",
            highlight=False,
        ),
    )
