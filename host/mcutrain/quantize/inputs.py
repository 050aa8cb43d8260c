"""Samples as users have them (uint8 pixels, floats, one array or one an input) for the network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from mcutrain.errors import InputError
from mcutrain.ir.graph import Array, Graph, QParams

Samples = Array | Mapping[str, Array]

PIXEL_ZERO_POINT = -128  # of a uint8 input: q = pixel - 128, exact and without arithmetic
LOWEST, HIGHEST = -128, 127


def named(graph: Graph, samples: Samples) -> dict[str, Array]:
    """Samples by input name, checked: (N, H, W, C), one N; flat inputs may be (N, features).

    Raises:
        InputError: an input is missing, surplus, empty, of another shape or not finite; names it.
    """
    if isinstance(samples, np.ndarray) and len(graph.inputs) > 1:
        raise InputError(
            "data with one array a sample cannot feed a network with several inputs",
            where=graph.name,
            why="its inputs are " + ", ".join(graph.inputs),
            hint="the data sources of the command line hold one array a sample; in Python, give "
            "one for each input",
        )
    by_name = {graph.inputs[0]: samples} if isinstance(samples, np.ndarray) else dict(samples)
    if set(by_name) != set(graph.inputs):
        raise InputError(
            "the samples do not name the network's inputs",
            where=graph.name,
            why=f"given {sorted(by_name)}, the network has {sorted(graph.inputs)}",
        )
    result = {}
    for name, given in by_name.items():
        x = np.asarray(given)
        shape = graph.tensors[name].shape
        if x.ndim == 2 and shape[:2] == (1, 1):
            x = x[:, None, None, :]
        if x.ndim != 4 or x.shape[1:] != shape or len(x) == 0:
            raise InputError(
                "samples have not the shape of the network's input",
                where=name,
                why=f"they are {x.shape}, expected (samples, {', '.join(map(str, shape))}): "
                "channels come last",
                hint="...?size=HxW, ...?gray=1 or ...?shape=HxWxC changes it; "
                "docs/guide.md, 'Own data'",
            )
        if x.dtype.kind == "f" and not np.isfinite(x).all():
            raise InputError("samples must be finite numbers", where=name)
        result[name] = x
    if len({len(x) for x in result.values()}) > 1:
        raise InputError("the inputs have not the same number of samples", where=graph.name)
    return result


def real(x: Array, pixel_scale: float) -> Array:
    """Samples as float32: uint8 pixels times `pixel_scale`, anything else as it is."""
    return x.astype(np.float32) * np.float32(pixel_scale if x.dtype == np.uint8 else 1.0)


def batches(
    graph: Graph, samples: Mapping[str, Array], pixel_scale: float
) -> Iterator[dict[str, Array]]:
    """Float32 batches, small enough that all tensors of one take about 64 MB."""
    elements = sum(t.size for t in graph.tensors.values())
    size = max(1, 2**24 // elements)
    count = len(next(iter(samples.values())))
    for start in range(0, count, size):
        yield {n: real(x[start : start + size], pixel_scale) for n, x in samples.items()}


def quantize_input(graph: Graph, samples: Samples) -> dict[str, Array]:
    """Int8 samples (N, H, W, C) by input name for a quantised graph.

    uint8 becomes pixel - 128, int8 stays, floats are rounded to the nearest step and saturated.

    Raises:
        InputError: as `named`; or pixels for an input that was not calibrated with pixels.
    """
    result = {}
    for name, x in named(graph, samples).items():
        q = graph.tensors[name].q
        if q is None:
            raise InputError("the network is not quantised", where=graph.name)
        result[name] = to_int8(x, q, name)
    return result


def to_int8(x: Array, q: QParams, name: str) -> Array:
    """Int8 values of samples of any shape for the input `name`; see `quantize_input`."""
    if x.dtype == np.int8:
        return x
    if x.dtype == np.uint8:
        if q.zero_point != PIXEL_ZERO_POINT:
            raise InputError(
                "the network does not take uint8 pixels",
                where=name,
                why=f"it was calibrated with other data: zero point {q.zero_point}",
                hint="give the data as for calibration; ...?range=-1,1 makes pixels real numbers",
            )
        return (x.astype(np.int16) + PIXEL_ZERO_POINT).astype(np.int8)
    return round_to(x, q).astype(np.int8)


def round_to(x: Array, q: QParams) -> Array:
    """Steps of `q` nearest to real numbers, saturated, still as floats."""
    return np.asarray(np.clip(_steps(x, q), LOWEST, HIGHEST))


@dataclass
class Outside:
    """How many numbers `to_int8` saturates: real ones, for pixels and int8 it does not.

    Zeros do not count, as in calibration: every range holds them, and in sparse data they would
    hide the rest.

    Attributes:
        saturated: numbers outside of what an input takes.
        counted: all of them.
    """

    saturated: int = 0
    counted: int = 0

    def add(self, x: Array, q: QParams) -> None:
        """Samples of any shape for an input with `q`."""
        if x.dtype.kind == "f":
            steps = _steps(x, q)
            self.saturated += int(np.count_nonzero((steps < LOWEST) | (steps > HIGHEST)))
        self.counted += int(np.count_nonzero(x))

    @property
    def share(self) -> float:
        """Of those that saturate."""
        return self.saturated / self.counted if self.counted else 0.0


def _steps(x: Array, q: QParams) -> Array:
    with np.errstate(over="ignore"):  # it saturates
        return np.asarray(np.rint(x / q.scale) + q.zero_point)
