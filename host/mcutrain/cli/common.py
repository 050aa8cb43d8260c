"""What all commands share: options, output as a table or JSON, networks by name."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.cells import cell_len
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from mcutrain.devices import open_device
from mcutrain.errors import InputError, UsageError
from mcutrain.files import check_writable, reason
from mcutrain.ir.graph import Graph
from mcutrain.ir.serialize import load
from mcutrain.link.session import Session
from mcutrain.link.speed import FASTEST
from mcutrain.plan.head import fresh_head

ROOT = Path(__file__).resolve().parents[3]

# Tables go to stdout, all else (progress, remarks) to stderr, so that output can be piped.
_WIDTH = 160  # where there is no terminal, so that nothing is cut
OUT = Console(width=None if sys.stdout.isatty() else _WIDTH)
ERR = Console(stderr=True)
_LINE_SECONDS = 10.0  # between lines of progress, where there is no terminal
MAX_BAUD = 10_000_000
_MAX_REAL = float(np.finfo(np.float32).max)  # devices take binary32
MAX_SEED = 2**32 - 1  # a device's random state is seeded with 32 bits

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Net = Annotated[str, typer.Argument(help="A quantised network: a file, or a name under models/.")]
SCHEME_HELP = (
    "What trains: head; bias:K or last:K, biases or all of the last K layers; full; a published "
    "scheme (49kb, 74kb, ...) for a published network; or a JSON file such as "
    '{"bias_last": 4, "weights": {"conv3": 0.25, "conv4": "all"}}.'
)
Scheme = Annotated[
    str,
    typer.Option(help=SCHEME_HELP),
]
FractionBits = Annotated[
    int | None, typer.Option(help="Extra bits a trained weight keeps: 0, 4 or 8.")
]
Classes = Annotated[
    int | None, typer.Option(help="Give the network a fresh classifier for so many classes.")
]
DeviceName = Annotated[
    str,
    typer.Option(
        help="host, an emulated board (qemu:netduinoplus2, ...), or a serial port: its name, auto "
        "for the only board, or usb:VID:PID[:SERIAL]."
    ),
]
BoardId = Annotated[str, typer.Option("--board", help="A board; mcutrain boards lists them.")]
DATA_HELP = (
    "Samples: folder:DIR (one sub-folder a class), npz:FILE, csv:FILE, idx:IMAGES,LABELS or "
    "fashion-mnist:test, with options: folder:DIR?size=32x32&count=100."
)
Data = Annotated[str, typer.Option(help=DATA_HELP)]


def output_file(what: str) -> Any:
    """The option -o of a file that is written at the end; refused at the start if it cannot be."""
    return typer.Option("--output", "-o", help=what, callback=writable)


def writable(path: Path | None) -> Path | None:
    """As `check_writable`, for options."""
    return None if path is None else check_writable(path)


Size = str | None


def _finite(value: float | None) -> float | None:
    """Ranges let NaN through, and infinity where they are open."""
    if value is not None and not abs(value) <= _MAX_REAL:
        raise typer.BadParameter(f"{value:g} is no finite number, or too large for float32")
    return value


def real(what: str, most: float | None = None) -> Any:
    """An option that is a finite number from 0 on, perhaps up to `most`."""
    return typer.Option(min=0, max=most, callback=_finite, help=what)


def size_of(text: str | None, option: str) -> int | None:
    """Bytes from `98304`, `96K` or `1M` (KiB, MiB).

    Raises:
        UsageError: it is no such number.
    """
    if text is None:
        return None
    number, unit = text.rstrip("kKmM"), text[-1:].upper()
    factor = {"K": 1024, "M": 1024 * 1024}.get(unit, 1)
    if not (number.isascii() and number.isdigit()) or len(text) - len(number) > 1:
        raise UsageError(f"'{text}' is no size", where=option, hint="bytes, or KiB as in 96K")
    return int(number) * factor


def rate_of(text: str) -> int:
    """The rate that --baud asks for, as `mcutrain.devices.open_device` takes it.

    Raises:
        UsageError: it is no rate.
    """
    if text == "max":
        return FASTEST
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= MAX_BAUD):
        raise UsageError(
            f"'{text}' is no rate", where="--baud", hint="bits a second, such as 921600, or max"
        )
    return int(text)


Baud = Annotated[
    int | None,
    typer.Option(
        parser=rate_of,
        metavar="RATE",
        help="Rate of a serial port: bits a second, or max; else as the board starts.",
    ),
]


def show(as_json: bool, data: Mapping[str, Any], render: Callable[[], object]) -> None:
    """Print a result: as JSON, or as `render` draws it on `OUT`."""
    if as_json:
        sys.stdout.write(json.dumps(data, indent=2, allow_nan=False) + "\n")
    else:
        render()


def table(title: str, *columns: str) -> Table:
    """An empty table; columns whose name starts with a space hold numbers."""
    # Without a least width, rich breaks a title that is longer than the table is wide.
    width = min(cell_len(Text.from_markup(title.strip()).plain), OUT.width)
    result = Table(
        title=title, title_justify="left", box=None, header_style="bold", min_width=width
    )
    for name in columns:
        result.add_column(name.strip(), justify="right" if name.startswith(" ") else "left")
    return result


class _Lines(Progress):
    """Where no bar can be drawn: a line now and then, so that a log shows that work goes on."""

    def __init__(self) -> None:
        super().__init__(console=ERR, disable=True)
        self._printed = time.monotonic()

    def update(self, task_id: TaskID, **fields: Any) -> None:
        """As `Progress.update`."""
        super().update(task_id, **fields)
        if time.monotonic() - self._printed < _LINE_SECONDS:
            return
        self._printed = time.monotonic()
        task = self.tasks[self.task_ids.index(task_id)]
        done = f"{task.description}: {task.completed:,.0f} of {task.total:,.0f}"
        ERR.print(f"{done}  {task.fields['note']}", highlight=False, markup=False)


def progress(quiet: bool) -> Progress:
    """A progress bar on stderr, without a terminal a line every ten seconds; with `quiet` nothing.

    Its tasks have the field `note`.
    """
    if not quiet and not ERR.is_terminal:
        return _Lines()
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=ERR,
        disable=quiet,
    )


def load_network(net: str, classes: int | None = None) -> Graph:
    """A network from its file or from its name under models/, perhaps with a fresh classifier.

    Raises:
        InputError: there is no such network; the message lists the names.
    """
    path = Path(net)
    if not path.is_file():
        known = bundled_networks()
        if net not in known:
            raise InputError(
                "no such network",
                where=net,
                why="it is no file, and no network that comes with mcutrain ("
                + (", ".join(sorted(known)) or "none")
                + ")",
                hint="mcutrain quantize MODEL --data DATA -o NET makes one",
            )
        path = known[net]
    graph = load(path)
    return graph if classes is None else fresh_head(graph, classes)


def bundled_networks() -> dict[str, Path]:
    """The quantised networks under models/, by name."""
    files = (ROOT / "models").rglob("*.net.npz")
    return {path.name.removesuffix(".net.npz"): path for path in files}


def open_with_image(device: str, image: Path, baud: int | None = None) -> Session:
    """A session with a device that finds the image in its flash, should SRAM be too small for it.

    baud: as of `mcutrain.devices.open_device`.

    Raises:
        McutrainError: as `mcutrain.devices.open_device`.
    """
    emulated = device == "host" or device.startswith("qemu:")
    preloads = [(image, 0)] if emulated else []
    return open_device(device, baud=baud, preloads=preloads)


def reference_data() -> Path | None:
    """The folder with published weights and data, or None: it is not part of this project."""
    named = os.environ.get("MCUTRAIN_REFDATA")
    path = Path(named) if named else ROOT.parent / "shared" / "refdata"
    return path if path.is_dir() else None


_READ_HINTS = {
    "image": "mcutrain pack NET -o IMAGE makes one",
    "state": "give a state that `mcutrain pull --state` wrote, or the folder of a run",
    "benchmark": "mcutrain bench NET --json > FILE makes one",
}


def read_bytes(path: Path, what: str) -> bytes:
    """The contents of a file that the user named.

    Raises:
        InputError: it is missing or cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            f"cannot read the {what}",
            where=str(path),
            why=reason(error),
            hint=_READ_HINTS.get(what, "check the path"),
        ) from error


def kib(nbytes: int) -> str:
    """Bytes for people: exact, with KiB behind."""
    return f"{nbytes:,} ({nbytes / 1024:.1f} KiB)"
