"""`mcutrain build`: firmware for a board, for any image or for one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from mcutrain.boards.baked import used_operations
from mcutrain.boards.budgets import fit
from mcutrain.boards.build import Firmware, build_firmware
from mcutrain.boards.table import Board, get_board
from mcutrain.cli.common import OUT, BoardId, Json, kib, read_bytes, show
from mcutrain.errors import FitError
from mcutrain.files import make_folder
from mcutrain.image.unpack import Image, unpack
from mcutrain.ir.instructions import INSTRUCTIONS

ImageFile = Annotated[
    Path | None,
    typer.Option(help="Bake this image in: it lies in flash, and only what it uses is linked."),
]
Generic = Annotated[
    bool, typer.Option("--generic", help="With --image: link everything all the same.")
]


def run(
    board: BoardId,
    image: ImageFile = None,
    generic: Generic = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Copy ELF, binary and map to this folder.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Build the firmware of a board: generic, to take images over the link, or with one in it.

    An image that does not fit is refused before anything is compiled.

    Example: mcutrain build --board nucleo_f446re --image demo.mcti -o firmware
    """
    firmware = build_for(get_board(board), image, generic)
    files = [str(file) for file in copy_files(firmware, output)]
    data = describe(firmware) | {"image": str(image) if image else None, "files": files}
    if image is not None:
        data["operations"] = sorted(used_operations(image.read_bytes()))
    show(as_json, data, lambda: _draw(firmware, data))


def build_for(board: Board, image: Path | None, generic: bool) -> Firmware:
    """The firmware of a board, with an image or without.

    Raises:
        FitError: the image does not fit into the board.
        McutrainError: as `read_bytes`, `unpack`, `build_firmware`.
    """
    if image is None:
        return build_firmware(board)
    content = read_bytes(image, "image")
    check_fit(board, unpack(content, str(image)), len(content), str(image))
    return build_firmware(board, image=content, all_operations=generic)


def check_fit(board: Board, image: Image, size: int, where: str) -> None:
    """Refuse an image that does not fit into a board's flash or SRAM.

    Raises:
        FitError: with the numbers.
    """
    state, arena = int(image.header["state_bytes"]), int(image.header["arena_bytes"])
    fits = fit(board, -(-state // 4) * 4 + arena, size)
    if fits.problems():
        raise FitError(
            f"the image does not fit into {board.id}",
            where=where,
            why="; ".join(fits.problems())
            + f" (state {state:,}, arena {arena:,}, firmware {fits.static:,}, "
            f"stack {fits.stack:,})",
            hint="mcutrain plan NET --board " + board.id + " shows what takes the bytes",
        )


def copy_files(firmware: Firmware, folder: Path | None) -> list[Path]:
    """The files of a firmware, where they are or copied to a folder.

    Raises:
        InputError: the folder cannot be written.
    """
    files = [firmware.elf, firmware.binary, firmware.map]
    if firmware.image_binary is not None:
        files.append(firmware.image_binary)
    if folder is None:
        return files
    make_folder(folder)
    return [Path(shutil.copy2(file, folder / file.name)) for file in files]


def describe(firmware: Firmware) -> dict[str, Any]:
    """A firmware for `--json`; sizes in bytes."""
    sizes = firmware.sizes
    return {
        "board": firmware.board.id,
        "build": firmware.build_id,
        "flash_bytes": sizes.flash_bytes,
        "text_bytes": sizes.text,
        "image_bytes": sizes.image,
        "static_bytes": sizes.data + sizes.bss,
        "stack_bytes": sizes.stack,
        "pool_bytes": sizes.pool,
    }


def _draw(firmware: Firmware, data: dict[str, Any]) -> None:
    sizes = firmware.sizes
    kind = "generic: it takes images over the link"
    if data["image"] is not None:
        kind = f"with {escape(data['image'])}, {kib(sizes.image)}"
        count = len(data["operations"])
        kind += f", which uses {count} of {len(INSTRUCTIONS)} operations"
    line = f"{firmware.board.id}, build {firmware.build_id}, {kind}"
    OUT.print(line, highlight=False, soft_wrap=True)
    OUT.print(
        f"code {kib(sizes.flash_bytes)}, SRAM: variables {sizes.data + sizes.bss:,}, "
        f"stack {sizes.stack:,}, pool {kib(sizes.pool)}",
        highlight=False,
    )
    for file in data["files"]:
        OUT.print(escape(file), highlight=False, soft_wrap=True)
