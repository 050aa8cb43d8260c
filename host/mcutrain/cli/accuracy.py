"""`mcutrain accuracy`: the table of int8 training beside its fp32 shadow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from mcutrain.accuracy.drive import drive
from mcutrain.accuracy.grid import DATA, Results, Row, Settings, all_rows
from mcutrain.accuracy.table import markdown, to_dict
from mcutrain.cli.common import ERR, OUT, ROOT, Json, output_file, progress, reference_data, show
from mcutrain.errors import InputError, UsageError
from mcutrain.files import locked, make_folder, write_atomic

BEGIN = "<!-- Written by `mcutrain accuracy` from here -->\n"
END = "<!-- to here -->\n"


def run(
    out: Annotated[Path, typer.Option("--out", help="The folder that keeps the results.")] = ROOT
    / "build"
    / "accuracy",
    output: Annotated[
        Path | None, output_file("A markdown file to write the table into, and a JSON file beside.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Data sets, joined by commas; without, all.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=100, help="Runs of each row.")] = 3,
    auto: Annotated[
        bool, typer.Option("--auto/--no-auto", help="Also plans computed as by plan --auto.")
    ] = True,
    extras: Annotated[
        bool, typer.Option("--extras/--no-extras", help="Also the rows that are run once.")
    ] = True,
    jobs: Annotated[int, typer.Option(min=1, max=64, help="Processes, a core each.")] = 2,
    refdata: Annotated[
        Path | None, typer.Option(help="Reference data; without, MCUTRAIN_REFDATA.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Fine-tune MCUNet-5FPS in int8 and with fp32 shadow weights, and compare.

    Three data sets; classifier only, the published 49 KB and 99 KB schemes, and on flowers5
    others. Each row takes the best of at least five learning rates on held-out training samples.
    Every run that is done is kept: stop it with Ctrl-C, run it again, and it goes on. Hours.

    Example: mcutrain accuracy --data flowers5 --no-extras
    """
    names = tuple(DATA) if data is None else tuple(data.split(","))
    if unknown := [n for n in names if n not in DATA]:
        raise UsageError(f"no data set '{unknown[0]}'", where="--data", hint=", ".join(DATA))
    source = refdata or reference_data()
    if source is None or not source.is_dir():
        raise InputError(
            "the reference data are not there",
            where=str(source or "MCUTRAIN_REFDATA"),
            hint="set MCUTRAIN_REFDATA to their folder; they are not part of mcutrain",
        )
    rows = all_rows(names, seeds, auto, extras)
    with locked(make_folder(out)):
        results = _drive(rows, source, out, jobs, as_json)
    table, text = to_dict(results), markdown(results)
    if output is not None:
        _write(output, text, table)
    show(as_json, table, lambda: OUT.print(text, markup=False, highlight=False))


def _drive(
    rows: list[tuple[Row, int]], refdata: Path, out: Path, jobs: int, quiet: bool
) -> Results:
    with progress(quiet) as display:
        task = display.add_task("runs", total=None, note="")

        def note(
            settings: Settings | None, result: Mapping[str, Any], done: int, total: int
        ) -> None:
            text = ""
            if settings is not None:
                seconds = f" in {result['seconds']:.0f} s"
                text = f"{_name(settings)}: {result['accuracy']:.1%}{seconds}"
                if not quiet:
                    ERR.print(text, highlight=False, markup=False)
            display.update(task, completed=done, total=total, note=text)

        def tell(what: str, done: int, total: int) -> None:
            display.update(task, note=f"computing a plan: {what}, {done} of {total}")

        return drive(rows, refdata, out, jobs, note, tell)


def _name(settings: Settings) -> str:
    row = settings.row
    kind = row.trainer + (f"/{row.bits}" if row.bits != 8 else "")
    kind += "" if row.scaled else " unscaled"
    return (
        f"{settings.part} {row.data} {row.scheme} {kind} rate {settings.rate:g} "
        f"seed {settings.seed}"
    )


def _write(path: Path, text: str, table: dict[str, Any]) -> None:
    """Put the tables between the marks of a file, which gets them at its end if it has none."""
    present = path.read_text(encoding="utf-8") if path.is_file() else "# Accuracy\n\n"
    before, _, rest = present.partition(BEGIN)
    after = rest.partition(END)[2]
    write_atomic(path, f"{before}{BEGIN}\n{text}\n\n{END}{after}")
    rows = ",\n".join(json.dumps(row) for row in table["rows"])
    rest = json.dumps({k: v for k, v in table.items() if k != "rows"}, indent=1)
    write_atomic(path.with_suffix(".json"), f'{{"rows": [\n{rows}\n],\n{rest[1:]}\n')
