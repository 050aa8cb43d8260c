"""`mcutrain demo`: a network fails after a change of camera, and learns again on a chip."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

import mcutrain.data
from mcutrain.boards.budgets import Fit, fit
from mcutrain.boards.build import Firmware, build_firmware
from mcutrain.boards.emulate import EmulatedBoard, image_preload
from mcutrain.boards.table import Board, get_board
from mcutrain.cli.bench import profile
from mcutrain.cli.common import ERR, OUT, ROOT, Json, load_network, open_with_image, show, table
from mcutrain.cli.doctor import DEMO_DATA, all_checks
from mcutrain.cli.fits import check_fit
from mcutrain.cli.interrupt import Stopper
from mcutrain.cli.pack import CALIBRATION_SAMPLES
from mcutrain.cli.work import Settings, Work, fresh_folder
from mcutrain.compile import compile_program
from mcutrain.errors import ToolchainError
from mcutrain.files import make_folder, write_atomic
from mcutrain.image.pack import pack
from mcutrain.ir.graph import Graph
from mcutrain.ir.program import CompiledProgram
from mcutrain.link import Counter
from mcutrain.link.session import Session
from mcutrain.plan.scheme import resolve_scheme
from mcutrain.report.html import render
from mcutrain.report.log import IMAGE, RUN, Run
from mcutrain.trainer import MAX_STEPS, calibrated, samples_of

BOARD = "qemu:netduinoplus2"
_ALIGN = 16  # of an image in SRAM


def run(
    steps: Annotated[int, typer.Option(min=1, max=MAX_STEPS, help="Training steps.")] = 600,
    device: Annotated[str, typer.Option(help="An emulated board.")] = BOARD,
    out: Annotated[Path, typer.Option(help="Folder for image, runs and report.")] = (
        ROOT / "build" / "demo"
    ),
    as_json: Json = False,
) -> None:
    """Boot the real firmware on an emulated STM32F405 and train on it over its serial port.

    The network in models/demo knows clothes in upright pictures; its new camera is mounted on its
    side and shows dark as light. Prints accuracy before and after, memory as planned, linked and
    used, and what a step costs; draws the run in build/demo/report.html.

    Example: mcutrain demo
    """
    board = get_board(device)
    _check_tools()
    demo = _demo_settings()
    graph = load_network("demo")
    make_folder(out)
    with Stopper() as stopper:
        parts = _Parts(board, graph, demo, out, steps, stopper, as_json)
        alone = parts.train_on_host("classifier", "head", demo.LEARNING_RATE_HEAD_ONLY)
        result = parts.train_on_board()
    result["comparison"] = {
        "classifier alone, trained on the host engine": alone["after"]["accuracy"]
    }
    write_atomic(out / "chip" / RUN, json.dumps(result, indent=2) + "\n")
    report = out / "report.html"
    write_atomic(report, render(Run.load(out / "chip"), result["bench"]))
    summary = _summary(result, alone, report)
    show(as_json, summary, lambda: _draw(summary))


def _check_tools() -> None:
    """The checks of `mcutrain doctor`: what is missing is named before anything starts."""
    wanted = ("matplotlib", DEMO_DATA)
    lacking = [c for c in all_checks() if not c.ok and (c.needed or c.name in wanted)]
    if lacking:
        raise ToolchainError(
            f"the demo needs {', '.join(c.name for c in lacking)}",
            why="; ".join(c.found for c in lacking),
            hint="make demo installs what is missing; mcutrain doctor lists it",
        )


def _demo_settings() -> Any:
    """The module models.demo, which lies in the checkout and not in the package."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    return importlib.import_module("models.demo")


@dataclass(frozen=True)
class _Parts:
    board: Board
    graph: Graph
    demo: Any
    out: Path
    steps: int
    stopper: Stopper
    quiet: bool

    def say(self, text: str) -> None:
        if not self.quiet:
            ERR.print(text, highlight=False, soft_wrap=True)

    def compiled(self, scheme: str) -> CompiledProgram:
        plan = resolve_scheme(self.graph, scheme)
        data = mcutrain.data.open(self.demo.TRAIN)
        samples = samples_of(self.graph, data.take(slice(CALIBRATION_SAMPLES)))
        return calibrated(compile_program(self.graph, plan), samples)

    def work(self, name: str, image: bytes, rate: float, device: str) -> Work:
        folder = self.out / name
        shutil.rmtree(folder, ignore_errors=True)
        fresh_folder(folder, image)
        settings = Settings(
            self.demo.TRAIN, self.demo.EVAL, rate, self.steps, warmup=self.demo.WARM_UP
        )
        return Work(image, settings, folder, device, self.stopper, self.quiet)

    def train_on_host(self, name: str, scheme: str, rate: float) -> Mapping[str, Any]:
        """For comparison: the same samples and bytes on the host, which is faster."""
        self.say("training the classifier alone, on the host engine, for comparison")
        work = self.work(name, pack(self.compiled(scheme)), rate, "host")
        with open_with_image("host", self.out / name / IMAGE) as session:
            return work.start(session)

    def train_on_board(self) -> dict[str, Any]:
        compiled = self.compiled(str(self.demo.SCHEME))
        image = pack(compiled)
        fits, in_sram = _place(self.board, compiled, image)
        check_fit(fits, self.board, compiled)
        self.say(f"counting the instructions of each layer on {self.board.id}")
        data = mcutrain.data.open(self.demo.TRAIN)
        samples = samples_of(self.graph, data.take(slice(CALIBRATION_SAMPLES)))
        layers = profile(self.board, compiled, image, samples)
        work = self.work("chip", image, self.demo.LEARNING_RATE, self.board.id)
        where = "over its serial port into SRAM" if in_sram else "in its flash partition"
        self.say(f"booting {self.board.id}; its image goes {where} ({len(image):,} bytes)")
        with _boot(self.board, fits.pool, None if in_sram else self.out / "chip" / IMAGE) as booted:
            firmware, session = booted
            result = dict(work.start(session))
        result["memory"] = _memory_rows(compiled, image, fits, firmware, result["stats"], in_sram)
        result["flash"] = {"firmware": firmware.sizes.flash_bytes, "image": len(image)}
        result["bench"] = {"layers": layers}
        return result


