"""The state between passes: a growing list of instructions and values, and what is known of
each layer.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from mcutrain.errors import InternalError
from mcutrain.ir.graph import Array, Shape
from mcutrain.ir.program import ARENA, CONST, STATE, Instr, Value


@dataclass(frozen=True, eq=False)
class LayerInfo:
    """What the backward pass must know of a conv2d or linear layer.

    Attributes:
        w_scale: float64 (C_out,).
        degenerate: bool (C_out,), channels that are never updated and pass no gradient.
        reach: what the products of an accumulator can come to, S of SPEC-arithmetic, section 4.
        x_scale, x_zero: quantisation of the layer's input.
        channels: trained input channels, () if none; partial: fewer than all of them.
        train_bias: whether the bias trains.
        saved: value that holds x for the weight gradient (gathered if partial), None if no weights
            train.
    """

    w_scale: Array
    degenerate: Array
    reach: int
    x_scale: float
    x_zero: int
    channels: tuple[int, ...]
    partial: bool
    depthwise: bool
    train_bias: bool
    saved: str | None


@dataclass(eq=False)
class Lowered:
    """A program under construction."""

    name: str
    values: dict[str, Value] = field(default_factory=dict)
    instrs: list[Instr] = field(default_factory=list)
    forward: int = 0
    inputs: tuple[str, ...] = ()
    features: str = ""
    logits: str = ""
    layers: dict[str, LayerInfo] = field(default_factory=dict)
    fraction_bits: int = 8
    train_head: bool = True
    errors: int = 0
    next_rng: int = 1

    def add(self, value: Value) -> str:
        """Register a value; its name must be new."""
        if value.name in self.values:
            raise InternalError(f"two values are called '{value.name}'")
        self.values[value.name] = value
        return value.name

    def arena(self, name: str, shape: Shape, dtype: str, zero_point: int = 0) -> str:
        """A new arena value."""
        return self.add(Value(name, shape, dtype, ARENA, zero_point))

    def const(self, name: str, dtype: str, data: Array, shape: Shape | None = None) -> str:
        """A constant; a table of n entries by default. The same name twice is the same constant."""
        if name in self.values:
            return name
        data = np.ascontiguousarray(data)
        return self.add(Value(name, shape or (1, 1, data.size), dtype, CONST, data=data))

    def state(self, name: str, dtype: str, data: Array, shape: Shape | None = None) -> str:
        """A state value with its initial contents."""
        data = np.ascontiguousarray(data)
        return self.add(Value(name, shape or (1, 1, data.size), dtype, STATE, data=data))

    def base(self, name: str) -> str:
        """Name of the value that owns the bytes."""
        while (owner := self.values[name].view_of) is not None:
            name = owner
        return name

    def view(self, name: str, shape: Shape) -> str:
        """The value itself, or a view of it under another shape with as many elements."""
        value = self.values[name]
        if value.shape == shape:
            return name
        if value.count != shape[0] * shape[1] * shape[2]:
            raise InternalError(f"'{name}' {value.shape} cannot be seen as {shape}")
        seen = f"{self.base(name)}@{shape[0]}x{shape[1]}x{shape[2]}"
        if seen not in self.values:
            self.add(replace(value, name=seen, shape=shape, view_of=self.base(name)))
        return seen

    def new_rng(self) -> int:
        """A fresh id for the random bits of one instruction."""
        self.next_rng += 1
        return self.next_rng - 1

    def new_error(self) -> int:
        """A fresh error exponent slot."""
        self.errors += 1
        return self.errors - 1
