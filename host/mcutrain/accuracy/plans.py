"""What the rows train: named schemes, and plans that are computed for the bytes those need."""

from __future__ import annotations

import json
from pathlib import Path

from mcutrain.accuracy.grid import AUTO, AUTO_GENERATION, GENERATION, Row
from mcutrain.compile import compile_program
from mcutrain.data import Dataset
from mcutrain.files import make_folder, write_atomic
from mcutrain.ir.graph import Graph
from mcutrain.plan import Plan
from mcutrain.plan.scheme import plan_to_dict, resolve_scheme
from mcutrain.search.auto import automatic_plan


def plan_of(row: Row, graph: Graph, data: Dataset, out: Path) -> Plan:
    """The plan of a row.

    Args:
        row: see there.
        graph: the network with a fresh classifier.
        data: the row's training samples.
        out: where computed plans are kept, as scheme files.
    """
    name = row.scheme.removeprefix(AUTO)
    published = resolve_scheme(graph, name, row.bits)
    if name == row.scheme:
        return published
    generation = f"{GENERATION}.{AUTO_GENERATION}"
    path = make_folder(out / "plans") / f"{row.data}-{name}-{row.bits}-{generation}.json"
    if not path.is_file():
        pool = compile_program(graph, published).pool_bytes
        plan = automatic_plan(graph, data, pool).plan
        write_atomic(path, json.dumps(plan_to_dict(plan)) + "\n")
    return resolve_scheme(graph, str(path))
