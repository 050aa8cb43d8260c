"""Small compiled programs that together use every instruction, for tests of images and engine."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from tests.networks import NetworkBuilder, residual_network

from mcutrain.compile import compile_program
from mcutrain.engine.build import load
from mcutrain.engine.memory import GuardedMemory
from mcutrain.image import format as fmt
from mcutrain.image.pack import pack
from mcutrain.ir.graph import Graph, QParams
from mcutrain.ir.instructions import INSTRUCTIONS
from mcutrain.ir.program import CompiledProgram
from mcutrain.plan import Plan
from mcutrain.plan.scheme import resolve_scheme


def branches_network() -> Graph:
    """Two inputs, concat, a clamp, both pools, a grouped convolution, a hidden linear layer."""
    b = NetworkBuilder((7, 6, 2), 5, "branches")
    second = b.input("x2", (7, 6, 3), QParams(0.03, 5))
    left = b.conv("left", "x", 4, 3, 1, (1, 1, 1, 1), relu=True)
    right = b.conv("right", second, 6, (3, 2), 1, (1, 1, 1, 0))
    x = b.concat("both", left, b.clamp("clip", right, -100, 90))
    x = b.conv("grouped", x, 8, 3, 1, 1, groups=2, relu=True)
    a = b.conv("a", x, 8)
    x = b.add("sum", a, b.conv("dw", x, 8, 3, 1, 1, groups=8))
    x = b.add("again", b.conv("c", x, 8), a)
    x = b.pool("maxpool", "max", x, 3, 2, 1)
    x = b.pool("avgpool", "mean", x, 2, 1, 0)
    x = b.linear("hidden", x, 10)
    return b.head(x, 3)


def pools_network() -> Graph:
    """Pools beside a residual: their errors take the skip's in."""
    b = NetworkBuilder((6, 5, 3), 9, "pools")
    x = b.conv("first", "x", 5, 3, 1, 1)
    x = b.add("one", x, b.pool("avgpool", "mean", x, 3, 1, 1))
    x = b.add("two", x, b.pool("maxpool", "max", x, 3, 1, 1))
    return b.head(b.conv("last", x, 4, relu=True), 3)


def partial_plan(graph: Graph, bits: int) -> Plan:
    """Some input channels of dense and depthwise layers: permutations, gathers, channel tables."""
    weights = {
        "a": (1, 2, 5),
        "dw": (0, 3, 4, 7),
        "grouped": tuple(range(10)),
        "hidden": (0, 7, 9, 11),
        "right": (1,),
    }
    biases = ("left", "right", "grouped", "a", "dw", "hidden")
    return Plan(biases=biases, weights=weights, fraction_bits=bits)


@cache
def case(name: str) -> CompiledProgram:
    """A compiled program by name: see CASES."""
    kind, _, more = name.partition("-")
    if kind == "branches":
        graph = branches_network()
        return compile_program(graph, partial_plan(graph, int(more)), seed=11)
    graph = pools_network() if kind == "pools" else residual_network()
    scheme, bits = more.rsplit("-", 1)
    return compile_program(graph, resolve_scheme(graph, scheme, int(bits)), seed=7)


CASES = (
    "residual-head-8",
    "residual-bias:3-8",
    "residual-last:2-0",
    "residual-full-4",
    "residual-full-8",
    "branches-0",
    "branches-4",
    "branches-8",
    "pools-full-8",
)


@cache
def packed(name: str) -> bytes:
    return pack(case(name))


def samples(compiled: CompiledProgram, count: int, seed: int = 0) -> list[tuple[bytes, int]]:
    """Random samples (bytes of all inputs) with labels."""
    rng = np.random.default_rng(seed)
    values = compiled.program.values
    size = sum(values[name].count for name in compiled.program.inputs)
    classes = values[compiled.program.logits].count
    return [
        (rng.integers(0, 256, size, np.uint8).tobytes(), int(rng.integers(classes)))
        for _ in range(count)
    ]


