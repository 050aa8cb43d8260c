"""Fine-tuning a published network on photos: an emulated Cortex-M7 ends with the host's bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.memory_table import network, plan_of

import mcutrain.data
from mcutrain.boards.table import get_board
from mcutrain.cli.emulated import bench
from mcutrain.compile import compile_program
from mcutrain.engine import Engine
from mcutrain.image.pack import pack
from mcutrain.trainer import Schedule, calibrated, samples_of

STEPS, SAMPLES = 50, 10
SCHEDULE = Schedule(rate=0.4 / 256, steps=STEPS)


@pytest.mark.qemu
@pytest.mark.slow
def test_fifty_steps_on_photos(refdata: Path) -> None:
    graph = network(refdata / "mcunet-5fps.pkl", 128)
    photos = f"npz:{refdata / 'datasets' / 'flowers5_jpeg128.npz'}?split=train&range=-1,1"
    data = mcutrain.data.open(photos)
    samples = samples_of(graph, data.take(slice(0, None, len(data) // SAMPLES)))[:SAMPLES]
    assert len({label for _, label in samples}) > 1
    compiled = calibrated(compile_program(graph, plan_of(graph, "49kb", 8)), samples)
    host = Engine(pack(compiled))
    losses = []
    with bench(
        get_board("qemu:mps2-an500"),
        pack(compiled),
        compiled.pool_bytes,
        [sample for sample, _ in samples],
    ) as booted:
        for step in range(STEPS):
            (sample, label), rate = samples[step % SAMPLES], SCHEDULE.at(step)
            booted.session.sample_from_memory(booted.samples[step % SAMPLES])
            there = booted.session.step(label, rate, rate)
            here = host.train(sample, label, rate)
            assert there.loss_bits == here.loss_bits
            losses.append(here.loss)
        assert booted.session.read_state() == host.state
    assert sum(losses[-SAMPLES:]) < sum(losses[:SAMPLES])  # it did learn
