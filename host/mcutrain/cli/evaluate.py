"""`mcutrain eval`: how often a network on a device is right."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

import mcutrain.data
from mcutrain.cli.common import (
    OUT,
    Baud,
    Data,
    DeviceName,
    Json,
    open_with_image,
    progress,
    read_bytes,
    show,
    table,
)
from mcutrain.cli.saturation import outside_input
from mcutrain.data import Dataset
from mcutrain.data.dataset import are_names
from mcutrain.errors import InputError
from mcutrain.image.unpack import Image, unpack
from mcutrain.link import Device
from mcutrain.report.log import IMAGE, Run
from mcutrain.trainer import Checkpoint, Evaluation, Inputs, encoder, evaluate, inputs_of


def run(
    image: Annotated[Path, typer.Argument(help="The image to run.")],
    data: Data,
    device: DeviceName = "host",
    baud: Baud = None,
    state: Annotated[
        Path | None, typer.Option(help="A trained state: a file, or the folder of a run.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Evaluate an image on a device, with its initial or with a trained state.

    Example: mcutrain eval demo.mcti --data fashion-mnist:test?count=300 --state run
    """
    content = read_bytes(image, "image")
    unpacked = unpack(content, str(image))
    names: list[str] = list(unpacked.metadata["classes"])
    samples = mcutrain.data.open(data).labelled_as(names)
    place = None if state is None else run_or_file(state)
    if isinstance(place, Run):  # a new classifier has numbers; the run's data gave them names
        samples = samples.labelled_as(place.info.get("classes", []))
    inputs = inputs_of(samples, encoder(unpacked, samples))
    outside = outside_input(samples, unpacked.inputs[0].q, as_json)
    trained = None if place is None else read_state(place, unpacked)
    with open_with_image(device, image, baud) as session:
        session.open(content)
        if trained is not None:
            session.write_state(trained)
        result = run_evaluation(session, samples, inputs, "evaluating", as_json)
    assert result is not None  # nothing can stop it half-way
    if not are_names(names) and len(samples.classes) == len(names):
        names = list(samples.classes)
    summary = result.to_dict() | {"classes": names, "outside_input": outside}
    show(as_json, summary, lambda: _draw(result, names))


def run_or_file(state: Path) -> Run | Path:
    """Where a trained state is: in the run of a folder, or in a file.

    Raises:
        InputError: the folder is not that of a run.
    """
    return Run.load(state) if state.is_dir() else state


def read_state(place: Run | Path, image: Image) -> bytes:
    """The bytes of a trained state of an image, from a file or from a run's last checkpoint.

    Raises:
        InputError: it cannot be read, or belongs to another image.
    """
    if isinstance(place, Run):
        folder = place.folder
        run = unpack(place.image, str(folder / IMAGE))
        if run.header["crc"] != image.header["crc"]:
            raise InputError(
                "the run trained another image",
                where=str(folder),
                why=f"its image has CRC {run.header['crc']:08x}, this one "
                f"{image.header['crc']:08x}",
                hint="evaluate the run's own image: "
                + shlex.join(["mcutrain", "eval", str(folder / IMAGE), "--state", str(folder)])
                + " --data DATA",
            )
        where, state = folder, Checkpoint.load(folder).state
    else:
        where, state = place, read_bytes(place, "state")
    check_state(state, image, str(where))
    return state


def check_state(state: bytes, image: Image, where: str) -> None:
    """Refuse a state that has not the size of the image's.

    Raises:
        InputError: the message says both sizes.
    """
    if len(state) != image.header["state_bytes"]:
        raise InputError(
            "the state does not belong to the image",
            where=where,
            why=f"it has {len(state):,} bytes, the image's {image.header['state_bytes']:,}",
            hint="use the image that was trained: a run folder has it, image.mcti",
        )


def run_evaluation(
    device: Device,
    data: Dataset,
    inputs: Inputs,
    title: str,
    quiet: bool,
    stop: Callable[[], bool] = lambda: False,
) -> Evaluation | None:
    """Evaluate under a progress bar; None if `stop` became true on the way."""
    result = None
    with progress(quiet) as display:
        task = display.add_task(title, total=len(data), note="")
        for done, result in evaluate(device, data, inputs):
            if stop():
                return None
            display.update(task, completed=done, note=f"{result.accuracy:.1%}")
    return result


def _draw(result: Evaluation, names: list[Any]) -> None:
    grid = table(
        f"{result.correct} of {result.total} right: {result.accuracy:.1%}",
        "class",
        " samples",
        " right",
        "most often taken for",
    )
    for label, row in enumerate(result.confusion):
        total = int(row.sum())
        if total:
            others = [(int(n), i) for i, n in enumerate(row) if i != label and n]
            wrong = f"{names[max(others)[1]]} ({max(others)[0]})" if others else ""
            grid.add_row(
                escape(str(names[label])), str(total), f"{row[label] / total:.0%}", escape(wrong)
            )
    OUT.print(grid)
