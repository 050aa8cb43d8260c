"""What all commands share: options, output as a table or JSON, networks by name."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from mcutrain.devices import open_device
from mcutrain.errors import InputError, UsageError
from mcutrain.ir.graph import Graph
from mcutrain.ir.serialize import load
from mcutrain.link.session import Session
from mcutrain.plan.head import fresh_head

ROOT = Path(__file__).resolve().parents[3]

# Tables go to stdout, all else (progress, remarks) to stderr, so that output can be piped.
_WIDTH = 160  # where there is no terminal, so that nothing is cut
OUT = Console(width=None if sys.stdout.isatty() else _WIDTH)
ERR = Console(stderr=True)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Net = Annotated[str, typer.Argument(help="A quantised network: a file, or a name under models/.")]
Scheme = Annotated[
    str,
    typer.Option(help="What trains: head, bias:K, last:K, full, a published scheme, or a file."),
]
FractionBits = Annotated[
    int | None, typer.Option(help="Extra bits a trained weight keeps: 0, 4 or 8.")
]
Classes = Annotated[
    int | None, typer.Option(help="Give the network a fresh classifier for so many classes.")
]
DeviceName = Annotated[
    str,
    typer.Option(help="host, an emulated board (qemu:netduinoplus2, ...), or a serial port."),
]
BoardId = Annotated[str, typer.Option("--board", help="A board of the board table.")]
Data = Annotated[str, typer.Option(help="Samples, for example fashion-mnist:test?count=100.")]

Size = str | None


def size_of(text: str | None, option: str) -> int | None:
    """Bytes from `98304`, `96K` or `1M` (KiB, MiB).

    Raises:
        UsageError: it is no such number.
    """
    if text is None:
        return None
    number, unit = text.rstrip("kKmM"), text[-1:].upper()
    factor = {"K": 1024, "M": 1024 * 1024}.get(unit, 1)
    if not number.isdigit() or len(text) - len(number) > 1:
        raise UsageError(f"'{text}' is no size", where=option, hint="bytes, or KiB as in 96K")
    return int(number) * factor


def show(as_json: bool, data: Mapping[str, Any], render: Callable[[], object]) -> None:
    """Print a result: as JSON, or as `render` draws it on `OUT`."""
    if as_json:
        sys.stdout.write(json.dumps(data, indent=2, allow_nan=False) + "\n")
    else:
        render()


def table(title: str, *columns: str) -> Table:
    """An empty table; columns whose name starts with a space hold numbers."""
    result = Table(title=title, title_justify="left", box=None, header_style="bold")
    for name in columns:
        result.add_column(name.strip(), justify="right" if name.startswith(" ") else "left")
    return result


def progress(quiet: bool) -> Progress:
    """A progress bar on stderr; nothing is drawn with `quiet` or without a terminal."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=ERR,
        disable=quiet or not ERR.is_terminal,
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
                why="it is neither a file nor one of " + (", ".join(sorted(known)) or "(none)"),
                hint="mcutrain quantize MODEL --data DATA -o NET makes one",
            )
        path = known[net]
    graph = load(path)
    return graph if classes is None else fresh_head(graph, classes)


def bundled_networks() -> dict[str, Path]:
    """The quantised networks under models/, by name."""
    files = (ROOT / "models").rglob("*.net.npz")
    return {path.name.removesuffix(".net.npz"): path for path in files}


def open_with_image(device: str, image: Path) -> Session:
    """A session with a device that finds the image in its flash, should SRAM be too small for it.

    Raises:
        McutrainError: as `mcutrain.devices.open_device`.
    """
    emulated = device == "host" or device.startswith("qemu:")
    return open_device(device, preloads=[(image, 0)] if emulated else [])


def reference_data() -> Path | None:
    """The folder with published weights and data, or None: it is not part of this project."""
    named = os.environ.get("MCUTRAIN_REFDATA")
    path = Path(named) if named else ROOT.parent / "shared" / "refdata"
    return path if path.is_dir() else None


def read_bytes(path: Path, what: str) -> bytes:
    """The contents of a file that the user named.

    Raises:
        InputError: it is missing or cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            f"cannot read the {what}", where=str(path), why=error.strerror or str(error)
        ) from error


def kib(nbytes: int) -> str:
    """Bytes for people: exact, with KiB behind."""
    return f"{nbytes:,} ({nbytes / 1024:.1f} KiB)"
