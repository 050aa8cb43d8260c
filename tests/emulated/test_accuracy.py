"""The demo's network in float, in int8 on the host and on a board (T46)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from models import demo

import mcutrain.data
from mcutrain.compile import compile_program
from mcutrain.data import fashion
from mcutrain.devices import open_device
from mcutrain.engine import Engine
from mcutrain.image.pack import pack
from mcutrain.ir import serialize
from mcutrain.link.wire import Place
from mcutrain.plan import Plan
from mcutrain.trainer import encoder

pytestmark = [
    pytest.mark.qemu,
    pytest.mark.torch,
    pytest.mark.skipif(
        not fashion.DIRECTORY.is_dir(), reason="dataset-fashion-mnist not installed"
    ),
]

ON_THE_BOARD = 100


def test_t46_board_and_host_agree_and_are_as_accurate_as_float(tmp_path: Path) -> None:
    from models.demo.pretrain import accuracy, tensors  # needs torch

    graph = serialize.load(demo.HERE / "demo.net.npz")
    image = pack(compile_program(graph, Plan()))
    engine = Engine(image)
    data = mcutrain.data.open("fashion-mnist:test?seed=0&count=1000")
    encode = encoder(engine.image, data)
    samples = [encode(x) for x, _ in data]
    logits = [engine.forward(sample) for sample in samples]
    in_int8 = np.array([int(np.argmax(values)) for values in logits]) == data.y
    assert in_int8.mean() > 0.85
    assert in_int8.mean() >= accuracy(demo.load(), *tensors(data)) / 100 - 0.01
    flash = tmp_path / "flash.bin"
    flash.write_bytes(image + b"".join(samples[:ON_THE_BOARD]))
    with open_device("qemu:netduinoplus2", preloads=[(flash, 0)]) as session:
        session.open_loaded(Place.FLASH, image)
        for i in range(ON_THE_BOARD):
            session.sample_from_memory(len(image) + i * len(samples[i]))
            assert session.evaluate().logits == tuple(logits[i].tolist())
