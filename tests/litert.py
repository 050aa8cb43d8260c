"""LiteRT as the oracle of imported TFLite files: every layer on LiteRT's own inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from mcutrain.compile import compile_program
from mcutrain.ir.graph import Graph, Node
from mcutrain.ir.reference import REFERENCE
from mcutrain.ir.reference.machine import Machine
from mcutrain.plan import Plan

litert = pytest.importorskip(
    "ai_edge_litert.interpreter", reason="LiteRT not installed; `make setup-test` does it"
)


@dataclass(frozen=True, eq=False)
class Difference:
    """Ours minus LiteRT's outputs of one layer, in LSB."""

    node: Node
    lsb: np.ndarray

    @property
    def beyond_one(self) -> float:
        """Share of the elements that differ by more than one."""
        return float((self.lsb > 1).mean())


class LiteRT:
    """An open TFLite file; every tensor of a run is kept. No delegate changes its arithmetic."""

    def __init__(self, path: Path) -> None:
        self._interpreter = litert.Interpreter(
            model_path=str(path),
            experimental_op_resolver_type=litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
            experimental_preserve_all_tensors=True,
        )
        self._interpreter.allocate_tensors()
        self._details = {t["name"]: t for t in self._interpreter.get_tensor_details()}

    def run(self, graph: Graph, x: np.ndarray) -> None:
        """Run on an int8 sample (H, W, C) of the imported network's input."""
        q = graph.tensors[graph.inputs[0]].q
        assert q is not None
        given = self._interpreter.get_input_details()[0]
        value = x
        if given["dtype"] == np.uint8:
            value = (x.astype(np.int16) + 128).astype(np.uint8)
        elif given["dtype"] == np.float32:
            value = (x.astype(np.float32) - q.zero_point) * np.float32(q.scale)
        self._interpreter.set_tensor(given["index"], value.reshape(given["shape"]))
        self._interpreter.invoke()

    def tensor(self, name: str) -> np.ndarray:
        """A tensor of the last run, without its batch."""
        return np.asarray(self._interpreter.get_tensor(self._details[name]["index"]))[0]

    def has(self, name: str) -> bool:
        """Whether the file has a tensor of that name."""
        return name in self._details

    def quantised(self, name: str, real: np.ndarray) -> np.ndarray:
        """Real values as the file's tensor would hold them."""
        scale, zero = self._details[name]["quantization"]
        return np.clip(np.round(real / scale + zero), -128, 127)


def layer_differences(path: Path, graph: Graph, samples: Iterator[np.ndarray]) -> list[Difference]:
    """Differences of every layer, each computed on the inputs that LiteRT's layer had."""
    oracle = LiteRT(path)
    program = compile_program(graph, Plan(head=False)).program
    machine = Machine(program)
    found: dict[str, list[np.ndarray]] = {}
    for x in samples:
        oracle.run(graph, x)
        for node in graph.nodes:
            for name in node.inputs:
                held = machine.memory.array(name)
                if name in graph.inputs:
                    held[...] = x
                elif oracle.has(name):  # else only our graph has it: a pool before its clamp
                    held[...] = _hwc(oracle.tensor(name), held.shape)
            for instr in program.instrs:
                if instr.layer == node.name:
                    REFERENCE[instr.op](instr, machine.memory, machine.runtime)
            if not oracle.has(node.output):
                continue
            ours = machine.memory.array(node.output)
            if node is graph.head:
                ours = oracle.quantised(node.output, ours)
            theirs = _hwc(oracle.tensor(node.output), ours.shape)
            lsb = np.abs(ours.astype(np.int64) - theirs.astype(np.int64))
            found.setdefault(node.name, []).append(lsb)
    return [Difference(graph.node(name), np.stack(lsbs)) for name, lsbs in found.items()]


def _hwc(value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A tensor of the file as (H, W, C); after a transpose the file has it as (C, H, W) or (C, H).

    Nothing in the names tells which, so shapes decide: tests use maps of other extents than
    channels.
    """
    if value.ndim > 1 and value.shape[0] == shape[2] and value.shape[0] != shape[0]:
        return np.moveaxis(value, 0, -1).reshape(shape)
    return value.reshape(shape)
