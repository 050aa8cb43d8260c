"""Training on emulated boards, bit for bit as on the host: ten steps, the state after 200."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from models import demo
from tests.image_cases import samples
from tests.networks import NetworkBuilder
from tests.traces import PROGRAMS, SKIPPING, assert_is_the_reference, by_device, program

from mcutrain.boards.table import BOARDS
from mcutrain.compile import compile_program
from mcutrain.devices import open_device
from mcutrain.engine import Engine
from mcutrain.image.pack import pack
from mcutrain.ir import serialize
from mcutrain.ir.program import CompiledProgram
from mcutrain.ir.reference.machine import Machine
from mcutrain.link.wire import Place
from mcutrain.plan.scheme import resolve_scheme
from mcutrain.trainer import calibrated

pytestmark = pytest.mark.qemu

M3, M4 = "qemu:mps2-an385", "qemu:netduinoplus2"


@pytest.mark.parametrize("name", [*PROGRAMS, *SKIPPING])
@pytest.mark.parametrize("board", BOARDS)
def test_t06_ten_steps_of_the_board_are_those_of_the_reference(
    board: str, name: str, tmp_path: Path
) -> None:
    path = tmp_path / "image.bin"
    path.write_bytes(pack(program(name)))
    with open_device(board, preloads=[(path, 0)]) as session:
        session.open_loaded(Place.FLASH, path.read_bytes())
        assert_is_the_reference(name, by_device(name, session))
        stats = session.stats()
        assert (stats.guard_changed, stats.rx_overruns) == (0, 0)


@cache
def demo_program() -> CompiledProgram:
    """The demo's network, scheme and kind of classifier: all that a user trains first."""
    graph = serialize.load(demo.HERE / "demo.net.npz")
    compiled = compile_program(graph, resolve_scheme(graph, str(demo.SCHEME)), seed=31)
    return calibrated(compiled, samples(compiled, 8, seed=1))


def test_t06_the_state_after_200_steps_is_that_of_the_host(tmp_path: Path) -> None:
    """Ten pictures with labels, over and over: the board learns them, as the host does."""
    compiled = demo_program()
    image, data = pack(compiled), samples(compiled, 10, seed=2)
    rates = (demo.LEARNING_RATE, demo.LEARNING_RATE)
    host = Engine(image)
    losses = [host.train(*data[step % 10], *rates).loss for step in range(200)]
    assert sum(losses[-10:]) < sum(losses[:10]) / 2
    size = len(data[0][0])
    flash = tmp_path / "flash.bin"
    flash.write_bytes(image + b"".join(sample for sample, _ in data))
    with open_device(M4, preloads=[(flash, 0)]) as session:
        session.open_loaded(Place.FLASH, image)
        found = []
        for step in range(200):
            session.sample_from_memory(len(image) + step % 10 * size)
            found.append(session.step(data[step % 10][1], *rates).loss)
        assert found == losses
        assert session.read_state() == host.state
        assert session.stats().guard_changed == 0


def test_t02_a_core_without_fpu_learns() -> None:
    """Four noisy patterns on a Cortex-M3: learned, and with the host's bytes."""
    b = NetworkBuilder((8, 8, 1), 2, "patterns")
    x = b.conv("c2", b.conv("c1", "x", 8, 3, 2, 1, relu=True), 12, 3, 1, 1, relu=True)
    graph = b.head(b.global_pool("pool", x), 4)
    compiled = compile_program(graph, resolve_scheme(graph, "full"), seed=3)
    image, host = pack(compiled), Machine(compiled.program)
    rng = np.random.default_rng(4)
    patterns = rng.integers(-90, 91, (4, 64))
    right = []
    with open_device(M3) as session:
        session.open(image)
        for step in range(120):
            noise = rng.integers(-20, 21, 64)
            sample = (patterns[step % 4] + noise).astype(np.int8).tobytes()
            found = session.train_step(sample, step % 4, 0.05, 0.05)
            host.train(sample, step % 4, 0.05, 0.05)
            right.append(found.predicted == step % 4)
        assert session.read_state() == host.state_bytes(compiled)
    assert sum(right[:20]) < 15
    assert sum(right[-40:]) >= 36
