"""What the runs train on: bytes behind the frozen prefix, in files that all processes share."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

import mcutrain.data
from mcutrain.accuracy.grid import DATA, GENERATION, NETWORK, SEARCH
from mcutrain.data import Dataset
from mcutrain.engine import CachedEngine
from mcutrain.files import make_folder
from mcutrain.frontends import import_network
from mcutrain.ir.graph import Graph
from mcutrain.plan.head import fresh_head
from mcutrain.trainer import PrefixCache

_HELD_OUT = 5  # one in so many training samples is for the choice of a rate
_AUGMENT = "&augment=flip+crop"


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples of one part of a data set.

    Attributes:
        prefixes: (all samples, views, bytes) int8, a file mapped into memory.
        labels: (all samples,).
        chosen: numbers of those that belong to the part.
    """

    prefixes: npt.NDArray[np.int8]
    labels: npt.NDArray[np.int64]
    chosen: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.chosen)

    def get(self, index: int, view: int = 0) -> tuple[bytes, int]:
        """Prefix bytes and label of the part's sample `index`."""
        number = self.chosen[index]
        return self.prefixes[number, view].tobytes(), int(self.labels[number])


def open_data(folder: Path, name: str, split: str) -> Dataset:
    """A data set of the reference data; the training samples with their views."""
    source = DATA[name]
    views = f"{_AUGMENT}&views={source.views}" if split == "train" else ""
    path = folder / "datasets" / source.file
    return mcutrain.data.open(f"npz:{path}?split={split}{source.options}&range=-1,1{views}")


def network_for(refdata: Path, data: Dataset) -> Graph:
    """The network with a fresh classifier for the classes of some data."""
    return fresh_head(import_network(refdata / NETWORK), data.classes)


def parts(
    engine: CachedEngine, refdata: Path, out: Path, name: str, part: str
) -> tuple[Samples, Samples]:
    """Samples to train on and to evaluate with.

    Args:
        engine: the network.
        refdata: the reference data.
        out: where prefixes are kept.
        name: the data set.
        part: SEARCH or TEST.
    """
    train = _mapped(engine, open_data(refdata, name, "train"), out)
    everything = np.arange(len(train.y), dtype=np.int64)
    if part != SEARCH:
        test = _mapped(engine, open_data(refdata, name, "test"), out)
        rest = np.arange(len(test.y), dtype=np.int64)
        return Samples(train.prefixes, train.y, everything), Samples(test.prefixes, test.y, rest)
    order = np.random.Generator(np.random.PCG64(0)).permutation(len(train.y)).astype(np.int64)
    held_out = np.sort(order[::_HELD_OUT])
    kept = np.setdiff1d(everything, held_out)
    return Samples(train.prefixes, train.y, kept), Samples(train.prefixes, train.y, held_out)


@dataclass(frozen=True, eq=False)
class _Mapped:
    prefixes: npt.NDArray[np.int8]
    y: npt.NDArray[np.int64]


def _mapped(engine: CachedEngine, data: Dataset, out: Path) -> _Mapped:
    """The prefixes of a data set, computed if no process has done so before."""
    names = ",".join(t.name for t in engine.boundary)
    key = hashlib.sha256(f"{GENERATION} {data.name} {data.views} {names}".encode()).hexdigest()[:16]
    path = make_folder(out / "prefixes") / f"{key}.npy"
    if not path.exists():
        temporary = path.with_name(f".{key}.{secrets.token_hex(4)}.npy")
        try:
            np.save(temporary, PrefixCache(engine, data, limit=1 << 31).array())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    return _Mapped(np.load(path, mmap_mode="r"), data.y)