class RawEngine:
    """The C functions without the Python checks before them: for bytes that are no image.

    While it runs, each instruction may change the bytes of the tensors that it writes (and the
    exponents and predictors), nothing else in the block: what it did beyond is in `stray`.
    """

    def __init__(self, image: bytes, block_bytes: int) -> None:
        module = load()
        self.lib, self._ffi = module.lib, module.ffi
        self._image = GuardedMemory(module, len(image))
        self._image.bytes[:] = np.frombuffer(image, np.uint8)
        self.original = image
        self.block = GuardedMemory(module, block_bytes)
        self._engine: Any = self._ffi.new("mct_engine *")
        self.status = int(
            self.lib.mct_engine_open(
                self._engine, self._image.pointer, len(image), self.block.pointer, block_bytes
            )
        )
        self.stray: list[tuple[int, list[int]]] = []
        self._before = self.block.bytes
        self._allowed: dict[int, np.ndarray] = {}

    @property
    def place(self) -> tuple[int, int]:
        return int(self._engine.refused.index), int(self._engine.refused.detail)

    def run(self, label: int = 0) -> list[int]:
        """A forward pass and two steps on whatever lies in the block; their statuses."""
        predicted = self._ffi.new("uint32_t *")
        result = self._ffi.new("mct_step_result *")
        watch = self._ffi.callback("mct_engine_hook", self._watch)
        self._engine.hook = watch
        self._write()
        statuses = [self.lib.mct_engine_forward(self._engine, predicted)]
        for lr in (0.01, 1e30):
            self._write()
            statuses.append(self.lib.mct_engine_train(self._engine, label, lr, 0.01, result))
        self._engine.hook = self._ffi.NULL
        return [int(s) for s in statuses]

    def _write(self) -> None:
        self.lib.mct_engine_restart(self._engine)
        size = self.lib.mct_engine_sample_bytes(self._engine)
        sample = (bytes(range(256)) * (size // 256 + 1))[:size]
        self.lib.mct_engine_write(self._engine, sample, size)

    def _watch(self, _context: Any, _engine: Any, instruction: int, event: int) -> None:
        if event == self.lib.MCT_HOOK_BEFORE:
            self._before = self.block.bytes.copy()
        elif event == self.lib.MCT_HOOK_AFTER:
            if instruction not in self._allowed:
                self._allowed[instruction] = self._written(instruction)
            changed = self.block.bytes != self._before
            wrong = np.flatnonzero(changed & ~self._allowed[instruction])
            if wrong.size:
                self.stray.append((instruction, wrong.tolist()))

    def _written(self, instruction: int) -> np.ndarray:
        """Which bytes of the block an instruction may change."""
        header = fmt.HEADER.unpack(self.original)
        start = header["program_offset"] + instruction * fmt.INSTRUCTION.size
        record = fmt.INSTRUCTION.unpack(self.original, start)
        spec = INSTRUCTIONS[fmt.OP_NAMES[record["op"]]]
        pairs = zip(spec.slots, record["tensors"], strict=False)
        tensors = [t for slot, t in pairs if slot.written and t != fmt.NONE]
        if any(slot.name == "e_x" for slot in spec.slots):
            tensors += [header["predictor"], header["exponent"]]
        allowed = np.zeros(self.block.bytes.size, bool)
        arena = (header["state_bytes"] + 3) // 4 * 4
        for index in tensors:
            at = header["tensors_offset"] + index * fmt.TENSOR.size
            tensor = fmt.TENSOR.unpack(self.original, at)
            base = 0 if tensor["space"] == fmt.SPACES["state"] else arena
            allowed[base + tensor["offset"] :][: tensor["bytes"]] = True
        return allowed

    def check(self) -> None:
        """The guards and the image are what they were, and no instruction strayed."""
        self.block.check("block")
        self._image.check("image")
        assert self._image.bytes.tobytes() == self.original
        assert not self.stray
