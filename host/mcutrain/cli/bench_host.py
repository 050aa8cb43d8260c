"""`mcutrain bench --device host`: the time of a training step in the host engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
from rich.markup import escape

from mcutrain.cli.common import OUT, table
from mcutrain.compile import Savings, compile_program
from mcutrain.engine import Engine
from mcutrain.engine.build import vector_unit
from mcutrain.frontends.torch_simulated import PublishedStep, SimulatedStep
from mcutrain.image.pack import pack
from mcutrain.ir.graph import Graph
from mcutrain.plan import Plan
from mcutrain.trainer import calibrated

_RATE = 0.001
_ROUNDS = 25  # of everything in turn
_STEPS = 8  # of the engine in a round
_BATCHES = (1, 8)
_SEED = 0

Samples = Sequence[tuple[bytes, int]]
Step = Callable[[], None]


def bench_host(graph: Graph, plan: Plan, samples: Samples, pytorch: bool) -> dict[str, Any]:
    """Milliseconds of a step, medians over rounds, in CPU time of this process on one thread.

    Args:
        graph: a quantised network.
        plan: what trains.
        samples: input bytes and labels; at least 8.
        pytorch: also take the step in PyTorch, in turns with the engine's.

    Raises:
        ToolchainError: PyTorch is wanted and not installed.
    """
    classes = graph.tensors[graph.output].size
    labelled = [(sample, label % classes) for sample, label in samples]
    steps: dict[str, tuple[Step, int]] = {}
    for name, savings in (("whole maps", Savings(rows=False)), ("as on a device", Savings())):
        compiled = compile_program(graph, plan, seed=_SEED, savings=savings)
        engine = Engine(pack(calibrated(compiled, labelled, _SEED)))
        steps[name] = _engine_steps(engine, labelled), _STEPS
        steps[f"{name}, forward"] = _engine_forward(engine, labelled), _STEPS
    if pytorch:
        steps |= _torch_steps(graph, plan, labelled)
    times = _in_turns(steps)
    result: dict[str, Any] = {
        "vector_unit": vector_unit(),
        "step_ms": _median(times["whole maps"]),
        "forward_ms": _median(times["whole maps, forward"]),
        "device_step_ms": _median(times["as on a device"]),
        "device_forward_ms": _median(times["as on a device, forward"]),
    }
    if pytorch:
        result["pytorch"] = [_against(times, way) for way in ("published", "fused")]
    return result


def _engine_steps(engine: Engine, samples: Samples) -> Step:
    def run() -> None:
        for sample, label in samples[:_STEPS]:
            engine.train(sample, label, _RATE)

    return run


def _engine_forward(engine: Engine, samples: Samples) -> Step:
    def run() -> None:
        for sample, _ in samples[:_STEPS]:
            engine.forward(sample)

    return run


def _torch_steps(graph: Graph, plan: Plan, samples: Samples) -> dict[str, tuple[Step, int]]:
    """A step of each batch, order of the maps in memory, and way to write it."""
    steps = {}
    for way, kind in (("published", PublishedStep), ("fused", SimulatedStep)):
        step = kind(graph, plan.biases, plan.weights, plan.head)
        for batch, last in product(_BATCHES, (False, True)):
            name = f"{way}, batch {batch}, channels {'last' if last else 'first'}"
            inputs = step.inputs([sample for sample, _ in samples[:batch]], channels_last=last)
            labels = [label for _, label in samples[:batch]]
            steps[name] = _torch_step(step, inputs, labels), batch
    return steps


def _torch_step(step: SimulatedStep, inputs: dict[str, Any], labels: list[int]) -> Step:
    def run() -> None:
        step.train(inputs, labels, _RATE)

    return run


def _in_turns(steps: dict[str, tuple[Step, int]]) -> dict[str, list[float]]:
    """Milliseconds a sample of each, round after round; a round to warm up is not counted."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(_ROUNDS + 1):
        for name, (run, count) in steps.items():
            start = time.process_time()
            run()
            if number:
                times[name].append(1e3 * (time.process_time() - start) / count)
    return times


def _median(values: Sequence[float]) -> float:
    return round(float(np.median(values)), 3)


def _against(times: dict[str, list[float]], way: str) -> dict[str, Any]:
    """PyTorch's best, and how many times as long as ours it takes: quartiles over rounds."""
    ways = [name for name in times if name.startswith(way)]
    best = min(ways, key=lambda name: np.median(times[name]))
    ratios = np.array(times[best]) / np.array(times["whole maps"])
    low, middle, high = (round(float(q), 2) for q in np.quantile(ratios, (0.25, 0.5, 0.75)))
    return {
        "ms": {name: _median(times[name]) for name in ways},
        "best": best,
        "ratio": middle,
        "ratio_quartiles": [low, high],
    }


def draw_host(result: dict[str, Any]) -> None:
    """The figures as a table."""
    unit = "plain C" if result["vector_unit"] == "none" else result["vector_unit"]
    grid = table(
        f"{escape(result['network'])} on one core of this machine, {unit}", "what", " ms a sample"
    )
    for name, key in (
        ("training step", "step_ms"),
        ("of it forward", "forward_ms"),
        ("the same image as on a device, in rows", "device_step_ms"),
        ("of it forward", "device_forward_ms"),
    ):
        grid.add_row(name, f"{result[key]:.3f}")
    for way in result.get("pytorch", ()):
        for name, ms in way["ms"].items():
            grid.add_row(f"PyTorch: {name}", f"{ms:.3f}")
    OUT.print(grid)
    for way in result.get("pytorch", ()):
        low, high = way["ratio_quartiles"]
        OUT.print(
            f"PyTorch ({way['best']}) takes {way['ratio']:.1f} times as long "
            f"(quartiles of {_ROUNDS} rounds in turns: {low:.1f} to {high:.1f})",
            highlight=False,
        )
