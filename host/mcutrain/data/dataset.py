"""`Dataset`: images or windows in memory, with their labels, and the views to train on."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.data.augment import NO_AUGMENTATION, Augmentation
from mcutrain.data.encoded import EncodedImages
from mcutrain.errors import InputError

Samples = npt.NDArray[np.uint8] | npt.NDArray[np.float32]
Stored = Samples | EncodedImages
Labels = npt.NDArray[np.int64]

MAX_CLASSES = 65535  # of a network in an image
_LOOKED_AT = 16  # encoded images, decoded for `crc32`


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labelled samples, NHWC.

    Attributes:
        x: (N, H, W, C) as stored: uint8 pixels, perhaps still encoded, or float32. `sample` and
            `array` give what a network sees.
        y: (N,) int64, in [0, len(classes)).
        classes: one name a class.
        name: what the user called it; errors name it.
        limits: the real values of 0 and 255, for samples that are pixels, as uint8 or as floats;
            None leaves samples as they are stored.
        augmentation: how each sample's views are made.
    """

    x: Stored
    y: Labels
    classes: tuple[str, ...]
    name: str = "data"
    limits: tuple[float, float] | None = None
    augmentation: Augmentation = NO_AUGMENTATION

    def __post_init__(self) -> None:
        if self.x.ndim != 4 or 0 in self.x.shape[1:]:
            raise InputError(
                "samples must have four axes (N, H, W, C)",
                where=self.name,
                why=f"got shape {self.x.shape}",
            )
        if self.x.dtype not in (np.uint8, np.float32):
            raise InputError(
                "samples must be uint8 or float32", where=self.name, why=f"got {self.x.dtype}"
            )
        if self.y.dtype != np.int64 or self.y.shape != (len(self.x),):
            raise InputError(
                "there must be one int64 label a sample",
                where=self.name,
                why=f"{len(self.x)} samples, labels {self.y.dtype} of shape {self.y.shape}",
            )
        if len(self.y) and not 0 <= int(self.y.min()) <= int(self.y.max()) < len(self.classes):
            raise InputError(
                "a label lies outside of the classes",
                where=self.name,
                why=f"labels {self.y.min()} to {self.y.max()}, {len(self.classes)} classes",
            )
        x = self.x
        if isinstance(x, np.ndarray) and x.dtype == np.float32 and not np.isfinite(x).all():
            bad = int(np.flatnonzero(~np.isfinite(x).all(axis=(1, 2, 3)))[0])
            raise InputError(f"sample {bad} holds a NaN or an infinity", where=self.name)

    def __len__(self) -> int:
        return len(self.x)

    def __iter__(self) -> Iterator[tuple[Samples, int]]:
        """Pairs of one sample (H, W, C) and its label, in order."""
        for index, label in enumerate(self.y):
            yield self.sample(index), int(label)

    def sample(self, index: int, view: int = 0) -> Samples:
        """A sample (H, W, C), or one of its views: pixels (uint8), or real numbers (float32)."""
        stored = self.x[index]
        if view:
            stored = self.augmentation.view(stored.astype(np.uint8, copy=False), index, view)
        return self._seen(stored)

    def array(self) -> Samples:
        """All samples (N, H, W, C), none augmented."""
        return self._seen(np.asarray(self.x))

    def _seen(self, stored: npt.NDArray[Any]) -> Samples:
        if self.limits is None:
            return stored
        low, high = self.limits
        return stored.astype(np.float32) * np.float32((high - low) / 255) + np.float32(low)

    @property
    def views(self) -> int:
        """Views of each sample to train on; view 0 is the sample itself."""
        return self.augmentation.views

    def in_range(self, low: float, high: float) -> Dataset:
        """Pixels as real numbers from `low` (0) to `high` (255), for networks that take those.

        Floats from 0 to 255 are pixels here: tables and many arrays hold them so.

        Raises:
            InputError: the samples are no pixels.
        """
        if self.x.dtype == np.uint8 or self.limits is not None:
            self._need_pixels("be put into a range")
        else:
            self._need_0_to_255()
        return replace(self, limits=(low, high))

    def augmented(self, augmentation: Augmentation) -> Dataset:
        """The same samples with such views.

        Raises:
            InputError: the samples are no pixels.
        """
        if augmentation.kinds and self.x.dtype != np.uint8:
            self._need_pixels("be augmented")
        return replace(self, augmentation=augmentation)

    def labelled_as(self, names: Sequence[str]) -> Dataset:
        """The same samples with their classes in a network's order: a class is its name.

        Data of another folder may lack a class, or hold them in another order. Where one of both
        has no names but numbers, numbers are all there is, and nothing changes.

        Raises:
            InputError: a sample is of a class that is not among the names.
        """
        if not (are_names(self.classes) and are_names(names)) or self.classes == tuple(names):
            return self
        number = {name: i for i, name in enumerate(names)}
        used = [self.classes[int(i)] for i in np.unique(self.y)]
        unknown = [name for name in used if name not in number]
        if unknown:
            raise InputError(
                f"{unknown[0]!r} is no class of the network",
                where=self.name,
                why=f"its classes are {', '.join(names)}",
                hint="name the classes alike; --classes N of mcutrain pack makes a new classifier",
            )
        to = np.array([number.get(name, 0) for name in self.classes], np.int64)
        return replace(self, y=to[self.y], classes=tuple(names))

    def _need_0_to_255(self) -> None:
        x = np.asarray(self.x)
        if x.size and not (x.min() >= 0 and 1 < x.max() <= 255):
            raise InputError(
                "only pixels, 0 to 255, can be put into a range",
                where=self.name,
                why=f"the samples are real numbers from {x.min():g} to {x.max():g}",
                hint="give them in the range that the network takes, and leave out range=",
            )

    def _need_pixels(self, what: str) -> None:
        if self.x.dtype != np.uint8 or self.limits is not None:
            kind = "real numbers in a range" if self.limits is not None else str(self.x.dtype)
            raise InputError(
                f"only pixels can {what}", where=self.name, why=f"the samples are {kind}"
            )

    @property
    def shape(self) -> tuple[int, int, int]:
        """(H, W, C) of one sample."""
        height, width, channels = self.x.shape[1:]
        return height, width, channels

    def crc32(self) -> int:
        """Of labels and samples; of encoded images only some are looked at."""
        x = self.x
        if isinstance(x, EncodedImages):
            some = np.linspace(0, len(x) - 1, min(len(x), _LOOKED_AT)).astype(np.int64)
            x = np.asarray(x.take(some))
        labels, samples = (np.ascontiguousarray(a).data for a in (self.y, x))
        return zlib.crc32(samples, zlib.crc32(labels))

    def real(self) -> npt.NDArray[np.float32]:
        """The samples as real numbers, float32: uint8 is divided by 255."""
        samples = self.array()
        if samples.dtype == np.uint8:
            return samples.astype(np.float32) / np.float32(255)
        return samples.astype(np.float32, copy=False)

    def take(self, indices: npt.NDArray[np.int64] | slice) -> Dataset:
        """The samples at `indices`, in that order."""
        x = self.x.take(indices) if isinstance(self.x, EncodedImages) else self.x[indices]
        return replace(self, x=x, y=self.y[indices])

    def spread(self, most: int) -> Dataset:
        """At most so many samples, from all over the data, which may be sorted by class."""
        count = min(most, len(self))
        return self.take(np.linspace(0, len(self) - 1, count).round().astype(np.int64))

    def shuffled(self, seed: int) -> Dataset:
        """The same samples in an order that depends on the seed alone (numpy PCG64)."""
        order = np.random.Generator(np.random.PCG64(seed)).permutation(len(self))
        return self.take(order.astype(np.int64))

    def only(self, kept: Sequence[int]) -> Dataset:
        """The samples of the classes `kept`, which are renumbered 0, 1, ... in the given order.

        Raises:
            InputError: a class is named twice or does not exist.
        """
        if len(set(kept)) != len(kept) or any(not 0 <= k < len(self.classes) for k in kept):
            raise InputError(
                f"classes must be different numbers from 0 to {len(self.classes) - 1}",
                where=self.name,
                why=f"got {', '.join(map(str, kept))}",
            )
        number = np.full(len(self.classes), -1, np.int64)
        number[list(kept)] = np.arange(len(kept))
        y = number[self.y]
        chosen = np.flatnonzero(y >= 0)
        names = tuple(self.classes[k] for k in kept)
        return replace(self.take(chosen), y=y[chosen], classes=names)


