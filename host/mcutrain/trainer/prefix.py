"""What the frozen part of a network makes of each sample, computed once and kept.

The bytes are what `mcutrain.engine.CachedEngine` takes instead of a sample.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from mcutrain.data import Dataset
from mcutrain.data.dataset import Labels
from mcutrain.engine.cached import CachedEngine
from mcutrain.engine.engine import Engine
from mcutrain.errors import InputError
from mcutrain.trainer.encode import encoder

Kept = npt.NDArray[np.int8]

CACHE_BYTES = 512 << 20


class PrefixCache:
    """The prefix bytes of every view of every sample, computed when they are first asked for.

    A training run visits all samples in turn, so that what was kept first is never thrown away for
    something newer: what does not fit is computed each time.

    Args:
        engine: the network.
        data: samples for its input.
        limit: bytes to keep at most; memory is taken as it fills.

    Raises:
        InputError: the data do not fit the network.
    """

    def __init__(self, engine: CachedEngine, data: Dataset, limit: int = CACHE_BYTES) -> None:
        self.data = data
        self._engine = engine
        self._encode = encoder(engine.image, data)
        self._lock = threading.Lock()
        count, size = len(data) * data.views, engine.prefix_bytes
        self._kept = np.empty((min(count, limit // size), size), np.int8)
        self._slots = np.full(count, -1, np.int64)
        self._used = 0

    def __len__(self) -> int:
        return len(self.data)

    @property
    def labels(self) -> Labels:
        """One a sample."""
        return self.data.y

    @property
    def views(self) -> int:
        """Of each sample."""
        return self.data.views

    @property
    def nbytes(self) -> int:
        """Bytes that are kept at most."""
        return self._kept.nbytes

    def __call__(self, index: int, view: int = 0) -> bytes:
        """The prefix bytes of a view of a sample."""
        slot = self._slots[index * self.data.views + view]
        if slot >= 0:
            return bytes(self._kept[slot].data)
        made = self._make(index, view, self._engine.whole_engine)
        self._keep(index, view, made)
        return made

    def fill(self, jobs: int = 1) -> None:
        """Compute all that is not there yet and fits, on `jobs` threads."""
        views = self.data.views
        missing = np.flatnonzero(self._slots < 0)[: len(self._kept) - self._used]
        engines = threading.local()

        def compute(number: int) -> None:
            index, view = divmod(number, views)
            if not hasattr(engines, "mine"):
                engines.mine = self._engine.another_whole()
            self._keep(index, view, self._make(index, view, engines.mine))

        with ThreadPoolExecutor(jobs) as pool:
            for _ in pool.map(compute, missing.tolist()):
                pass  # a failure is raised here

    def array(self) -> Kept:
        """All of them, (samples, views, bytes), computed where they are not there yet.

        Raises:
            InputError: they are more than the limit.
        """
        self._fill_whole()
        return self._kept[self._slots].reshape(len(self.data), self.data.views, -1)

    def part(self, chosen: npt.NDArray[np.int64]) -> PrefixPart:
        """The samples at `chosen`, in that order; nothing is copied.

        Raises:
            InputError: all prefixes together are more than the limit.
        """
        self._fill_whole()
        return PrefixPart(self, chosen)

    def _fill_whole(self) -> None:
        if len(self._kept) < len(self._slots):
            raise InputError(
                "the prefixes do not fit into the cache",
                where=self.data.name,
                why=f"{len(self._slots):,} of {self._kept.shape[1]:,} bytes",
                hint="take fewer samples or views",
            )
        self.fill()

    def _make(self, index: int, view: int, engine: Engine) -> bytes:
        return self._engine.prefix(self._encode(self.data.sample(index, view)), engine)

    def _keep(self, index: int, view: int, made: bytes) -> None:
        with self._lock:
            if self._used == len(self._kept):
                return
            self._kept[self._used] = np.frombuffer(made, np.int8)
            self._slots[index * self.data.views + view] = self._used
            self._used += 1


class PrefixPart:
    """Some samples of a cache; threads may share it.

    Args:
        cache: prefixes of all samples, filled.
        chosen: numbers of samples.
    """

    def __init__(self, cache: PrefixCache, chosen: npt.NDArray[np.int64]) -> None:
        self._cache, self._chosen = cache, chosen
        self.labels = cache.labels[chosen]
        self.views = cache.views

    def __len__(self) -> int:
        return len(self._chosen)

    def __call__(self, index: int, view: int = 0) -> bytes:
        """The prefix bytes of a view of the part's sample `index`."""
        return self._cache(int(self._chosen[index]), view)
