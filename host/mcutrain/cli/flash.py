"""`mcutrain flash`: firmware into a real board, and the proof that it runs there."""

from __future__ import annotations

from typing import Annotated

import typer

from mcutrain.boards.build import Firmware
from mcutrain.boards.flash import chip_of, write
from mcutrain.boards.table import get_board
from mcutrain.cli.build import Generic, ImageFile, build_for, describe
from mcutrain.cli.common import OUT, Baud, BoardId, Json, show
from mcutrain.devices import open_device
from mcutrain.errors import LinkError
from mcutrain.link.session import Session


def run(
    board: BoardId,
    image: ImageFile = None,
    generic: Generic = False,
    device: Annotated[
        str | None, typer.Option(help="The board's serial port: asks it which build it runs.")
    ] = None,
    baud: Baud = None,
    tool: Annotated[
        str | None,
        typer.Option(help="pyocd, openocd, stm32flash or dfu-util; else the first that is there."),
    ] = None,
    port: Annotated[
        str | None, typer.Option(help="Serial port of the ROM's boot loader, for stm32flash.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Build firmware, write it into a board, and read its build id back over the link.

    States that the board has saved stay where they are.

    Example: mcutrain flash --board nucleo_f446re --device /dev/ttyACM0
    """
    target = get_board(board)
    chip_of(target)  # refuses an emulated board before anything is built
    firmware = build_for(target, image, generic)
    used = write(firmware, tool, port)
    if device is not None:
        with open_device(device, baud=baud) as session:
            verify(session, firmware, device)
    data = describe(firmware) | {"tool": used, "verified": device is not None}
    show(as_json, data, lambda: _draw(firmware, used, device))


def verify(session: Session, firmware: Firmware, where: str) -> None:
    """Hold the build that a board runs against the one that was written.

    Raises:
        LinkError: it runs another one.
    """
    if session.info.build != firmware.build_id:
        raise LinkError(
            "the board does not run the firmware that was written",
            where=where,
            why=f"it says that it is build {session.info.build} for {session.info.board}, "
            f"written was {firmware.build_id} for {firmware.board.id}",
            hint="check that --device is this board's port; reset the board; flash it again",
        )


def _draw(firmware: Firmware, tool: str, device: str | None) -> None:
    OUT.print(f"{firmware.board.id}: written with {tool}", highlight=False)
    if device is None:
        OUT.print("not asked which build it runs: --device PORT does that", highlight=False)
    else:
        OUT.print(f"it runs build {firmware.build_id}", highlight=False)
