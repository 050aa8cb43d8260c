"""A TFLite operator on its way into the graph: what it reads, and what the file says about it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mcutrain.errors import UnsupportedError
from mcutrain.frontends.int8_layers import Int8Builder
from mcutrain.frontends.layout import NO_PAD, Pad
from mcutrain.frontends.tflite_file import FileModel, FileOperator, FileTensor
from mcutrain.frontends.tflite_names import ACTIVATIONS, NONE, RELU, RELU6, RELU_N1_TO_1
from mcutrain.ir.graph import Array, QParams, Shape

# What the dimensions of a tensor mean, by how many there are. Means and transposes change it.
AXES = {2: "NC", 3: "NWC", 4: "NHWC"}

# Field numbers of the fused activation in the options of each operator (public schema).
ACTIVATION_FIELD = {
    "CONV_2D": 3,
    "DEPTHWISE_CONV_2D": 4,
    "AVERAGE_POOL_2D": 5,
    "MAX_POOL_2D": 5,
    "FULLY_CONNECTED": 0,
    "ADD": 0,
    "CONCATENATION": 1,
}
_REAL_LIMITS = {NONE: (None, None), RELU: (0, None), RELU_N1_TO_1: (-1, 1), RELU6: (0, 6)}


@dataclass(frozen=True)
class Value:
    """A tensor of the graph as the file sees it.

    Attributes:
        tensor: name in the graph.
        axes: one letter of N, H, W, C a dimension of the file's tensor.
        pad: zeros (top, left, bottom, right) still to be added by the layer that reads it.
    """

    tensor: str
    axes: str
    pad: Pad = NO_PAD


class Importer:
    """The graph as it grows, and what each tensor of the file is in it."""

    def __init__(self, model: FileModel, name: str) -> None:
        self.model = model
        self.builder = Int8Builder(name)
        self.values: dict[int, Value] = {}

    def add_input(self, index: int) -> None:
        """Register an input; one that is not int8 becomes the int8 tensor it is converted to."""
        tensor, source = self.model.tensors[index], index
        if tensor.type != "INT8":
            readers = [op for op in self.model.operators if index in op.inputs]
            if len(readers) == 1 and readers[0].name == "QUANTIZE":
                source = readers[0].outputs[0]
        q = quantisation(self.model.tensors[source])
        value = Value(self.builder.unique(tensor.name), axes_of(tensor))
        self.builder.input(value.tensor, map_shape_of(tensor, value.axes), q)
        self.values[index] = self.values[source] = value

    def call(self, op: FileOperator) -> Call:
        """The operator with what it reads."""
        return Call(self, op, self.model.tensors[op.outputs[0]].name)


@dataclass(frozen=True, eq=False)
class Call:
    """One operator of the file; `name` is the tensor that it makes."""

    importer: Importer
    op: FileOperator
    name: str

    def refuse(self, message: str, why: str | None = None) -> UnsupportedError:
        """An error that names the tensor."""
        return UnsupportedError(f"{self.op.name}: {message}", where=self.name, why=why)

    @property
    def output(self) -> FileTensor:
        """The tensor that it makes, as the file has it."""
        return self.importer.model.tensors[self.op.outputs[0]]

    @property
    def activation_function(self) -> str:
        """Name of the activation function in the operator."""
        number = self.op.option(ACTIVATION_FIELD[self.op.name], "b")
        return ACTIVATIONS[number] if 0 <= number < len(ACTIVATIONS) else f"number {number}"

    def value(self, position: int, axes: str | None = None, pad: bool = False) -> Value:
        """The activation at an input; with `axes` it must have these, without `pad` no padding."""
        index = self.op.inputs[position] if position < len(self.op.inputs) else -1
        if index not in self.importer.values:
            what = "nothing" if index < 0 else f"'{self.importer.model.tensors[index].name}'"
            raise self.refuse(f"input {position} must be an activation", f"it is {what}")
        value = self.importer.values[index]
        if axes is not None and value.axes != axes:
            raise self.refuse(f"needs a map of axes {axes}", f"its input has {value.axes}")
        if value.pad != NO_PAD and not pad:
            raise self.refuse("padding is supported before convolutions and average pools only")
        return value

    def flat(self, position: int) -> str:
        """The graph's tensor at an input whose elements the file and the graph order alike."""
        value = self.value(position)
        h, w, c = self.importer.builder.tensors[value.tensor].shape
        extents = {"H": h, "W": w, "C": c, "N": 1}
        order = [axis for axis in value.axes if extents[axis] > 1]
        if order != sorted(order, key="HWC".index):
            raise self.refuse("flattening a transposed map is not supported")
        return value.tensor

    def constant(self, position: int, *types: str) -> FileTensor:
        """The constant at an input.

        Raises:
            UnsupportedError: it is computed, or of another type.
        """
        index = self.op.inputs[position] if position < len(self.op.inputs) else -1
        tensor = self.importer.model.tensors[index]
        if index < 0 or tensor.data is None:
            raise self.refuse(f"input {position} must be a constant")
        if tensor.type not in types:
            raise self.refuse(f"a constant of type {tensor.type} is not supported", tensor.name)
        return tensor

    def integers(self, position: int) -> list[Any]:
        """A constant of integers as (nested) lists."""
        return list(np.atleast_1d(self.data(self.constant(position, "INT32", "INT64"))).tolist())

    @staticmethod
    def data(tensor: FileTensor) -> Array:
        """Contents of a constant."""
        assert tensor.data is not None  # `constant` has seen to it
        return tensor.data

    def emit(
        self, op: str, inputs: tuple[str, ...], axes: str, attrs: dict[str, Any], **params: Array
    ) -> Value:
        """Add a node that makes the output with the output's own scale."""
        q = quantisation(self.output)
        return Value(self.importer.builder.emit(op, self.name, inputs, q, attrs, params), axes)

    def limits(self, activation: int | None = None) -> dict[str, int]:
        """`lo` and `hi` of the output under an activation function (default: the fused one)."""
        if activation is None:
            activation = self.op.option(ACTIVATION_FIELD[self.op.name], "b")
        if activation not in _REAL_LIMITS:
            name = self.activation_function
            raise self.refuse(f"activation function {name} is not supported")
        q, (lo, hi) = quantisation(self.output), _REAL_LIMITS[activation]
        low = -128 if lo is None else max(-128, q.zero_point + _round(lo / q.scale))
        high = 127 if hi is None else min(127, q.zero_point + _round(hi / q.scale))
        if low > high:
            raise self.refuse("the activation function leaves no value of the output's range")
        return {"lo": low, "hi": high}


