"""Writing firmware into a board with whichever flashing program is there."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mcutrain.boards.build import Firmware
from mcutrain.boards.table import Board, Flasher
from mcutrain.boards.toolchain import run
from mcutrain.errors import ToolchainError, UsageError

_TIMEOUT_S = 300.0
_BOOT_BAUD = "115200"


@dataclass(frozen=True)
class Job:
    """What is to be written. port: of the ROM's serial boot loader, None without one."""

    firmware: Firmware
    chip: Flasher
    port: str | None


@dataclass(frozen=True)
class Tool:
    """A flashing program.

    Attributes:
        name: of the program.
        how: what it takes, for people.
        install: the command that brings it.
        suits: whether it can write a board.
        commands: the arguments of its runs, without its own name.
    """

    name: str
    how: str
    install: str
    suits: Callable[[Job], bool]
    commands: Callable[[Job], list[list[str]]]


def _pyocd(job: Job) -> list[list[str]]:
    return [["load", "--target", job.chip.pyocd, "--format", "elf", str(job.firmware.elf)]]


def _openocd(job: Job) -> list[list[str]]:
    script = f"target/{job.chip.openocd}.cfg"
    program = f"program {{{job.firmware.elf}}} verify reset exit"
    return [["-f", "interface/stlink.cfg", "-f", script, "-c", program]]


def _parts(job: Job) -> list[tuple[Path, int]]:
    """Files and addresses: not one file, which would fill the saved states between with 0xFF."""
    board = job.firmware.board
    parts = [(job.firmware.binary, board.code.base)]
    if job.firmware.image_binary is not None:
        parts.insert(0, (job.firmware.image_binary, board.image.base))
    return parts


def _stm32flash(job: Job) -> list[list[str]]:
    runs = [
        ["-b", _BOOT_BAUD, "-v", "-w", str(file), "-S", f"{address:#x}"]
        for file, address in _parts(job)
    ]
    runs[-1] += ["-g", f"{job.firmware.board.code.base:#x}"]
    return [[*words, str(job.port)] for words in runs]


def _dfu_util(job: Job) -> list[list[str]]:
    runs = [["-a", "0", "-D", str(file), "-s", f"{address:#x}"] for file, address in _parts(job)]
    runs[-1][-1] += ":leave"
    return runs


# In this order: debuggers first, which need no button on the board.
TOOLS = (
    Tool("pyocd", "any debugger", "pip install pyocd", lambda _: True, _pyocd),
    Tool("openocd", "an ST-Link", "apt-get install -y openocd", lambda _: True, _openocd),
    Tool(
        "stm32flash",
        "the boot loader of the ROM on a serial port (BOOT0 high at reset)",
        "apt-get install -y stm32flash",
        lambda job: job.chip.boot_uart and job.port is not None,
        _stm32flash,
    ),
    Tool(
        "dfu-util",
        "the boot loader of the ROM over USB (BOOT0 high at reset)",
        "apt-get install -y dfu-util",
        lambda job: job.chip.dfu,
        _dfu_util,
    ),
)


def choose_tool(job: Job, name: str | None) -> Tool:
    """The tool that the user named, or the first one that is installed and suits the board.

    Raises:
        UsageError: no such tool, or it cannot write this board.
        ToolchainError: none is installed; the message says how to get one.
    """
    board = job.firmware.board.id
    suiting = [tool for tool in TOOLS if tool.suits(job)]
    if name is not None:
        suiting = [tool for tool in suiting if tool.name == name]
        if not suiting:
            raise UsageError(
                f"{name} cannot write this board",
                where=board,
                why="; ".join(f"{t.name}: {t.how}" for t in TOOLS),
                hint="leave --tool away; stm32flash wants --port",
            )
    for tool in suiting:
        if shutil.which(tool.name) is not None:
            return tool
    raise ToolchainError(
        "no program that can write this board is installed",
        where=board,
        why="looked for " + ", ".join(tool.name for tool in suiting),
        hint=f"{suiting[0].install} ({suiting[0].how}); mcutrain build -o FOLDER gives the files "
        "for any other program",
    )


def write(firmware: Firmware, tool: str | None = None, port: str | None = None) -> str:
    """Writes firmware into a board and starts it; returns the name of the program that did it.

    Args:
        firmware: for a real board.
        tool: its name; the first one that is there if absent.
        port: of the ROM's serial boot loader, for stm32flash.

    Raises:
        UsageError: the board is an emulated one, or the tool cannot write it.
        ToolchainError: the tool is missing or failed; the message has its own words.
    """
    job = Job(firmware, chip_of(firmware.board), port)
    chosen = choose_tool(job, tool)
    for arguments in chosen.commands(job):
        try:
            run([str(shutil.which(chosen.name)), *arguments], _TIMEOUT_S)
        except ToolchainError as error:
            raise _explained(error, chosen, job) from None
    return chosen.name


def chip_of(board: Board) -> Flasher:
    """What flashing tools call the chip of a board.

    Raises:
        UsageError: the board is an emulated one.
    """
    if board.flasher is None:
        raise UsageError(
            "an emulated board is not flashed",
            where=board.id,
            hint=f"use it as --device {board.id}: its firmware is built and started then",
        )
    return board.flasher


def _explained(error: ToolchainError, tool: Tool, job: Job) -> ToolchainError:
    said = error.why or ""
    hint = f"connect {tool.how} and try again"
    if tool.name == "pyocd" and "target type" in said.lower():
        hint = f"pyocd pack install {job.chip.pyocd}"
    return ToolchainError(error.message, where=job.firmware.board.id, why=said, hint=hint)
