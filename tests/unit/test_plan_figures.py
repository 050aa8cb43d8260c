"""SRAM of the published networks and schemes at several sizes: bytes of state and arena."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from mcutrain.boards.budgets import fit
from mcutrain.boards.table import get_board
from mcutrain.compile import compile_program
from mcutrain.frontends import import_network
from mcutrain.image.pack import pack
from mcutrain.ir.graph import Graph, Node, Shape
from mcutrain.ir.macs import macs
from mcutrain.memory import plan_memory
from mcutrain.plan import Plan
from mcutrain.plan.head import fresh_head
from mcutrain.plan.scheme import resolve_scheme

FIRMWARE = 4608  # variables, buffers of the link, and the stack that is used

# Network, pixels a side, scheme, fraction bits; all SRAM that it may take, and the pool reached.
TABLE = [
    ("mcunet-5fps", 128, "49kb", 8, 98_304, 83_884),
    ("mcunet-5fps", 128, "49kb", 0, 86_016, 71_788),
    ("mcunet-5fps", 128, "99kb", 8, 188_416, 175_892),
    ("mbv2-w0.35", 128, "49kb", 8, 100_352, 88_504),
    ("mcunet-5fps", 96, "49kb", 8, 83_968, 71_866),
    ("mcunet-5fps", 160, "49kb", 8, 114_688, 101_492),
    ("mcunet-5fps", 128, "inference", 8, 45_056, 34_462),
]


@cache
def _network(path: Path, size: int) -> Graph:
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


def _plan(graph: Graph, scheme: str, bits: int) -> Plan:
    return Plan(head=False) if scheme == "inference" else resolve_scheme(graph, scheme, bits)


@pytest.mark.parametrize(("name", "size", "scheme", "bits", "must", "reached"), TABLE)
def test_pool_of_the_published_networks(
    refdata: Path, name: str, size: int, scheme: str, bits: int, must: int, reached: int
) -> None:
    """With no more scratch memory for the kernels than has room in it; else up to 2 KB more."""
    graph = _network(refdata / f"{name}.pkl", size)
    plan = _plan(graph, scheme, bits)
    small = compile_program(graph, plan, pool=reached)
    assert small.pool_bytes <= reached
    assert not any(i.op == "conv2d" for i in small.program.instrs[small.program.forward :])
    assert compile_program(graph, plan).pool_bytes + FIRMWARE <= must


LAYOUTS = [("mbv2-w0.35", 128, s) for s in ("49kb", "73kb", "99kb", "123kb", "138kb")]
LAYOUTS += [("mcunet-5fps", n, s) for n in (96, 160) for s in ("74kb", "99kb", "124kb", "148kb")]
LAYOUTS += [(name, size, scheme) for name, size, scheme, *_ in TABLE]


@pytest.mark.parametrize(("name", "size", "scheme"), sorted(set(LAYOUTS)))
def test_layouts_are_near_the_bound(refdata: Path, name: str, size: int, scheme: str) -> None:
    """Without the scratch memory that is cut to the gaps of a layout."""
    graph = _network(refdata / f"{name}.pkl", size)
    program = compile_program(graph, _plan(graph, scheme, 8)).program
    instrs = tuple(
        replace(
            i, operands={s: n for s, n in i.operands.items() if s != "scratch" or i.op == "head_dx"}
        )
        for i in program.instrs
    )
    memory = plan_memory(replace(program, instrs=instrs))
    assert memory.arena_bytes <= 1.01 * memory.lower_bound


def test_running_layers_again_brings_the_mobilenet_below_92160_bytes(refdata: Path) -> None:
    graph = _network(refdata / "mbv2-w0.35.pkl", 128)
    plan = resolve_scheme(graph, "49kb", 8)
    plain = compile_program(graph, plan, pool=88_504)
    less = compile_program(graph, plan, pool=92_160 - FIRMWARE)
    assert plain.pool_bytes + FIRMWARE > 92_160 >= less.pool_bytes + FIRMWARE
    work = [sum(macs(c.program, i) for i in c.program.instrs) for c in (plain, less)]
    assert work[0] < work[1] <= 1.03 * work[0]


def test_flash_of_the_mcunet_with_the_firmware(refdata: Path) -> None:
    """With the firmware's budget, which a build does not exceed."""
    graph = _network(refdata / "mcunet-5fps.pkl", 128)
    compiled = compile_program(graph, resolve_scheme(graph, "49kb", 8))
    board = get_board("qemu:netduinoplus2")
    assert fit(board, compiled.pool_bytes, len(pack(compiled))).flash <= 640 * 1024
