"""What the rows train: named schemes, and plans that are computed for the bytes those need."""

from __future__ import annotations

import json
from pathlib import Path

from mcutrain.accuracy.grid import AUTO, AUTO_GENERATION, GENERATION, Row
from mcutrain.accuracy.samples import network_for, open_data
from mcutrain.compile import compile_program
from mcutrain.errors import InputError
from mcutrain.files import check_writable, make_folder, write_atomic
from mcutrain.ir.graph import Graph
from mcutrain.plan import Plan
from mcutrain.plan.scheme import plan_to_dict, resolve_scheme
from mcutrain.search.auto import Progress, automatic_plan


def compute_plan(row: Row, refdata: Path, out: Path, progress: Progress) -> None:
    """Choose what a row trains from its training samples, unless that was done before.

    It takes minutes of all cores: do it before the processes start that run the row.

    Args:
        row: one of computed plans.
        refdata: the reference data.
        out: where computed plans are kept, as scheme files.
        progress: as for `automatic_plan`.

    Raises:
        InputError: the plan that is there is damaged, or none can be written.
    """
    path = path_of(row, out)
    data = open_data(refdata, row.data, "train")
    graph = network_for(refdata, data)
    if path.is_file():
        _check(path, graph)
        return
    make_folder(path.parent)
    trials = check_writable(check_writable(path).with_name(f"{path.name}.trials"))
    published = resolve_scheme(graph, row.scheme.removeprefix(AUTO), row.bits)
    pool = compile_program(graph, published).pool_bytes
    found = automatic_plan(graph, data, pool, progress=progress, kept=trials)
    write_atomic(path, json.dumps(plan_to_dict(found.plan)) + "\n")
    trials.unlink(missing_ok=True)


def _check(path: Path, graph: Graph) -> None:
    try:
        resolve_scheme(graph, str(path))
    except InputError as error:
        raise InputError(
            "a plan that was computed before is damaged",
            where=str(path),
            why=error.message,
            hint="delete it, and it is computed again",
        ) from error


def plan_of(row: Row, graph: Graph, out: Path) -> Plan:
    """The plan of a row; `compute_plan` has made it if it is one that is computed."""
    if row.scheme.startswith(AUTO):
        return resolve_scheme(graph, str(path_of(row, out)))
    return resolve_scheme(graph, row.scheme, row.bits)


def path_of(row: Row, out: Path) -> Path:
    """The file of a computed plan."""
    name, generation = row.scheme.removeprefix(AUTO), f"{GENERATION}.{AUTO_GENERATION}"
    return out / "plans" / f"{row.data}-{name}-{row.bits}-{generation}.json"
