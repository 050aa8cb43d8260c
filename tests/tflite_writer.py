"""Writes small TFLite files, so that the importer is tested without converter."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mcutrain.frontends.tflite_names import OPERATORS, TENSOR_TYPES

# Number of each operator's options table in the schema's union.
OPTIONS = {
    "CONV_2D": 1,
    "DEPTHWISE_CONV_2D": 2,
    "AVERAGE_POOL_2D": 5,
    "MAX_POOL_2D": 5,
    "FULLY_CONNECTED": 8,
    "SOFTMAX": 9,
    "CONCATENATION": 10,
    "ADD": 11,
    "RESHAPE": 17,
    "PAD": 22,
    "TRANSPOSE": 26,
    "MEAN": 27,
    "SQUEEZE": 30,
}
NUMPY_TYPES = {"INT8": np.int8, "INT32": np.int32, "FLOAT32": np.float32, "UINT8": np.uint8}


class Flatbuffer:
    """Tables as {field: value}: int, str, array, another table, or a list of tables.

    Everything lies behind what refers to it. Scalars take four bytes each, which readers allow.
    """

    def __init__(self) -> None:
        self.data = bytearray()

    def _align(self, to: int, after: int = 0) -> None:
        self.data += bytes(-(len(self.data) + after) % to)

    def write(self, value: Any) -> int:
        """Append a value that is referred to; returns its position."""
        if isinstance(value, dict):
            return self._table(value)
        if isinstance(value, str):
            raw = np.frombuffer(value.encode(), np.uint8)
            return self._vector(raw, end=b"\0")
        if isinstance(value, list):
            return self._tables(value)
        return self._vector(np.asarray(value))

    def _vector(self, array: np.ndarray, end: bytes = b"") -> int:
        self._align(16, after=4)  # tensors' contents are read in place
        at = len(self.data)
        self.data += struct.pack("<I", array.size) + array.tobytes() + end
        return at

    def _tables(self, tables: list[dict[int, Any]]) -> int:
        self._align(4)
        at = len(self.data)
        self.data += struct.pack("<I", len(tables)) + bytes(4 * len(tables))
        for i, table in enumerate(tables):
            self._refer(at + 4 + 4 * i, self.write(table))
        return at

    def _table(self, fields: dict[int, Any]) -> int:
        count = max(fields, default=-1) + 1
        self._align(4, after=4 + 2 * count)
        vtable = len(self.data)
        slots = {number: 4 + 4 * i for i, number in enumerate(fields)}
        self.data += struct.pack("<HH", 4 + 2 * count, 4 + 4 * len(fields))
        self.data += b"".join(struct.pack("<H", slots.get(i, 0)) for i in range(count))
        at = len(self.data)
        self.data += struct.pack("<i", at - vtable) + bytes(4 * len(fields))
        for number, value in fields.items():
            place = at + slots[number]
            if isinstance(value, int):
                struct.pack_into("<i", self.data, place, value)
            else:
                self._refer(place, self.write(value))
        return at

    def _refer(self, place: int, target: int) -> None:
        struct.pack_into("<I", self.data, place, target - place)


@dataclass
class TfliteModel:
    """A model of one subgraph under construction; tensors are known by index."""

    tensors: list[dict[int, Any]] = field(default_factory=list)
    operators: list[dict[int, Any]] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    buffers: list[dict[int, Any]] = field(default_factory=lambda: [{}])
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def tensor(
        self,
        name: str,
        shape: tuple[int, ...],
        kind: str = "INT8",
        scale: Any = None,
        zero: int = 0,
        data: np.ndarray | None = None,
        axis: int = 0,
    ) -> int:
        """Add a tensor, a constant if it has data."""
        buffer = 0
        if data is not None:
            buffer = len(self.buffers)
            raw = np.ascontiguousarray(data, NUMPY_TYPES[kind]).view(np.uint8)
            self.buffers.append({0: raw.reshape(-1)})
        fields = {
            0: np.array(shape, np.int32),
            1: TENSOR_TYPES.index(kind),
            2: buffer,
            3: name,
        }
        if scale is not None:
            scales = np.atleast_1d(np.asarray(scale, np.float32))
            fields[4] = {2: scales, 3: np.full(scales.size, zero, np.int64), 6: axis}
        self.tensors.append(fields)
        return len(self.tensors) - 1

    def operator(
        self, name: str, inputs: list[int], output: int, options: dict[int, int] | None = None
    ) -> int:
        """Add an operator; returns its output."""
        if name not in self.codes:
            self.codes.append(name)
        fields: dict[int, Any] = {
            0: self.codes.index(name),
            1: np.array(inputs, np.int32),
            2: np.array([output], np.int32),
        }
        if options is not None:
            fields |= {3: OPTIONS[name], 4: options}
        self.operators.append(fields)
        return output

    def content(self) -> bytes:
        """The file."""
        numbers = [OPERATORS.index(name) for name in self.codes]
        codes = [{0: min(n, 127), 2: 1, 3: n} for n in numbers]
        subgraph = {
            0: self.tensors,
            1: np.array(self.inputs, np.int32),
            2: np.array(self.outputs, np.int32),
            3: self.operators,
        }
        flat = Flatbuffer()
        flat.data += bytes(4) + b"TFL3"
        root = {0: 3, 1: codes, 2: [subgraph], 4: self.buffers}
        struct.pack_into("<I", flat.data, 0, flat.write(root))
        flat._align(16)
        return bytes(flat.data)

    def save(self, path: Path) -> Path:
        """Write the file."""
        path.write_bytes(self.content())
        return path


SAME, VALID = 0, 1


class NetworkWriter(TfliteModel):
    """Layers with random weights on top of `TfliteModel`; every method returns a tensor."""

    def __init__(self, shape: tuple[int, ...], seed: int = 0, kind: str = "INT8") -> None:
        super().__init__()
        self.rng = np.random.default_rng(seed)
        q = {"scale": 0.05, "zero": -3} if kind == "INT8" else {}
        if kind == "UINT8":
            q = {"scale": 0.05, "zero": 125}
        self.inputs.append(self.tensor("image", shape, kind, **q))

    def shape(self, tensor: int) -> tuple[int, ...]:
        """Shape with the batch."""
        return tuple(int(n) for n in self.tensors[tensor][0])

    def quantised(self, tensor: int) -> dict[str, Any]:
        """`scale` and `zero` of a tensor."""
        fields = self.tensors[tensor][4]
        return {"scale": float(fields[2][0]), "zero": int(fields[3][0])}

    def weights(
        self, name: str, x: int, shape: tuple[int, ...], fan_in: int, axis: int, per_channel: bool
    ) -> list[int]:
        """Constants of a layer with int8 weights; biases are int32."""
        c_out = shape[axis]
        data = self.rng.integers(-127, 128, shape)
        scale = self.rng.uniform(0.5, 1.5, c_out if per_channel else 1) / (73 * np.sqrt(fan_in))
        scale = scale.astype(np.float32).astype(np.float64)
        w = self.tensor(f"{name}/w", shape, "INT8", scale, 0, data, axis)
        bias = self.rng.integers(-900, 900, c_out)
        s_x = self.quantised(x)["scale"]
        return [w, self.tensor(f"{name}/b", (c_out,), "INT32", scale * s_x, 0, bias)]

    def conv(
        self,
        name: str,
        x: int,
        c_out: int,
        kernel: tuple[int, int],
        stride: tuple[int, int] = (1, 1),
        padding: int = SAME,
        activation: int = 0,
        groups: int = 1,
        **q: Any,
    ) -> int:
        """CONV_2D with one scale a channel."""
        c_in = self.shape(x)[3] // groups
        parts = self.weights(name, x, (c_out, *kernel, c_in), kernel[0] * kernel[1] * c_in, 0, True)
        options = {0: padding, 1: stride[1], 2: stride[0], 3: activation, 4: 1, 5: 1}
        y = self.map_tensor(name, x, c_out, kernel, stride, padding, q)
        return self.operator("CONV_2D", [x, *parts], y, options)

    def depthwise(
        self,
        name: str,
        x: int,
        multiplier: int,
        kernel: tuple[int, int],
        stride: tuple[int, int] = (1, 1),
        padding: int = SAME,
        activation: int = 0,
        **q: Any,
    ) -> int:
        """DEPTHWISE_CONV_2D."""
        c_out = self.shape(x)[3] * multiplier
        parts = self.weights(name, x, (1, *kernel, c_out), kernel[0] * kernel[1], 3, True)
        options = {0: padding, 1: stride[1], 2: stride[0], 3: multiplier, 4: activation, 5: 1, 6: 1}
        y = self.map_tensor(name, x, c_out, kernel, stride, padding, q)
        return self.operator("DEPTHWISE_CONV_2D", [x, *parts], y, options)

    def map_tensor(
        self,
        name: str,
        x: int,
        c_out: int,
        kernel: tuple[int, int],
        stride: tuple[int, int],
        padding: int,
        q: dict[str, Any],
    ) -> int:
        """The output of a window operator."""
        extents = [
            -(-n // s) if padding == SAME else (n - k) // s + 1
            for n, k, s in zip(self.shape(x)[1:3], kernel, stride, strict=True)
        ]
        return self.tensor(name, (1, *extents, c_out), **({"scale": 0.04, "zero": 5} | q))

    def pool(
        self,
        op: str,
        name: str,
        x: int,
        kernel: tuple[int, int],
        stride: tuple[int, int],
        padding: int = VALID,
        activation: int = 0,
        **q: Any,
    ) -> int:
        """AVERAGE_POOL_2D or MAX_POOL_2D."""
        options = {
            0: padding,
            1: stride[1],
            2: stride[0],
            3: kernel[1],
            4: kernel[0],
            5: activation,
        }
        y = self.map_tensor(
            name, x, self.shape(x)[3], kernel, stride, padding, self.quantised(x) | q
        )
        return self.operator(op, [x], y, options)

    def fc(self, name: str, x: int, c_out: int, activation: int = 0, **q: Any) -> int:
        """FULLY_CONNECTED with one scale for all weights."""
        n_in = int(np.prod(self.shape(x)))
        parts = self.weights(name, x, (c_out, n_in), n_in, 0, False)
        y = self.tensor(name, (1, c_out), **({"scale": 0.1, "zero": 2} | q))
        return self.operator("FULLY_CONNECTED", [x, *parts], y, {0: activation, 1: 0, 2: 0})

    def unary(
        self,
        op: str,
        name: str,
        x: int,
        shape: tuple[int, ...],
        constant: Any = None,
        options: dict[int, int] | None = None,
        **q: Any,
    ) -> int:
        """An operator of one activation and perhaps a constant of int32."""
        inputs = [x]
        if constant is not None:
            data = np.asarray(constant, np.int32)
            inputs.append(self.tensor(f"{name}/c", data.shape, "INT32", data=data))
        y = self.tensor(name, shape, **(self.quantised(x) | q))
        return self.operator(op, inputs, y, options)

    def head(self, x: int, classes: int = 4, softmax: bool = True) -> TfliteModel:
        """Close the network."""
        y = self.fc("logits", x, classes)
        if softmax:
            p = self.tensor("probabilities", (1, classes), scale=1 / 256, zero=-128)
            y = self.operator("SOFTMAX", [y], p, {0: np.float32(1).view(np.int32).item()})
        self.outputs.append(y)
        return self