def make(
    x: npt.NDArray[Any] | EncodedImages,
    y: npt.NDArray[Any],
    name: str,
    classes: Sequence[str] = (),
) -> Dataset:
    """A `Dataset` from arrays as files hold them.

    Args:
        x: (N, H, W, C), (N, H, W) or (N, features); uint8, or anything that converts to float32.
            Missing axes are added: (N, H, W, 1), (N, 1, 1, features). Or encoded images.
        y: (N,) whole numbers from 0.
        name: the file, for errors.
        classes: names; if empty, the numbers from 0 to the largest label.

    Raises:
        InputError: shapes or types that do not make a data set.
    """
    if not x.ndim or not y.ndim:
        raise InputError(
            "samples and labels must be arrays with one entry a sample",
            where=name,
            why=f"the samples have shape {x.shape}, the labels {y.shape}",
        )
    if isinstance(x, np.ndarray):
        x = _four_axes(x, name)
    labels = _converted(y, np.int64, "labels", name)
    if not np.array_equal(labels, y):
        raise InputError(
            "labels must be whole numbers",
            where=name,
            why=f"they are {y.dtype}, some with fractions or out of range",
        )
    labels = labels.reshape(len(labels)) if labels.size == len(labels) else labels
    if labels.size and int(labels.max()) >= MAX_CLASSES:
        raise InputError(
            f"labels must be below {MAX_CLASSES}",
            where=name,
            why=f"the largest is {labels.max()}",
            hint="number the classes from 0",
        )
    if not classes and len(labels):
        classes = [str(i) for i in range(int(labels.max()) + 1)]
    return Dataset(x, labels, tuple(classes), name)


def _four_axes(x: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    if x.ndim == 3:
        x = x[..., None]
    elif x.ndim == 2:
        x = x[:, None, None, :]
    return x if x.dtype == np.uint8 else _converted(x, np.float32, "samples", name)


def _converted(array: npt.NDArray[Any], dtype: type, what: str, name: str) -> npt.NDArray[Any]:
    if array.dtype.kind not in "biuf":
        raise InputError(f"the {what} are not numbers", where=name, why=f"they are {array.dtype}")
    with np.errstate(over="ignore", invalid="ignore"):  # what results is checked by the caller
        return array.astype(dtype)


def are_names(classes: Sequence[str]) -> bool:
    """Numbers are none: `only` makes 0, 1, ... of any."""
    return not all(name.isdigit() for name in classes)
