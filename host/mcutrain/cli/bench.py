"""`mcutrain bench`: instructions and memory of a training step on an emulated board; or time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.markup import escape

import mcutrain.data
from mcutrain.boards.budgets import fit
from mcutrain.boards.table import Board, get_board
from mcutrain.cli.bench_host import bench_host, draw_host
from mcutrain.cli.common import (
    OUT,
    Classes,
    FractionBits,
    Json,
    Net,
    Scheme,
    kib,
    load_network,
    show,
    table,
)
from mcutrain.cli.emulated import Bench, bench
from mcutrain.cli.fits import check_fit
from mcutrain.cli.pack import synthetic_samples
from mcutrain.compile import compile_program
from mcutrain.errors import UsageError
from mcutrain.image.pack import pack
from mcutrain.ir.graph import Graph
from mcutrain.ir.limits import limit
from mcutrain.ir.macs import macs, phase
from mcutrain.ir.program import CompiledProgram
from mcutrain.link import StepResult
from mcutrain.link.channel import RATES, START_BAUD
from mcutrain.link.throughput import step_bytes, steps_per_second
from mcutrain.link.wire import RunFlag
from mcutrain.plan.scheme import resolve_scheme
from mcutrain.trainer import calibrated, samples_of

# The first step is not measured: it starts from a classifier that may be all zero.
_STEPS = 5
_CALIBRATION = 8
_RATE = 0.01
_SEED = 0

Samples = Sequence[tuple[bytes, int]]


@dataclass(frozen=True)
class Measured:
    """Instructions of the measured steps, and the memory of the run."""

    forward: tuple[int, ...]
    backward: tuple[int, ...]
    ram: dict[str, int]
    firmware_flash: int
    text: int

    @property
    def step(self) -> int:
        """Mean instructions of a step, rounded."""
        return round((sum(self.forward) + sum(self.backward)) / len(self.forward))


def run(
    net: Net,
    scheme: Scheme = "last:3",
    fraction_bits: FractionBits = None,
    classes: Classes = None,
    device: Annotated[str, typer.Option(help="An emulated board, or host.")] = "qemu:netduinoplus2",
    data: Annotated[str | None, typer.Option(help="Samples to run; uniform noise without.")] = None,
    pytorch: Annotated[
        bool, typer.Option("--pytorch", help="With --device host: PyTorch's time, too.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Build, pack and run training steps, and count what they cost.

    The firmware's pool has exactly the size that the image needs, the image lies in flash, and
    samples come from memory. Instructions are counted with interrupts masked, compute only; the
    figures are means over four steps. SRAM is pool, variables and the stack's high-water mark.

    With --device host, the time of a step on one core of this machine; with --pytorch, also that of
    the same step in PyTorch (simulated quantization, eager), in turns, and the ratio.

    Example: mcutrain bench demo --scheme last:4 --device qemu:netduinoplus2
    """
    if device == "host":
        _on_host(net, scheme, fraction_bits, classes, data, pytorch, as_json)
        return
    if pytorch:
        raise UsageError(
            "PyTorch runs on the host only", where="--pytorch", hint="add --device host"
        )
    result = _on_board(net, scheme, fraction_bits, classes, device, data)
    show(as_json, result, lambda: _draw(result))


def _on_board(
    net: str,
    scheme: str,
    fraction_bits: int | None,
    classes: int | None,
    device: str,
    data: str | None,
) -> dict[str, Any]:
    board = get_board(device)
    if board.emulation is None:
        raise UsageError(
            "instructions are counted on emulated boards only",
            where=device,
            why="this board cannot be emulated",
            hint="mcutrain boards shows which can be",
        )
    graph = load_network(net, classes)
    plan = resolve_scheme(graph, scheme, fraction_bits)
    compiled = compile_program(graph, plan, seed=_SEED)
    samples = _samples(graph, data)
    compiled = calibrated(compiled, samples, _SEED)
    image = pack(compiled)
    check_fit(fit(board, compiled.pool_bytes, len(image)), board, compiled)
    measured = measure(board, compiled, image, samples)
    rows = profile(board, compiled, image, samples)
    return {
        "network": graph.name,
        "scheme": scheme,
        "classes": compiled.program.values[compiled.program.logits].count,
        "fraction_bits": plan.fraction_bits,
        "device": board.id,
        "instructions_step": measured.step,
        "instructions_forward": round(sum(measured.forward) / len(measured.forward)),
        "ram_bytes": sum(measured.ram.values()),
        "ram": measured.ram,
        "stack_bytes": measured.ram["stack"],
        "flash_bytes": measured.firmware_flash + len(image),
        "firmware_flash_bytes": measured.firmware_flash,
        "image_bytes": len(image),
        "text_bytes": measured.text,
        "macs_step": sum(row["macs"] for row in rows),
        "steps": [f + b for f, b in zip(measured.forward, measured.backward, strict=True)],
        "line": _line(len(samples[0][0]), measured.step),
        "layers": rows,
    }


def _line(sample_bytes: int, instructions: int) -> list[dict[str, Any]]:
    """What a serial line allows at each rate, and how fast the device must be to keep up."""
    rows = []
    for baud in (START_BAUD, *sorted(RATES)):
        steps = steps_per_second(sample_bytes, baud)
        rows.append(
            {
                "baud": baud,
                "bytes_step": step_bytes(sample_bytes),
                "steps_per_second": round(steps, 3),
                "instructions_per_second": round(steps * instructions),
            }
        )
    return rows


