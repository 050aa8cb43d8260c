"""`mcutrain plan --waterfall`: what each step of saving memory saves."""

from __future__ import annotations

from dataclasses import asdict
from importlib.util import find_spec
from typing import Any

from rich.markup import escape

from mcutrain.cli.common import OUT, show, table
from mcutrain.frontends.torch_step import TorchMemory, measure_torch
from mcutrain.ir.graph import Graph
from mcutrain.plan.plan import Plan
from mcutrain.report.ladder import Rung, ladder


def show_ladder(graph: Graph, plan: Plan, scheme: str, as_json: bool) -> None:
    """Print the rungs, PyTorch's own measured memory above them where it is installed.

    Raises:
        ToolchainError: PyTorch is installed but its step failed.
    """
    torch = measure_torch(graph) if find_spec("torch") else None
    rungs = list(ladder(graph, plan))
    data: dict[str, Any] = {
        "network": graph.name,
        "scheme": scheme,
        "fraction_bits": plan.fraction_bits,
        "torch": None if torch is None else asdict(torch),
        "rungs": [asdict(r) | {"total": r.total} for r in rungs],
    }
    show(as_json, data, lambda: _draw(graph, scheme, torch, rungs))


def _draw(graph: Graph, scheme: str, torch: TorchMemory | None, rungs: list[Rung]) -> None:
    title = f"{graph.name}, sparse update: {scheme}; bytes of one training step, batch 1"
    rows = table(
        escape(title), "step", " total", " less by", " state", " arena", " backward", "set by"
    )
    last = None
    if torch is not None:
        rows.add_row("PyTorch, fp32: its process", f"{torch.process:,}")
        rows.add_row("of it, what the step added", f"{torch.step:,}")
        last = torch.step
    for r in rungs:
        less = "" if last is None else f"{last / r.total:.2f} x"
        numbers = (f"{n:,}" for n in (r.state, r.arena, r.backward))
        rows.add_row(r.name, f"{r.total:,}", less, *numbers, escape(r.peak))
        last = r.total
    OUT.print(rows)
    OUT.print(
        "backward: the most that is alive in the backward pass; set by: what sets the arena"
        + ("" if torch else "; pip install 'mcutrain[torch]' adds PyTorch's own memory"),
        highlight=False,
        markup=False,
    )
