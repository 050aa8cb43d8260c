"""Random networks and plans, with layers that the fast kernels are for: seeded, by number."""

from __future__ import annotations

import zlib

import numpy as np
from tests.networks import NetworkBuilder

from mcutrain.compile import Savings, compile_program
from mcutrain.engine import Engine
from mcutrain.image.pack import pack
from mcutrain.ir.graph import Graph
from mcutrain.ir.program import CompiledProgram
from mcutrain.plan.plan import Plan
from mcutrain.plan.scheme import plan_from_dict, trainable_layers

KINDS = ("conv", "depthwise", "depthwise", "block", "block", "pointwise", "pool", "clamp")
SPARE_MAX = 6000  # bytes of memory beyond what a program needs, for scratch


def _layer(b: NetworkBuilder, rng: np.random.Generator, name: str, x: str) -> str:
    h, w, c = b.tensors[x].shape
    kind = str(rng.choice(KINDS))
    k = min(int(rng.choice((1, 3, 3, 5, 7, rng.integers(1, 8)))), h, w)
    top, left, bottom, right = (int(rng.integers(0, k)) for _ in range(4))
    pad = (top, left, bottom, right) if rng.random() < 0.5 else k // 2
    stride, relu = int(rng.integers(1, 3)), bool(rng.integers(0, 2))
    outs = int(rng.choice((4, 8, 16, 24, rng.integers(1, 11))))
    if kind == "conv":
        return b.conv(name, x, outs, k, stride, pad, relu=relu)
    if kind == "pointwise":
        return b.conv(name, x, outs, relu=relu)
    if kind == "depthwise" and c > 1:
        return b.conv(name, x, c, k, stride, pad, groups=c, relu=relu)
    if kind == "block" and k % 2:
        wide = int(rng.choice((5, 8, 12, 16, 32)))
        y = b.conv(f"{name}a", x, wide, relu=True)
        y = b.conv(f"{name}b", y, wide, k, 1, k // 2, groups=wide, relu=True)
        return b.add(name, x, b.conv(f"{name}c", y, c))
    if kind == "pool":
        return b.pool(str(rng.choice(("avgpool", "maxpool"))), name, x, k, stride, k // 2)
    return b.clamp(name, x, -100, 90)


def _network(rng: np.random.Generator) -> Graph:
    size, channels = int(rng.integers(3, 26)), int(rng.integers(1, 5))
    shape = (size, size + int(rng.integers(0, 4)), channels)
    b, x = NetworkBuilder(shape, int(rng.integers(0, 1000))), "x"
    for i in range(int(rng.integers(2, 9))):
        x = _layer(b, rng, f"l{i}", x)
    return b.head(b.global_pool("pool", x), 3)


def _plan(graph: Graph, rng: np.random.Generator) -> Plan:
    layers = trainable_layers(graph)
    biases = int(rng.integers(0, len(layers) + 1))
    weights: dict[str, float | str] = {}
    for layer in layers[len(layers) - biases :]:
        if rng.random() < 0.6:
            share = float(rng.choice((0.125, 0.25, 0.5, 0.75)))
            few = graph.tensors[layer.inputs[0]].shape[2] * share < 1
            weights[layer.name] = "all" if few or rng.random() < 0.4 else share
    bits = int(rng.choice((0, 4, 8)))
    data = {"head": True, "fraction_bits": bits, "bias_last": biases, "weights": weights}
    return plan_from_dict(graph, data, "random")


def program(number: int) -> CompiledProgram:
    """By rows or not, with memory to spare or without."""
    rng = np.random.default_rng(number)
    graph = _network(rng)
    plan, savings = _plan(graph, rng), Savings(rows=bool(rng.integers(0, 2)))
    compiled = compile_program(graph, plan, savings=savings)
    if rng.random() < 0.5:
        return compiled
    pool = compiled.pool_bytes + int(rng.integers(0, SPARE_MAX))
    return compile_program(graph, plan, savings=savings, pool=pool)


def trained(number: int, steps: int = 4) -> tuple[int, int]:
    """Checksums of what the steps returned and of the state after them."""
    compiled = program(number)
    engine, rng = Engine(pack(compiled)), np.random.default_rng(number)
    size = compiled.program.values[compiled.program.inputs[0]].count
    results = [
        repr(engine.train(rng.integers(-128, 128, size).astype(np.int8), step % 3, 0.02, 0.02))
        for step in range(steps)
    ]
    assert engine.high_water() <= compiled.pool_bytes
    return zlib.crc32(repr(results).encode()), zlib.crc32(bytes(engine.state))