def _place(board: Board, compiled: CompiledProgram, image: bytes) -> tuple[Fit, bool]:
    """Where the image goes: to SRAM behind state and arena if there is room, else to flash."""
    block = -(-compiled.pool_bytes // _ALIGN) * _ALIGN
    beside = fit(board, block + len(image), 0)
    if beside.sram <= beside.ram:
        return beside, True
    return fit(board, compiled.pool_bytes, len(image)), False


@contextmanager
def _boot(board: Board, pool: int, in_flash: Path | None) -> Iterator[tuple[Firmware, Session]]:
    firmware = build_firmware(board, pool_bytes=pool)
    preloads = [] if in_flash is None else [image_preload(board, in_flash)]
    with Session(EmulatedBoard(board, firmware.elf, preloads), board.id) as session:
        yield firmware, session


def _memory_rows(
    compiled: CompiledProgram,
    image: bytes,
    fits: Fit,
    firmware: Firmware,
    stats: Mapping[str, Any],
    in_sram: bool,
) -> list[dict[str, Any]]:
    """SRAM as planned, as linked and as used by the device's own marks."""
    sizes = firmware.sizes
    static = sizes.data + sizes.bss
    rows: list[tuple[str, int | None, int | None, int | None]] = [
        ("state", compiled.state_bytes, None, None),
        ("arena", compiled.memory.arena_bytes, None, None),
    ]
    if in_sram:
        padding = fits.pool - compiled.pool_bytes - len(image)
        rows += [("image", len(image), None, None), ("alignment", padding, None, None)]
    rows += [
        ("pool: all of the above", fits.pool, sizes.pool, stats["pool_used"]),
        ("variables of the firmware", fits.static, static, static),
        ("stack", fits.stack, sizes.stack, stats["stack_used"]),
        (
            "SRAM",
            fits.sram,
            sizes.ram_bytes,
            stats["pool_used"] + static + stats["stack_used"],
        ),
    ]
    names = ("what", "planned", "linked", "high_water")
    return [dict(zip(names, row, strict=True)) for row in rows]


def _summary(result: Mapping[str, Any], alone: Mapping[str, Any], report: Path) -> dict[str, Any]:
    records = Run.load(report.parent / "chip").steps
    seconds = sum(r["seconds"] for r in records)
    ticks = sum(r["ticks_forward"] + r["ticks_backward"] for r in records)
    counter = Counter(**result["device"]["counter"])
    return {
        "board": result["device"]["name"],
        "test_samples": result["before"]["total"],
        "accuracy_before": result["before"]["accuracy"],
        "accuracy_classifier_alone": alone["after"]["accuracy"],
        "accuracy_after": result["after"]["accuracy"],
        "steps": len(records),
        "memory": result["memory"],
        "flash_bytes": sum(result["flash"].values()),
        "flash": result["flash"],
        "instructions_step": counter.events(round(ticks / len(records))),
        "samples_per_second": round(len(records) / seconds, 2),
        "guard_changed": result["stats"]["guard_changed"],
        "damaged_frames": result["stats"]["damaged"],
        "report": str(report),
    }


def _draw(summary: Mapping[str, Any]) -> None:
    grid = table(
        f"accuracy on {summary['test_samples']} held-out samples of the new camera", "", " right"
    )
    grid.add_row("before", f"{summary['accuracy_before']:.1%}")
    grid.add_row(
        "classifier alone trained (host engine, same samples)",
        f"{summary['accuracy_classifier_alone']:.1%}",
    )
    grid.add_row(
        f"trained on {summary['board']}, {summary['steps']:,} samples, each seen once",
        f"[bold]{summary['accuracy_after']:.1%}[/]",
    )
    OUT.print(grid)
    memory = table("\nSRAM, bytes", "", " planned", " linked", " high-water mark")
    for row in summary["memory"]:
        cells = (row[k] for k in ("planned", "linked", "high_water"))
        memory.add_row(row["what"], *("" if c is None else f"{c:,}" for c in cells))
    OUT.print(memory)
    other = table("\nwhat else", "", " number")
    flash = summary["flash"]
    other.add_row("flash: firmware, bytes", f"{flash['firmware']:,}")
    other.add_row("image, bytes", f"{flash['image']:,}")
    other.add_row("instructions a training step", f"{summary['instructions_step']:,}")
    other.add_row("samples trained a second over the link", f"{summary['samples_per_second']}")
    other.add_row("bytes changed beyond the chip's SRAM", f"{summary['guard_changed']}")
    other.add_row("damaged frames", f"{summary['damaged_frames']}")
    OUT.print(other)
    OUT.print(f"\npicture of the run: {escape(str(summary['report']))}", highlight=False)
