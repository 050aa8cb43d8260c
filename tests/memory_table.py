"""All SRAM of the published networks and schemes, as an emulated board uses it.

    python -m tests.memory_table     prints the table of docs/memory.md

The chip has just the SRAM that the plan needs; samples come over the UART. What counts is what the
linker placed, and of the stack its high-water mark in painted memory.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from tests.image_cases import samples

from mcutrain.boards.budgets import fit
from mcutrain.boards.build import build_firmware
from mcutrain.boards.emulate import EmulatedBoard, image_preload
from mcutrain.boards.table import Board, get_board
from mcutrain.compile import compile_program
from mcutrain.frontends import import_network
from mcutrain.image.pack import pack
from mcutrain.ir.graph import Graph, Node, Shape
from mcutrain.ir.program import CompiledProgram
from mcutrain.link.session import Session
from mcutrain.link.wire import Place
from mcutrain.plan import Plan
from mcutrain.plan.head import fresh_head
from mcutrain.plan.scheme import resolve_scheme

M4_128K, M4 = "qemu:netduinoplus2", "qemu:mps2-an386"


@dataclass(frozen=True)
class Row:
    """A network with ten classes, the board, and all SRAM that it must and should stay below."""

    network: str
    pixels: int
    scheme: str
    bits: int
    board: str
    must: int
    aim: int

    def __str__(self) -> str:
        trained = "inference only" if self.scheme == "inference" else f"{self.scheme}, {self.bits}"
        return f"{self.network} {self.pixels}x{self.pixels}, {trained}"


ROWS = (
    Row("mcunet-5fps", 128, "49kb", 8, M4_128K, 98_304, 90_112),
    Row("mcunet-5fps", 128, "49kb", 0, M4_128K, 86_016, 78_848),
    Row("mcunet-5fps", 128, "99kb", 8, M4, 188_416, 180_224),
    Row("mbv2-w0.35", 128, "49kb", 8, M4_128K, 100_352, 92_160),
    Row("mcunet-5fps", 96, "49kb", 8, M4_128K, 83_968, 77_824),
    Row("mcunet-5fps", 160, "49kb", 8, M4_128K, 114_688, 108_544),
    Row("mcunet-5fps", 128, "inference", 8, M4_128K, 45_056, 40_960),
)


@dataclass(frozen=True)
class Used:
    """Bytes of SRAM: what the plan says that the linker places, and what a board used.

    Attributes:
        planned: pool, variables and the whole stack, by the plan alone.
        linked: the same by the linker's map.
        pool: of the device, state and arena; static: variables and buffers of the link.
        stack: high-water mark.
    """

    planned: int
    linked: int
    pool: int
    static: int
    stack: int

    @property
    def total(self) -> int:
        """What counts."""
        return self.pool + self.static + self.stack


@cache
def network(path: Path, size: int) -> Graph:
    """With 10 classes and another input size, which the weights do not care about."""
    graph = fresh_head(import_network(path), 10)
    source = graph.tensors[graph.inputs[0]]
    tensors = dict(graph.tensors)
    tensors[source.name] = replace(source, shape=(size, size, source.shape[2]))
    nodes = []
    for node in graph.nodes:
        shape = tensors[node.inputs[0]].shape
        if node.op == "avgpool":  # over the whole map
            node = replace(node, attrs={**node.attrs, "kernel": shape[:2]})
        old = tensors[node.output]
        tensors[old.name] = replace(old, shape=(*_pixels(node, shape), old.shape[2]))
        nodes.append(node)
    return replace(graph, tensors=tensors, nodes=tuple(nodes))


def _pixels(node: Node, x: Shape) -> tuple[int, int]:
    if node.op in ("avgpool", "linear"):
        return (1, 1)
    if node.op != "conv2d":
        return x[:2]
    kernel, stride = node.params["weight"].shape[1:3], node.attrs["stride"]
    top, left, bottom, right = node.attrs["pad"]
    return (
        (x[0] + top + bottom - kernel[0]) // stride[0] + 1,
        (x[1] + left + right - kernel[1]) // stride[1] + 1,
    )


def plan_of(graph: Graph, scheme: str, bits: int) -> Plan:
    """A published scheme, or "inference": nothing trains."""
    return Plan(head=False) if scheme == "inference" else resolve_scheme(graph, scheme, bits)


def compiled(row: Row, folder: Path, pool: int | None = None) -> CompiledProgram:
    """The program of a row; `folder` holds the published networks."""
    graph = network(folder / f"{row.network}.pkl", row.pixels)
    return compile_program(graph, plan_of(graph, row.scheme, row.bits), pool=pool)


def measure(row: Row, program: CompiledProgram) -> Used:
    """Build for a chip cut to what is planned, and run two steps (without training, samples)."""
    board = get_board(row.board)
    image = pack(program)
    planned = fit(board, program.pool_bytes, len(image)).sram
    board = board.with_ram(-(-planned // 16) * 16)
    firmware = build_firmware(board, pool_bytes=program.pool_bytes)
    sizes = firmware.sizes
    pool, stack = _run(row, board, firmware.elf, program, image)
    return Used(planned, sizes.ram_bytes, pool, sizes.data + sizes.bss, stack)


def _run(
    row: Row, board: Board, elf: Path, program: CompiledProgram, image: bytes
) -> tuple[int, int]:
    """Bytes of the pool and of the stack that the device used."""
    with tempfile.TemporaryDirectory(prefix="mcutrain-") as folder:
        path = Path(folder) / "image.bin"
        path.write_bytes(image)
        emulator = EmulatedBoard(board, elf, [image_preload(board, path)])
        with Session(emulator, board.id) as session:
            session.open_loaded(Place.FLASH, image)
            for sample, label in samples(program, 2):
                session.predict(sample)
                if row.scheme != "inference":
                    session.train_step(sample, label, 0.01, 0.01)
            stats = session.stats()
    assert stats.guard_changed == 0
    return stats.pool_used, stats.stack_used


def main(folder: Path) -> None:
    """Print all rows."""
    print("| network, scheme, fractional bits | must | aim | **all** | pool | static | stack |")
    print("|---|---|---|---|---|---|---|")
    for row in ROWS:
        used = measure(row, compiled(row, folder))
        figures = (row.must, row.aim, used.total, used.pool, used.static, used.stack)
        print(f"| {row} | " + " | ".join(f"{n:,}" for n in figures) + " |", flush=True)


if __name__ == "__main__":
    main(Path(os.environ["MCUTRAIN_REFDATA"]))
