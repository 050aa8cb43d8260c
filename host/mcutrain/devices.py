"""What `--device` may name, opened: the host, an emulated board, a board on a serial port."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mcutrain.boards.build import build_firmware
from mcutrain.boards.emulate import EmulatedBoard, Preload, image_preload
from mcutrain.boards.table import BOARDS, get_board
from mcutrain.engine.loopback import Loopback
from mcutrain.errors import UsageError
from mcutrain.link.ports import is_port
from mcutrain.link.serial_port import SerialPort
from mcutrain.link.session import Session


def open_device(
    name: str, *, baud: int | None = None, preloads: Sequence[tuple[Path, int]] = ()
) -> Session:
    """Opens a session with a device.

    Args:
        name: `host`, a board of the table such as `qemu:netduinoplus2`, or a serial port: its name,
            `auto` for the only board that is connected, or `usb:VID:PID[:SERIAL]`.
        baud: rate of a serial port to agree on with the device, `speed.FASTEST` for the highest
            that works; None: the one at which it answers.
        preloads: files that are to lie in the flash partition before the device starts, each with
            its offset; for `host` and emulated boards.

    Raises:
        UsageError: no such device, or preloads for a serial port.
        ToolchainError: a compiler or the emulator is missing.
        LinkError: nothing answers.
    """
    if name == "host":
        return Session(Loopback(flash=_flash(preloads)), name)
    if name in BOARDS or name.startswith("qemu:"):
        board = get_board(name)
        files: list[Preload] = [image_preload(board, path, offset) for path, offset in preloads]
        return Session(EmulatedBoard(board, build_firmware(board).elf, files), name)
    if not is_port(name):
        raise UsageError(
            "unknown device",
            where=name,
            why="a device is `host`, a board or a serial port",
            hint=f"use host, {', '.join(BOARDS)}, auto, usb:VID:PID, or a port such as "
            "/dev/ttyACM0",
        )
    if preloads:
        raise UsageError("files cannot be placed in the flash of a board on a port", where=name)
    return Session(SerialPort(name), name, baud=baud)


def _flash(preloads: Sequence[tuple[Path, int]]) -> bytes:
    flash = bytearray()
    for path, offset in preloads:
        data = path.read_bytes()
        flash.extend(bytes(max(0, offset + len(data) - len(flash))))
        flash[offset : offset + len(data)] = data
    return bytes(flash)