def _samples(graph: Graph, data: str | None) -> Samples:
    if data is None:
        return synthetic_samples(graph, _CALIBRATION, _SEED)
    return samples_of(graph, mcutrain.data.open(data).take(slice(_CALIBRATION)))


def _on_host(
    net: str,
    scheme: str,
    fraction_bits: int | None,
    classes: int | None,
    data: str | None,
    pytorch: bool,
    as_json: bool,
) -> None:
    graph = load_network(net, classes)
    plan = resolve_scheme(graph, scheme, fraction_bits)
    head = {"network": graph.name, "scheme": scheme, "device": "host"}
    result = head | bench_host(graph, plan, _samples(graph, data), pytorch)
    show(as_json, result, lambda: draw_host(result))


def measure(board: Board, compiled: CompiledProgram, image: bytes, samples: Samples) -> Measured:
    """Run steps on an emulated board whose pool has just the size that the image needs."""
    with bench(board, image, compiled.pool_bytes, _inputs(samples)) as booted:
        steps = _train(booted, compiled, samples, 0)
        stats = booted.session.stats()
        events = booted.session.info.counter.events
        sizes = booted.firmware.sizes
    return Measured(
        tuple(events(s.ticks_forward) for s in steps),
        tuple(events(s.ticks_backward) for s in steps),
        {"pool": sizes.pool, "static": sizes.data + sizes.bss, "stack": stats.stack_used},
        sizes.flash_bytes,
        sizes.text,
    )


def profile(
    board: Board, compiled: CompiledProgram, image: bytes, samples: Samples
) -> list[dict[str, Any]]:
    """MACs and instructions by layer and phase, of the last of the same steps.

    The records need room in the pool, so that this is another run than `measure`.
    """
    instructions = len(compiled.program.instrs)
    pool = compiled.pool_bytes + 4 * instructions
    with bench(board, image, pool, _inputs(samples)) as booted:
        _train(booted, compiled, samples, RunFlag.PROFILE)
        events = booted.session.info.counter.events
        spent = [events(ticks) for ticks in booted.session.ticks(instructions)]
    return layer_rows(compiled, spent)


def _inputs(samples: Samples) -> list[bytes]:
    return [sample for sample, _ in samples[:_STEPS]]


def _train(
    board: Bench, compiled: CompiledProgram, samples: Samples, flags: int
) -> list[StepResult]:
    labels = [label for _, label in samples[:_STEPS]]
    classes = compiled.program.values[compiled.program.logits].count
    steps = []
    for number, label in enumerate(labels):
        board.session.sample_from_memory(board.samples[number % len(board.samples)])
        last = number == len(labels) - 1
        steps.append(board.session.step(label % classes, _RATE, _RATE, flags if last else 0))
    return steps[1:]


def layer_rows(compiled: CompiledProgram, spent: Sequence[int]) -> list[dict[str, Any]]:
    """Sums by layer and phase, in the order in which they run; `spent` has one an instruction."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for instr, count in zip(compiled.program.instrs, spent, strict=True):
        key = (instr.layer, phase(instr))
        new = {"layer": key[0], "phase": key[1], "macs": 0, "limit": 0, "instructions": 0}
        row = rows.setdefault(key, new)
        row["macs"] += macs(compiled.program, instr)
        row["limit"] += limit(compiled.program, instr)
        row["instructions"] += count
    for row in rows.values():
        count = row["instructions"]
        row["macs_per_instruction"] = round(row["macs"] / count, 4) if count else None
        row["share_of_limit"] = round(row["limit"] / count, 4) if count and row["limit"] else None
    return list(rows.values())


def _draw(result: dict[str, Any]) -> None:
    grid = table(
        f"{result['network']} on {result['device']}",
        "layer",
        "phase",
        " MACs",
        " instructions",
        " MAC/instruction",
        " of the limit",
    )
    for row in result["layers"]:
        ratio, share = row["macs_per_instruction"], row["share_of_limit"]
        grid.add_row(
            escape(row["layer"]),
            row["phase"],
            f"{row['macs']:,}",
            f"{row['instructions']:,}",
            f"{ratio:.3f}" if ratio else "",
            f"{share:.0%}" if share else "",
        )
    OUT.print(grid)
    sums = table("\nin all", "what", " number")
    sums.add_row("instructions a step", f"{result['instructions_step']:,}")
    sums.add_row("of these forward", f"{result['instructions_forward']:,}")
    sums.add_row("multiply-accumulates a step", f"{result['macs_step']:,}")
    for name, nbytes in result["ram"].items():
        sums.add_row(f"SRAM: {name}", f"{nbytes:,}")
    sums.add_row("[bold]SRAM[/]", f"[bold]{kib(result['ram_bytes'])}[/]")
    sums.add_row("flash (firmware and image)", kib(result["flash_bytes"]))
    OUT.print(sums)
    first = result["line"][0]
    line = table(
        f"\nover a serial line, {first['bytes_step']:,} bytes a step",
        " baud",
        " steps/s, at most",
        " bound by the line above so many instructions/s",
    )
    for row in result["line"]:
        line.add_row(
            f"{row['baud']:,}",
            f"{row['steps_per_second']:,.2f}",
            f"{row['instructions_per_second']:,}",
        )
    OUT.print(line)
