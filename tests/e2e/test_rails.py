"""Inputs and rates at their limits: counters tell, and nothing becomes NaN (T11)."""

from __future__ import annotations

import math

import pytest
from tests.networks import residual_network

from mcutrain.compile import compile_program
from mcutrain.devices import open_device
from mcutrain.image.pack import pack
from mcutrain.plan.scheme import resolve_scheme


@pytest.mark.parametrize("bits", [0, 4, 8])
def test_t11_inputs_at_both_rails_saturate_and_are_counted(bits: int) -> None:
    graph = residual_network()
    image = pack(compile_program(graph, resolve_scheme(graph, "full", bits)))
    rails = (b"\x7f", b"\x80", b"\x7f\x80", b"\x80\x7f\x7f")
    with open_device("host") as session:
        session.open(image)
        size = graph.tensors["x"].size
        steps = []
        for step in range(60):
            sample = (rails[step % 4] * size)[:size]
            # At first gently, then with weights that jump from rail to rail.
            steps.append(session.train_step(sample, step % 4, 0.01 if step < 20 else 5.0, 0.01))
        assert all(math.isfinite(s.loss) for s in steps)
        stats = session.stats()
        assert stats.saturated == sum(s.saturated for s in steps)
        assert stats.clamped == sum(s.clamped for s in steps) > 100
        # The executor accepts the state: no weight of -128, no bias beyond its bound.
        state = session.read_state()
        session.write_state(state)
        assert session.read_state() == state
