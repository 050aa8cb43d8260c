"""`mcutrain report`: a run as one HTML file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from mcutrain.cli.common import OUT, Json, output_file, progress, read_bytes, show
from mcutrain.errors import InputError
from mcutrain.files import write_atomic
from mcutrain.report.diagnosis import Diagnosis
from mcutrain.report.diagnosis import diagnose as run_again
from mcutrain.report.html import PHASES, render
from mcutrain.report.log import Run


def run(
    folder: Annotated[Path, typer.Argument(help="The folder of a run.")],
    output: Annotated[Path, output_file("The HTML file to write.")] = Path("report.html"),
    bench: Annotated[
        Path | None,
        typer.Option(help="What `mcutrain bench --json` printed for the same image."),
    ] = None,
    diagnose: Annotated[
        bool,
        typer.Option(
            "--diagnose",
            help="Repeat the run on the host engine: gradients, exponents, rails, updates.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Draw loss, accuracy, SRAM over the schedule, layers and classes of a run.

    The file needs nothing besides itself. Works for runs that go on or were stopped, too. Needs
    matplotlib (extra report).

    Example: mcutrain report run -o report.html
    """
    loaded = Run.load(folder)
    measured = None if bench is None else read_bench(bench)
    found = _diagnosed(loaded, as_json) if diagnose else None
    write_atomic(output, render(loaded, measured, found))
    summary = {"report": str(output), "steps": len(loaded.steps), "bytes": output.stat().st_size}
    show(as_json, summary, lambda: OUT.print(f"{escape(str(output))}", highlight=False))


def _diagnosed(run: Run, quiet: bool) -> Diagnosis:
    with progress(quiet) as display:
        task = display.add_task("diagnosis", total=None, note="")
        found = run_again(
            run, lambda done, total: display.update(task, completed=done, total=total)
        )
    if found is None:
        raise InputError(
            "there is nothing to diagnose",
            where=str(run.folder),
            why="no layer but the classifier trains, or no step was taken",
            hint="pack with a scheme that trains layers: mcutrain pack NET --scheme last:2",
        )
    return found


def read_bench(path: Path) -> dict[str, Any]:
    """What `mcutrain bench --json` printed into a file.

    Raises:
        InputError: it is not that.
    """
    hint = "mcutrain bench NET --json > FILE makes one"
    try:
        data = json.loads(read_bytes(path, "benchmark"))
    except (ValueError, RecursionError) as error:
        raise InputError("this is not JSON", where=str(path), why=str(error), hint=hint) from error
    rows = data.get("layers") if isinstance(data, dict) else None
    if not isinstance(rows, list) or not all(_is_row(row) for row in rows):
        raise InputError(
            "this is not what `mcutrain bench --json` prints", where=str(path), hint=hint
        )
    result: dict[str, Any] = data
    return result


def _is_row(row: object) -> bool:
    return (
        isinstance(row, dict)
        and isinstance(row.get("layer"), str)
        and row.get("phase") in PHASES
        and isinstance(row.get("instructions"), int)
    )
