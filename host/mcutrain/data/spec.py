"""How the command line names data: `SOURCE:PLACE?OPTION=VALUE&OPTION=VALUE`.

Sources, each with the options that it alone takes:

    fashion-mnist:train|test            Debian's package dataset-fashion-mnist
    npz:FILE ?split=NAME &shape=HxWxC   arrays x and y, or x_NAME and y_NAME; or encoded images
             &size=HxW &gray=1          (blob, offset, label; split=train or test)
    folder:DIR ?size=HxW &gray=1        one sub-folder a class (extra `images`)
    idx:IMAGES,LABELS                   two IDX files
    csv:FILE ?label=COLUMN &shape=HxWxC the first line names the columns

Options of every source change the samples in the order in which they are written:

    classes=0-4,7   keep these classes, renumbered from 0
    skip=N          leave out the first N samples
    seed=N          shuffle
    count=N         keep the first N samples
    shift=A+B       change the sensor (`mcutrain.data.shift`)
    range=LOW,HIGH  pixels 0..255 (bytes or floats) as real numbers from LOW to HIGH
    augment=A+B     train on views of each sample: flip, crop, move (`mcutrain.data.augment`)
    views=N         so many, the sample itself included (4)

Example: `fashion-mnist:train?skip=50000&seed=1&count=1000&shift=rotate90+negative`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl

from mcutrain.data import fashion, folder, idx, npz, shift, table
from mcutrain.data.augment import DEFAULT_VIEWS, Augmentation
from mcutrain.data.dataset import MAX_CLASSES, Dataset
from mcutrain.errors import InputError, McutrainError, UsageError

Options = dict[str, str]

_MAX_EXTENT = 65535  # of a network's input
_HINT = "docs/guide.md, 'Own data', shows what a file must hold and all options"


def open_spec(spec: str) -> Dataset:
    """The samples that a spec names; see this module's text for the grammar.

    Raises:
        UsageError: the spec does not follow the grammar.
        InputError: the data is not there, is damaged, or leaves no sample.
    """
    source, colon, rest = spec.partition(":")
    if source not in _SOURCES or not colon:
        raise UsageError(
            f"'{spec}' does not name data",
            where=spec or "--data",
            why=f"it must start with one of {', '.join(f'{s}:' for s in _SOURCES)}",
            hint="for example fashion-mnist:train?count=100 or npz:FILE",
        )
    place, _, query = rest.partition("?")
    own, steps = _options(spec, source, query)
    load, _ = _SOURCES[source]
    try:
        data = replace(load(place, own), name=spec)
        for key, value in steps:
            data = _applied(data, key, value)
        if not len(data):
            raise InputError("no samples are left", where=spec, why="the options took all away")
        if data.views > 1 and not data.augmentation.kinds:
            raise UsageError("views are made by augment", where=spec, hint="...?augment=flip+crop")
    except McutrainError as error:
        error.where = error.where or spec
        error.hint = _meant(spec, source) or error.hint or _HINT
        raise
    return data


def _meant(spec: str, source: str) -> str | None:
    """What to write instead, where the first option is joined by & and so is part of the place."""
    place, ampersand, option = spec.partition("&")
    if not ampersand or "?" in spec:
        return None
    name, equals, _ = option.partition("=")
    if not equals or name not in (*_STEPS, *_SOURCES[source][1]):
        return None
    return f"options begin with ?, and & joins further ones: '{place}?{option}'"


def _applied(data: Dataset, key: str, value: str) -> Dataset:
    try:
        return _STEPS[key](data, value)
    except ValueError as error:
        raise UsageError(f"cannot read {key}={value}", why=str(error)) from error


def _options(spec: str, source: str, query: str) -> tuple[Options, list[tuple[str, str]]]:
    """The options of the source itself, and the steps to apply, in order."""
    try:
        # A plus sign joins shifts here; in a query it would mean a space.
        pairs = parse_qsl(
            query.replace("+", "%2B"), keep_blank_values=True, strict_parsing=bool(query)
        )
    except ValueError as error:
        raise UsageError(
            "an option is not of the form NAME=VALUE", where=spec, why=str(error), hint=_HINT
        ) from error
    known = _SOURCES[source][1]
    own: Options = {}
    steps = []
    for key, value in pairs:
        if key in known:
            own[key] = value
        elif key in _STEPS:
            steps.append((key, value))
        else:
            raise UsageError(
                f"unknown option '{key}'",
                where=spec,
                hint="known options: " + ", ".join((*known, *_STEPS)),
            )
    return own, steps


def _load_idx(place: str, _: Options) -> Dataset:
    images, comma, labels = place.partition(",")
    if not comma:
        raise UsageError("idx: needs two files", where=place, hint="idx:IMAGES,LABELS")
    return idx.load(Path(images), Path(labels))


def _load_folder(place: str, options: Options) -> Dataset:
    return folder.load(Path(place), _size(options), _gray(options, place))


def _size(options: Options) -> tuple[int, int] | None:
    if "size" not in options:
        return None
    height, width = _extents("size", options["size"], 2)
    return height, width


def _gray(options: Options, place: str) -> bool:
    gray = options.get("gray", "0")
    if gray not in ("0", "1"):
        raise UsageError(f"gray must be 0 or 1, not '{gray}'", where=place)
    return gray == "1"


def _shape(options: Options) -> tuple[int, int, int] | None:
    if "shape" not in options:
        return None
    height, width, channels = _extents("shape", options["shape"], 3)
    return height, width, channels


def _load_table(place: str, options: Options) -> Dataset:
    return table.load(Path(place), options.get("label", "label"), _shape(options))


def _load_npz(place: str, options: Options) -> Dataset:
    path, split = Path(place), options.get("split")
    if npz.is_encoded(path):
        if "shape" in options:
            raise UsageError("encoded images have a shape", where=place, hint="size=HxW resizes")
        return npz.load_encoded(path, split, _size(options), _gray(options, place))
    if "size" in options or "gray" in options:
        raise UsageError("size and gray are for encoded images", where=place, hint="shape=HxWxC")
    return npz.load(path, split, _shape(options))


def _extents(key: str, text: str, number: int) -> list[int]:
    parts = text.split("x")
    numbers = [int(p) if p.isascii() and p.isdigit() else 0 for p in parts]
    if len(parts) != number or not all(1 <= n <= _MAX_EXTENT for n in numbers):
        raise UsageError(
            f"{key} must be {number} whole numbers from 1 to {_MAX_EXTENT}, joined by x, "
            f"not '{text}'"
        )
    return numbers


def _natural(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"'{text}' is not a whole number from 0")
    return int(text)


def _classes(text: str) -> list[int]:
    """The numbers in "0-4,7"."""
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        start, end = _natural(first), _natural(last if dash else first)
        if not start <= end < MAX_CLASSES:
            raise ValueError(f"'{part}' is no range of class numbers")
        numbers += range(start, end + 1)
    return numbers


def _range(text: str) -> tuple[float, float]:
    """The two numbers in "-1,1"."""
    low, high = map(float, text.split(","))  # another number of parts is a ValueError, too
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError("the first number must be below the second")
    return low, high


def _augmentation(data: Dataset, text: str) -> Augmentation:
    views = data.views if data.views > 1 else DEFAULT_VIEWS
    return replace(data.augmentation, kinds=tuple(text.split("+")), views=views)


_SOURCES: dict[str, tuple[Callable[[str, Options], Dataset], tuple[str, ...]]] = {
    "fashion-mnist": (lambda place, _: fashion.load(place), ()),
    "npz": (_load_npz, ("split", "shape", "size", "gray")),
    "folder": (_load_folder, ("size", "gray")),
    "idx": (_load_idx, ()),
    "csv": (_load_table, ("label", "shape")),
}

_STEPS: dict[str, Callable[[Dataset, str], Dataset]] = {
    "classes": lambda data, text: data.only(_classes(text)),
    "skip": lambda data, text: data.take(slice(_natural(text), None)),
    "seed": lambda data, text: data.shuffled(_natural(text)),
    "count": lambda data, text: data.take(slice(_natural(text))),
    "range": lambda data, text: data.in_range(*_range(text)),
    "shift": lambda data, text: replace(data, x=shift.apply(text, data.array())),
    "augment": lambda data, text: data.augmented(_augmentation(data, text)),
    "views": lambda data, text: data.augmented(replace(data.augmentation, views=_natural(text))),
}