def _round(x: float) -> int:
    """To the nearest integer, halves away from 0, as TFLite does."""
    return int(math.copysign(math.floor(abs(x) + 0.5), x))


def quantisation(tensor: FileTensor) -> QParams:
    """Scale and zero point of an int8 activation.

    Raises:
        UnsupportedError: it is of another type or not quantised as a whole.
    """
    if tensor.type != "INT8" or tensor.scale.size != 1:
        raise UnsupportedError(
            "the network is not int8 throughout",
            where=tensor.name,
            why=f"this tensor is of type {tensor.type} with {tensor.scale.size} scales",
            hint="convert with full integer quantisation (TFLITE_BUILTINS_INT8), "
            "or import the float network from its framework and quantise it here",
        )
    scale, zero = float(tensor.scale[0]), int(tensor.zero_point[0])
    if not (math.isfinite(scale) and scale > 0 and -128 <= zero <= 127):
        raise UnsupportedError(
            "the quantisation is not affine int8",
            where=tensor.name,
            why=f"scale {scale}, zero point {zero}",
        )
    return QParams(scale, zero)


def axes_of(tensor: FileTensor) -> str:
    """What the dimensions of an activation mean by default.

    Raises:
        UnsupportedError: too few or many dimensions, or a batch.
    """
    axes = AXES.get(len(tensor.shape))
    if axes is None or tensor.shape[0] != 1 or min(tensor.shape) < 1:
        raise UnsupportedError(
            "only tensors of two to four dimensions with a batch of 1 are supported",
            where=tensor.name,
            why=f"its shape is {tensor.shape}",
        )
    return axes


def map_shape_of(tensor: FileTensor, axes: str) -> Shape:
    """(H, W, C) of a tensor whose dimensions mean `axes`; what is not among them is 1."""
    if len(axes) != len(tensor.shape):
        return (0, 0, 0)  # equals no map
    extents = {"H": 1, "W": 1, "C": 1, **dict(zip(axes, tensor.shape, strict=True))}
    return extents["H"], extents["W"], extents["C"]
