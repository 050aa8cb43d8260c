"""Rates, order, encoding of samples, checkpoints, first exponents."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.networks import NetworkBuilder, residual_network

from mcutrain.compile import compile_program
from mcutrain.data import Dataset
from mcutrain.data.dataset import make
from mcutrain.engine.engine import Engine
from mcutrain.errors import InputError
from mcutrain.image.pack import pack
from mcutrain.image.unpack import unpack
from mcutrain.ir.graph import Graph
from mcutrain.ir.serialize import network_hash
from mcutrain.plan.head import fresh_head
from mcutrain.plan.scheme import resolve_scheme
from mcutrain.quantize import quantize_input
from mcutrain.trainer import Checkpoint, Schedule, calibrated, encoder, order_of


def float_data(count: int, shape: tuple[int, int, int] = (8, 8, 3), classes: int = 4) -> Dataset:
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1.5, (count, *shape)).astype(np.float32)
    return make(x, np.arange(count) % classes, "made up", [f"c{i}" for i in range(classes)])


@given(st.floats(1e-6, 10), st.integers(1, 300), st.floats(0, 1), st.booleans(), st.floats(0, 100))
def test_rate_rises_to_its_highest_value_and_never_leaves_its_range(
    rate: float, steps: int, warmup: float, cosine: bool, head: float
) -> None:
    schedule = Schedule(rate, steps, warmup, cosine, head)
    rates = [schedule.at(step) for step in range(steps)]
    rising = round(warmup * steps)
    assert all(0 <= r <= rate * (1 + 1e-12) for r in rates)
    assert rates[:rising] == sorted(rates[:rising])
    assert max(rates) == pytest.approx(rate)
    if not cosine:
        assert set(rates[rising:]) <= {rate}
    elif rising < steps:
        assert rates[rising:] == sorted(rates[rising:], reverse=True)


def test_rates_by_hand() -> None:
    schedule = Schedule(0.8, 8, warmup=0.5)
    got = [schedule.at(step) for step in range(8)]
    assert got == pytest.approx([0.2, 0.4, 0.6, 0.8, 0.8, 0.6828427, 0.4, 0.1171573])


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({"rate": -1.0}, "rate"),
        ({"rate": float("nan")}, "rate"),
        ({"head_factor": float("inf")}, "head-factor"),
        ({"warmup": 1.5}, "warmup"),
        ({"steps": -1}, "steps"),
        ({"steps": 2**32}, "steps"),
        ({"rate": 1e39}, "rate"),
        ({"rate": 1e30, "head_factor": 1e10}, "head-factor"),
    ],
)
def test_impossible_schedules_are_refused(values: dict[str, float], where: str) -> None:
    with pytest.raises(InputError) as caught:
        Schedule(**{"rate": 0.1, "steps": 10, **values})
    assert caught.value.where == where


def first_of(samples: int, steps: int, seed: int) -> list[int]:
    return list(islice(order_of(samples, seed), steps))


@given(st.integers(1, 50), st.integers(0, 200), st.integers(0, 2**32))
def test_each_epoch_visits_every_sample_once(samples: int, steps: int, seed: int) -> None:
    order = first_of(samples, steps, seed)
    assert len(order) == steps
    for start in range(0, steps, samples):
        epoch = order[start : start + samples]
        assert len(set(epoch)) == len(epoch)
        if len(epoch) == samples:
            assert set(epoch) == set(range(samples))
    np.testing.assert_array_equal(order, first_of(samples, steps, seed))


def test_order_does_not_depend_on_the_number_of_steps() -> None:
    np.testing.assert_array_equal(first_of(20, 90, 3)[:50], first_of(20, 50, 3))
    assert first_of(20, 20, 3) != first_of(20, 20, 4)


def image_of(graph: Graph) -> bytes:
    return pack(compile_program(graph, resolve_scheme(graph, "head")))


@pytest.mark.parametrize("kind", ["float", "pixels"])
def test_samples_become_the_bytes_that_the_quantizer_makes(kind: str) -> None:
    b = NetworkBuilder((8, 8, 3))
    if kind == "pixels":
        x = b.tensors["x"]
        b.tensors["x"] = type(x)("x", x.shape, type(x.q)(1 / 255, -128))  # type: ignore[misc]
    graph = b.head(b.global_pool("pool", b.conv("conv", "x", 4)), 4)
    data = float_data(40)
    # Half steps, where the way of rounding shows.
    halves = (np.arange(8 * 8 * 3).reshape(8, 8, 3) - 96) * 0.5 * 0.02
    data = make(np.concatenate([data.x, halves[None]]), np.append(data.y, 0), "x", data.classes)
    if kind == "pixels":
        data = make((data.x * 60).astype(np.uint8), data.y, "x", data.classes)
    encode = encoder(unpack(image_of(graph)), data)
    expected = quantize_input(graph, data.x)["x"]
    for index in range(len(data)):
        assert encode(data.x[index]) == expected[index].tobytes()


def test_data_that_do_not_fit_the_network_are_refused() -> None:
    image = unpack(image_of(residual_network(8, 4)))
    with pytest.raises(InputError, match="shape"):
        encoder(image, float_data(4, (8, 7, 3)))
    with pytest.raises(InputError, match="more classes"):
        encoder(image, float_data(5, classes=5))


def test_network_with_two_inputs_is_refused() -> None:
    b = NetworkBuilder((4, 4, 2))
    other = b.input("other", (4, 4, 2))
    graph = b.head(b.global_pool("pool", b.add("sum", "x", other)), 3)
    with pytest.raises(InputError, match="several inputs"):
        encoder(unpack(image_of(graph)), float_data(3, (4, 4, 2), 3))


def test_checkpoint_is_replaced_whole(tmp_path: Path) -> None:
    Checkpoint(3, b"abc").save(tmp_path)
    Checkpoint(7, b"defg").save(tmp_path)
    assert Checkpoint.load(tmp_path) == Checkpoint(7, b"defg")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["checkpoint.json", "state-7.bin"]


@pytest.mark.parametrize("content", [None, "", "{", "[]", '{"step": 1}', '{"step":1,"state":"x"}'])
def test_unusable_checkpoint_says_so(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "checkpoint.json").write_text(content)
    with pytest.raises(InputError, match="no checkpoint"):
        Checkpoint.load(tmp_path)


def test_t53_checkpoint_that_a_disk_damaged_is_refused(tmp_path: Path) -> None:
    Checkpoint(3, bytes(100)).save(tmp_path)
    (tmp_path / "state-3.bin").write_bytes(bytes(99) + b"\1")
    with pytest.raises(InputError, match="damaged"):
        Checkpoint.load(tmp_path)


def test_checkpoint_reads_no_file_outside_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "secret").write_bytes(b"abc")
    Checkpoint(3, b"abc").save(tmp_path / "run")
    entry = json.loads((tmp_path / "run" / "checkpoint.json").read_text())
    entry["state"] = "../secret"
    (tmp_path / "run" / "checkpoint.json").write_text(json.dumps(entry))
    with pytest.raises(InputError, match="no checkpoint"):
        Checkpoint.load(tmp_path / "run")


def test_calibration_sets_predictors_and_nothing_else() -> None:
    graph = fresh_head(residual_network(8, 4), 4)
    compiled = compile_program(graph, resolve_scheme(graph, "last:4"))
    rng = np.random.default_rng(0)
    samples = [(rng.integers(-128, 128, 192).astype(np.int8).tobytes(), i) for i in range(30)]
    done = calibrated(compiled, samples)
    assert done.model_hash == network_hash(graph)
    for name, value in done.program.values.items():
        before = compiled.program.values[name].data
        if name == "predictor":
            assert value.data is not None
            assert np.abs(value.data).max() > 256  # beyond a factor of two
        elif before is not None:
            np.testing.assert_array_equal(value.data, before, err_msg=name)
    again = calibrated(compiled, samples)
    assert pack(again) == pack(done)


def test_first_errors_are_finer_when_calibrated() -> None:
    graph = residual_network(8, 4)
    compiled = compile_program(graph, resolve_scheme(graph, "last:6"))
    rng = np.random.default_rng(1)
    samples = [(rng.integers(-128, 128, 192).astype(np.int8).tobytes(), i % 4) for i in range(21)]

    def smallest_peak(image: bytes) -> int:
        """Over the int8 errors of the first step, the least of their largest magnitudes."""
        engine = Engine(image)
        with engine.trace() as written:
            assert engine.train(*samples[20], 0.01, 0.01).saturated == 0
        errors = {t.name for t in engine.image.tensors if t.error is not None}
        peaks = [
            int(np.abs(np.frombuffer(data, np.int8).astype(int)).max())
            for tensors in written.values()
            for name, data in tensors.items()
            if name in errors
        ]
        assert len(peaks) >= 5
        return min(peaks)

    fitted = calibrated(compiled, samples[:20])
    assert smallest_peak(pack(fitted)) > smallest_peak(pack(compiled))


def test_program_without_errors_needs_no_calibration() -> None:
    graph = residual_network(8, 4)
    compiled = compile_program(graph, resolve_scheme(graph, "head"))
    assert calibrated(compiled, []) is compiled


def test_checkpoint_file_is_json(tmp_path: Path) -> None:
    Checkpoint(1, b"x").save(tmp_path)
    assert json.loads((tmp_path / "checkpoint.json").read_text())["step"] == 1
