"""The cache of prefixes, and runs from it: the bytes of a run without."""

from __future__ import annotations

from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.networks import NetworkBuilder

from mcutrain.compile import compile_program
from mcutrain.data import Dataset
from mcutrain.data.augment import Augmentation
from mcutrain.data.dataset import make
from mcutrain.engine import CachedEngine, Engine
from mcutrain.errors import InputError
from mcutrain.image.pack import pack
from mcutrain.plan.scheme import resolve_scheme
from mcutrain.trainer import HostRun, PrefixCache, Schedule, encoder, order_of, visits


def pixels(count: int = 12, views: int = 3) -> Dataset:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (count, 9, 9, 3)).astype(np.uint8)
    data = make(x, np.arange(count) % 4, "pixels").in_range(-2, 2)
    return data.augmented(Augmentation(("flip", "move"), views)) if views > 1 else data


@pytest.fixture(scope="module")
def image() -> bytes:
    b = NetworkBuilder((9, 9, 3), 5)
    y = b.conv("stem", "x", 8, 3, 2, 1, relu=True)
    y = b.conv("late", b.conv("middle", y, 6, relu=True), 6, relu=True)
    graph = b.head(b.global_pool("pool", y), 4)
    return pack(compile_program(graph, resolve_scheme(graph, "last:1")))


def test_what_is_kept_is_what_is_computed(image: bytes) -> None:
    engine, data = CachedEngine(image), pixels()
    encode = encoder(engine.image, data)
    cache = PrefixCache(engine, data)
    for _ in range(2):
        for index in reversed(range(12)):
            for view in range(3):
                expected = engine.prefix(encode(data.sample(index, view)))
                assert cache(index, view) == expected


def test_a_sample_is_computed_once(image: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, data = CachedEngine(image), pixels()
    cache = PrefixCache(engine, data)
    asked = []
    before = Dataset.sample
    monkeypatch.setattr(
        Dataset, "sample", lambda self, i, v=0: asked.append((i, v)) or before(self, i, v)
    )
    for _ in range(3):
        cache(4, 1)
        cache(5, 0)
    assert asked == [(4, 1), (5, 0)]


@pytest.mark.parametrize("jobs", [1, 2])
def test_all_can_be_computed_at_once_and_parts_share_them(image: bytes, jobs: int) -> None:
    engine, data = CachedEngine(image), pixels()
    cache = PrefixCache(engine, data)
    first = cache(7, 2)
    cache.fill(jobs)
    everything = cache.array()
    assert everything.shape == (12, 3, engine.prefix_bytes)
    assert everything.dtype == np.int8
    assert everything[7, 2].tobytes() == first
    one_by_one = PrefixCache(engine, data)
    for index, view in np.ndindex(12, 3):
        assert cache(index, view) == one_by_one(index, view) == everything[index, view].tobytes()
    chosen = np.array([11, 0, 7], np.int64)
    part = cache.part(chosen)
    assert (len(part), part.views, part.labels.tolist()) == (3, 3, data.y[chosen].tolist())
    for index, view in np.ndindex(3, 3):
        assert part(index, view) == everything[chosen[index], view].tobytes()


def test_a_full_cache_keeps_what_came_first_and_computes_the_rest(image: bytes) -> None:
    engine, data = CachedEngine(image), pixels()
    whole = PrefixCache(engine, data).array()
    limit = 5 * engine.prefix_bytes + 3
    cache = PrefixCache(engine, data, limit=limit)
    assert cache.nbytes <= limit
    for _ in range(2):
        for index, view in np.ndindex(12, 3):
            assert cache(index, view) == whole[index, view].tobytes()
    cache.fill(2)
    with pytest.raises(InputError, match="do not fit"):
        cache.array()
    with pytest.raises(InputError, match="do not fit"):
        cache.part(np.arange(2, dtype=np.int64))


@given(st.integers(1, 30), st.integers(1, 5), st.integers(0, 2**32 - 1), st.integers(0, 150))
def test_views_come_in_turn_and_samples_in_their_order(
    samples: int, views: int, seed: int, steps: int
) -> None:
    found = list(islice(visits(samples, seed, views), steps))
    assert [index for index, _ in found] == list(islice(order_of(samples, seed), steps))
    for sample in range(samples):
        seen = [view for index, view in found if index == sample]
        assert all(b == (a + 1) % views for a, b in pairwise(seen))
        assert all(0 <= view < views for view in seen)


def test_samples_start_with_different_views() -> None:
    first = [view for _, view in islice(visits(100, 0, 4), 100)]
    assert min(first.count(v) for v in range(4)) > 10
    assert first != [view for _, view in islice(visits(100, 1, 4), 100)]


def test_a_run_from_the_cache_ends_with_the_bytes_of_one_without(image: bytes) -> None:
    data, schedule = pixels(), Schedule(0.05, 40, head_factor=0.5)
    engine = CachedEngine(image)
    run = HostRun(engine, PrefixCache(engine, data), PrefixCache(engine, pixels(8, 1)))
    records: list[dict[str, object]] = []
    run.train(schedule, seed=3, log=records.append)
    plain = Engine(image)
    cached = CachedEngine(image)
    cached.reset(3)
    plain.state = cached.state
    encode = encoder(plain.image, data)
    for step, (index, view) in enumerate(islice(visits(12, 3, 3), 40)):
        rate = schedule.at(step)
        sample = encode(data.sample(index, view))
        result = plain.train(sample, int(data.y[index]), rate, rate * 0.5)
        assert records[step]["loss_bits"] == result.loss_bits
        assert (records[step]["sample"], records[step]["view"]) == (index, view)
    assert engine.state == plain.state
    test = pixels(8, 1)
    right = [int(plain.forward(encode(x)).argmax()) == label for x, label in test]
    assert run.accuracy() == np.mean(right)
    run.train(schedule, seed=3)
    assert engine.state == plain.state
    run.train(schedule, seed=4)
    assert engine.state != plain.state
