"""From a PyTorch module to a trained int8 network, six architectures at three sizes (T07);
an int8 ResNet can be differentiated (T03)."""

from __future__ import annotations

import numpy as np
import pytest
from models import Size
from tests.architectures import CASES, quantised

from mcutrain.compile import compile_program
from mcutrain.engine import Engine
from mcutrain.image.pack import pack
from mcutrain.ir.program import CompiledProgram
from mcutrain.ir.reference.machine import Machine
from mcutrain.plan.scheme import resolve_scheme
from mcutrain.trainer import calibrated

pytestmark = pytest.mark.torch

ROUNDS = 20
RATES = (0.1, 0.1)


def shades(compiled: CompiledProgram) -> list[tuple[bytes, int]]:
    """Four noisy samples, from dark to bright, with as many labels."""
    rng = np.random.default_rng(5)
    size = sum(compiled.program.values[name].count for name in compiled.program.inputs)
    dark = [-128, -64, 0, 64]
    noise = rng.integers(0, 64, (4, size))
    return [((noise[i] + dark[i]).astype(np.int8).tobytes(), i) for i in range(4)]


@pytest.mark.parametrize("scheme", ["last:2", "full"])
@pytest.mark.parametrize(("name", "size"), CASES)
def test_t03_t07_every_architecture_trains_as_the_reference(
    name: str, size: Size, scheme: str
) -> None:
    graph = quantised(name, size)
    compiled = compile_program(graph, resolve_scheme(graph, scheme), seed=1)
    data = shades(compiled)
    compiled = calibrated(compiled, data)
    engine, machine = Engine(pack(compiled)), Machine(compiled.program)
    for sample, label in data[:2]:
        found = engine.train(sample, label, *RATES)
        wanted = machine.train(sample, label, *RATES)
        assert found.loss_bits == wanted.loss.view(np.uint32)
    assert engine.state == machine.state_bytes(compiled)
    engine.reset()
    losses = [
        sum(engine.train(sample, label, *RATES).loss for sample, label in data)
        for _ in range(ROUNDS)
    ]
    assert min(losses) < 0.8 * losses[0]
