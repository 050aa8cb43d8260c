"""Samples to the bytes that a network takes as its input."""

from __future__ import annotations

import math
from collections.abc import Callable

from mcutrain.data import Dataset
from mcutrain.errors import InputError
from mcutrain.image.unpack import Image
from mcutrain.ir.graph import Array, Graph
from mcutrain.quantize.inputs import quantize_input, to_int8

Encode = Callable[[Array], bytes]


def encoder(image: Image, data: Dataset) -> Encode:
    """The function from a sample of `data` to the bytes that the image takes as its input.

    Raises:
        InputError: the image has several inputs, another shape or less classes than the data.
    """
    inputs = image.inputs
    if len(inputs) != 1:
        raise InputError(
            "data with one array a sample cannot feed a network with several inputs",
            where=data.name,
            why="its inputs are " + ", ".join(t.name for t in inputs),
            hint="call mcutrain.link's Session from Python with the bytes of all inputs",
        )
    tensor = inputs[0]
    if data.shape != tensor.shape:
        raise InputError(
            "the samples have not the shape of the network's input",
            where=data.name,
            why=f"they are {data.shape} (height, width, channels), the input is {tensor.shape}",
            hint=shape_hint(data.shape, tensor.shape),
        )
    if len(data.classes) > int(image.header["classes"]):
        raise InputError(
            "the data have more classes than the network",
            where=data.name,
            why=f"{len(data.classes)} classes, the network has {image.header['classes']}",
            hint="pack with --classes N, or choose classes: ...?classes=0-4",
        )
    q = tensor.q

    def encode(sample: Array) -> bytes:
        return to_int8(sample, q, tensor.name).tobytes()

    encode(data.sample(0))  # pixels for a network that takes other numbers: refused now, not later
    return encode


def samples_of(graph: Graph, data: Dataset) -> list[tuple[bytes, int]]:
    """All samples as input bytes of a quantised network, with their labels.

    Raises:
        InputError: as `quantize_input`.
    """
    inputs = quantize_input(graph, data.array())
    return [
        (b"".join(inputs[name][index].tobytes() for name in graph.inputs), int(label))
        for index, label in enumerate(data.y)
    ]


def shape_hint(given: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    """What gives samples (H, W, C) the shape of an input, where a data spec can."""
    height, width, channels = wanted
    if math.prod(given) == math.prod(wanted):
        return f"csv and npz: ...?shape={height}x{width}x{channels}"
    if channels in (1, 3) and given[2] in (1, 3):
        gray = "&gray=1" if channels == 1 and given[2] == 3 else ""
        return f"a folder of images: ...?size={height}x{width}{gray}"
    return "mcutrain inspect shows the input; quantize the network with data of this shape"
