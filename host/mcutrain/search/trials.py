"""Short trainings on the host: how often a plan is right about samples that were held out.

The number of a trial stands for a split of the samples and the seed of a training. Trials with the
same number differ in nothing but plan and rate, and so do their results.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.compile import compile_program
from mcutrain.data import Dataset
from mcutrain.engine import CachedEngine
from mcutrain.image.pack import pack
from mcutrain.image.status import DivergedError
from mcutrain.ir.graph import Graph
from mcutrain.plan.plan import Plan
from mcutrain.search.kept import Kept
from mcutrain.trainer import CACHE_BYTES, HostRun, PrefixCache, Schedule, calibrated, samples_of

FOLDS = 3  # one of so many parts is held out
MOST_SAMPLES = 3000
EPOCHS = 4
_CALIBRATION = 20


Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Arm:
    """What a trial tries: a plan, by its number, and the highest rate of its training."""

    plan: int
    rate: float


class Trials:
    """Trains plans on most of some samples, and counts how often they are right about the others.

    Args:
        graph: a quantised network.
        data: samples, with their views; not all are used if there are many.
        plans: those that arms name by their numbers.
        kept: where results are kept, perhaps from an earlier search.
    """

    def __init__(
        self, graph: Graph, data: Dataset, plans: Sequence[Plan], kept: Kept | None = None
    ) -> None:
        some = samples_of(graph, data.spread(_CALIBRATION))
        images = [pack(calibrated(compile_program(graph, plan), some)) for plan in plans]
        self._idle = [[CachedEngine(image)] for image in images]
        sizes = {_boundary(engine): engine.prefix_bytes for (engine,) in self._idle}
        fit = CACHE_BYTES // (data.views * sum(sizes.values()))
        self._data = data.spread(min(MOST_SAMPLES, fit))
        self._images = images
        what = f"{data.name} {self._data.crc32()} {FOLDS} {EPOCHS}".encode()
        self._keys = [hashlib.sha256(image + what).hexdigest()[:16] for image in images]
        self._results = Kept() if kept is None else kept
        self._prefixes: dict[tuple[str, ...], PrefixCache] = {}
        self._stopped = threading.Event()

    def __len__(self) -> int:
        """How many samples it uses: so many that the frozen layers' results fit into memory."""
        return len(self._data)

    def run(
        self,
        arms: Sequence[Arm],
        number: int,
        progress: Callable[[int, int], None] = lambda _done, _all: None,
    ) -> list[float]:
        """The share of right predictions of each arm; what was run before is not run again.

        Args:
            arms: what to try.
            number: of the trial.
            progress: told how many are done, and of how many.
        """
        missing = [arm for arm in arms if self._key(arm, number) not in self._results]
        for arm in missing:
            with self._engine(arm.plan) as engine:
                self._make_prefixes(engine)
        with ThreadPoolExecutor(_cores()) as pool:
            try:
                shares = pool.map(lambda arm: self._try(arm, number), missing)
                for done, (arm, share) in enumerate(zip(missing, shares, strict=True)):
                    self._results[self._key(arm, number)] = share
                    progress(done + 1, len(missing))
            except BaseException:
                self._stopped.set()  # threads that are at work end with their next step
                raise
        return [self._results[self._key(arm, number)] for arm in arms]

    def _key(self, arm: Arm, number: int) -> str:
        return f"{self._keys[arm.plan]} {arm.rate!r} {number}"

    @contextmanager
    def _engine(self, plan: int) -> Iterator[CachedEngine]:
        """An engine that no other thread uses meanwhile; they take longer to make than to reset."""
        idle = self._idle[plan]
        try:
            engine = idle.pop()
        except IndexError:
            engine = CachedEngine(self._images[plan])
        yield engine
        idle.append(engine)

    def _make_prefixes(self, engine: CachedEngine) -> None:
        if _boundary(engine) not in self._prefixes:
            cache = PrefixCache(engine, self._data)
            cache.fill(_cores())
            self._prefixes[_boundary(engine)] = cache

    def split(self, number: int) -> tuple[Indices, Indices]:
        """Which samples a trial trains on, and which it holds out."""
        seed, fold = divmod(number, FOLDS)
        order = np.random.Generator(np.random.PCG64(seed)).permutation(len(self._data))
        return np.flatnonzero(order % FOLDS != fold), np.flatnonzero(order % FOLDS == fold)

    def _try(self, arm: Arm, number: int) -> float:
        with self._engine(arm.plan) as engine:
            prefixes = self._prefixes[_boundary(engine)]
            training, others = (prefixes.part(indices) for indices in self.split(number))
            run = HostRun(engine, training, others)
            try:
                run.train(Schedule(arm.rate, EPOCHS * len(training)), number, self._go_on)
                return run.accuracy()
            except DivergedError:
                return 0.0

    def _go_on(self, _record: dict[str, Any]) -> None:
        if self._stopped.is_set():
            raise KeyboardInterrupt


def _boundary(engine: CachedEngine) -> tuple[str, ...]:
    return tuple(tensor.name for tensor in engine.boundary)


def _cores() -> int:
    return os.cpu_count() or 1
