"""Bytes beside every buffer that nobody may write: intact in whole steps, and watched."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.image_cases import branches_network, samples
from tests.memory_table import network, plan_of
from tests.networks import residual_network

from mcutrain.compile import compile_program
from mcutrain.engine import Engine, HookEvent
from mcutrain.engine.canaries import canaries, check_canaries
from mcutrain.errors import InternalError
from mcutrain.image.format import CANARY_BYTES
from mcutrain.image.pack import pack
from mcutrain.ir.graph import Graph
from mcutrain.ir.program import CompiledProgram
from mcutrain.plan import Plan
from mcutrain.plan.scheme import resolve_scheme


def _both(graph: Graph, plan: Plan) -> tuple[CompiledProgram, CompiledProgram]:
    return compile_program(graph, plan), compile_program(graph, plan, canary=CANARY_BYTES)


def _check_steps(plain: CompiledProgram, watched: CompiledProgram, steps: int) -> None:
    """The same bytes with and without canaries, which stay as they are."""
    engines = Engine(pack(plain)), Engine(pack(watched))
    for sample, label in samples(plain, steps):
        want = engines[0].train(sample, label, 0.01)
        with canaries(engines[1]):
            assert engines[1].train(sample, label, 0.01) == want
    assert engines[0].state == engines[1].state


@pytest.mark.parametrize("scheme", ["head", "last:3", "full"])
@pytest.mark.parametrize("graph", [residual_network(24), branches_network()], ids=["rows", "cat"])
def test_canaries_stay_intact(graph: Graph, scheme: str) -> None:
    _check_steps(*_both(graph, resolve_scheme(graph, scheme)), steps=3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "scheme"), [("mcunet-5fps", "49kb"), ("mcunet-5fps", "99kb"), ("mbv2-w0.35", "49kb")]
)
def test_canaries_of_the_published_networks_stay_intact(
    refdata: Path, name: str, scheme: str
) -> None:
    graph = network(refdata / f"{name}.pkl", 128)
    _check_steps(*_both(graph, plan_of(graph, scheme, 8)), steps=2)


def test_buffers_with_canaries_keep_their_distance() -> None:
    graph = residual_network(24)
    plain, watched = _both(graph, resolve_scheme(graph, "last:3"))
    memory = watched.memory
    assert {b.name for b in memory.buffers} == {b.name for b in plain.memory.buffers}
    for a in memory.buffers:
        start, end = memory.offsets[a.name], memory.offsets[a.name] + a.nbytes
        assert CANARY_BYTES <= start <= end <= memory.arena_bytes - CANARY_BYTES
        for b in memory.buffers:
            if a is not b and a.first <= b.last and b.first <= a.last:
                other = memory.offsets[b.name]
                far = 2 * CANARY_BYTES
                assert other >= end + far or other + b.nbytes + far <= start


@pytest.mark.parametrize("place", ["before", "behind"])
def test_a_byte_beside_a_buffer_is_seen_at_once(place: str) -> None:
    """Whichever instruction writes it, and whoever's buffer it lies beside."""
    graph = residual_network(12)
    watched = compile_program(graph, resolve_scheme(graph, "last:3"), canary=CANARY_BYTES)
    image, (sample, label) = pack(watched), samples(watched, 1)[0]
    program = watched.program
    for index, instr in enumerate(program.instrs):
        for name in dict.fromkeys(map(program.base, instr.operands.values())):
            if name.space != "arena" or name.turns is not None:
                continue
            engine = Engine(image)
            at = engine._arena_start() + watched.value_offsets[name.name]
            at += -1 if place == "before" else name.nbytes

            def overrun(number: int, event: HookEvent, engine=engine, at=at, index=index) -> None:  # type: ignore[no-untyped-def]
                if number == index and event is HookEvent.AFTER:
                    engine._memory.bytes[at] ^= np.uint8(1)
                check_canaries(engine, number, event)

            with (
                pytest.raises(InternalError, match="beside a buffer") as caught,
                engine.hook(overrun),
            ):
                engine.train(sample, label, 0.01)
            assert f"layer {instr.layer} ({instr.op}, instruction {index})" in str(
                caught.value.where
            )
