"""The architectures of models/ train on an emulated Cortex-M4 with the host's bytes (T07)."""

from __future__ import annotations

from pathlib import Path

import pytest
from models import ARCHITECTURES, Size
from tests.architectures import SIZES, quantised
from tests.image_cases import samples

from mcutrain.compile import compile_program
from mcutrain.devices import open_device
from mcutrain.engine import Engine
from mcutrain.image.pack import pack
from mcutrain.link.wire import Place
from mcutrain.plan.scheme import resolve_scheme
from mcutrain.trainer import calibrated

pytestmark = [pytest.mark.qemu, pytest.mark.torch]

STEPS = 3
RATES = (0.05, 0.05)
LAST_LAYERS = ("qemu:netduinoplus2", "last:2")  # fits the 128 KB of an STM32F405, whatever the size
ALL_LAYERS = ("qemu:mps2-an386", "full")


def train(name: str, size: Size, board: str, scheme: str, flash: Path) -> None:
    """From PyTorch to some steps on host and board; image and samples lie in the board's flash."""
    graph = quantised(name, size)
    compiled = compile_program(graph, resolve_scheme(graph, scheme), seed=41)
    data = samples(compiled, STEPS)
    image = pack(calibrated(compiled, data))
    flash.write_bytes(image + b"".join(sample for sample, _ in data))
    host = Engine(image)
    initial = host.state
    with open_device(board, preloads=[(flash, 0)]) as session:
        session.open_loaded(Place.FLASH, image)
        for step, (sample, label) in enumerate(data):
            session.sample_from_memory(len(image) + step * len(sample))
            found, wanted = session.step(label, *RATES), host.train(sample, label, *RATES)
            assert (found.loss_bits, found.predicted, found.saturated, found.clamped) == (
                wanted.loss_bits,
                wanted.predicted,
                wanted.saturated,
                wanted.clamped,
            )
        assert session.read_state() == host.state != initial
        sample, _ = data[0]
        assert session.predict(sample).logits == tuple(host.forward(sample).tolist())
        stats = session.stats()
        assert stats.pool_used <= stats.pool_planned
        assert (stats.guard_changed, stats.rx_overruns) == (0, 0)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_t07_every_architecture_trains_on_the_board_as_on_the_host(
    name: str, tmp_path: Path
) -> None:
    assert len(SIZES[name]) == 3
    for size in SIZES[name]:
        train(name, size, *LAST_LAYERS, tmp_path / "flash.bin")
    train(name, SIZES[name][-1], *ALL_LAYERS, tmp_path / "flash.bin")
