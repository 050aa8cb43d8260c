"""A program back to a quantised network that computes the same: the inverse of `lower`.

    conv2d x, w_trained, w_frozen, perm, folded bias, mult, shift   become   a conv2d node

Layers keep their names, trained input channels their numbers. A linear layer is a 1x1 convolution
here, a view is a reshape, and a scale of weights is what the multiplier says: exact to 2^-31.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mcutrain.ir.graph import Array, Graph, Node, QParams, Tensor
from mcutrain.ir.program import Instr, Program, Value

Read = Callable[[str], Array]


def network_of(program: Program, read: Read) -> Graph:
    """The network of a program's forward pass, which has whole maps (`mcutrain.passes.whole`).

    Args:
        program: of an image, or behind a cut: its inputs are the network's.
        read: the present contents of a state value or constant by its name, of any shape.

    """
    return _Network(program, read).graph()


class _Network:
    def __init__(self, program: Program, read: Read) -> None:
        self._program, self._read = program, read
        self._nodes: list[Node] = []
        self._parts: dict[str, list[Instr]] = {}
        self._tensors: dict[str, Tensor] = {}

    def graph(self) -> Graph:
        program = self._program
        rules = {"conv2d": self._conv2d, "add": self._add, "rescale": self._rescale}
        rules |= {"avgpool": self._pool, "maxpool": self._pool}
        rules |= {"head": self._head, "gather": self._gather}
        for name in program.inputs:
            self._made(name)
        for instr in program.instrs[: program.forward]:
            rules[instr.op](instr)
        head, tensors = self._nodes[-1], self._tensors
        return Graph(program.name, program.inputs, head.output, tensors, tuple(self._nodes))

    def _value(self, instr: Instr, slot: str) -> Value:
        return self._program.values[instr.operands[slot]]

    def _table(self, instr: Instr, slot: str) -> Array:
        return self._read(instr.operands[slot]).reshape(-1)

    def _made(self, name: str) -> str:
        value = self._program.values[name]
        q = None if value.dtype == "f32" else QParams(value.scale, value.zero_point)
        self._tensors[name] = Tensor(name, value.shape, q)
        return name

    def _seen(self, name: str) -> str:
        """The tensor of that name; of a view, there is a reshape that makes it."""
        if name not in self._tensors:
            base = self._program.base(name).name
            shape = {"shape": self._program.values[name].shape}
            self._nodes.append(Node("reshape", name, (base,), self._made(name), shape))
        return name

    def _node(
        self, instr: Instr, op: str, inputs: tuple[str, ...], out: str, **more: object
    ) -> None:
        seen = tuple(self._seen(instr.operands[slot]) for slot in inputs)
        params = more.pop("params", {})
        assert isinstance(params, dict)
        limits = {name: instr.params[name] for name in ("lo", "hi") if name in instr.params}
        output = self._made(instr.operands[out])
        self._nodes.append(Node(op, instr.layer, seen, output, {**limits, **more}, params))

    def _conv2d(self, instr: Instr) -> None:
        x, y = self._value(instr, "x"), self._value(instr, "y")
        weight = self._weight(instr, x.shape[2])
        mult, shift = (self._table(instr, slot) for slot in ("mult", "shift"))
        effective = np.ldexp(mult.astype(np.float64), shift.astype(np.int64) - 32)
        sums = weight.astype(np.int64).sum(axis=(1, 2, 3))
        bias = self._table(instr, "bias").astype(np.int64) + x.zero_point * sums
        params = {"weight": weight, "bias": bias.astype(np.int32)}
        params["w_scale"] = effective * y.scale / x.scale
        groups = int(instr.params["groups"])
        self._node(
            instr, "conv2d", ("x",), "y", params=params, groups=groups, **_window(instr, x, y)
        )

    def _weight(self, instr: Instr, channels: int) -> Array:
        """(C_out, kh, kw, C_in / groups), both blocks in the order of the channels."""
        p = instr.params
        slots = [slot for slot in ("w_trained", "w_frozen") if slot in instr.operands]
        blocks = [
            self._read(instr.operands[slot]).reshape(self._value(instr, slot).shape)
            for slot in slots
        ]
        axis = 0 if p["groups"] > 1 else 2
        weight = np.concatenate(blocks, axis=axis)
        if "perm" in instr.operands:
            weight = np.take(weight, np.argsort(self._table(instr, "perm")), axis=axis)
        return weight.reshape(-1, p["kh"], p["kw"], channels // p["groups"])

    def _add(self, instr: Instr) -> None:
        self._node(instr, "add", ("a", "b"), "y")

    def _rescale(self, instr: Instr) -> None:
        """A clamp; or a concat, once there are the parts of all of its channels."""
        y = self._value(instr, "y")
        if self._value(instr, "x").shape[2] == y.shape[2]:
            self._node(instr, "clamp", ("x",), "y")
            return
        parts = self._parts.setdefault(y.name, [])
        parts.append(instr)
        if sum(self._value(part, "x").shape[2] for part in parts) == y.shape[2]:
            parts.sort(key=lambda part: part.params["c0"])
            inputs = tuple(self._seen(part.operands["x"]) for part in parts)
            self._nodes.append(Node("concat", instr.layer, inputs, self._made(y.name)))

    def _pool(self, instr: Instr) -> None:
        x, y = self._value(instr, "x"), self._value(instr, "y")
        kernel = (instr.params["kh"], instr.params["kw"])
        self._node(instr, instr.op, ("x",), "y", kernel=kernel, **_window(instr, x, y))

    def _gather(self, instr: Instr) -> None:
        """Keeps a part of a map for the backward pass; no node of the network."""

    def _head(self, instr: Instr) -> None:
        bias = self._table(instr, "b")
        weight = self._table(instr, "w").reshape(len(bias), 1, 1, -1)
        self._node(instr, "linear", ("x",), "logits", params={"weight": weight, "bias": bias})


def _window(instr: Instr, x: Value, y: Value) -> dict[str, object]:
    """Stride and padding; below and right as much as the windows reach beyond the map."""
    p = instr.params
    below = max(0, (y.shape[0] - 1) * p["sh"] + p["kh"] - p["pt"] - x.shape[0])
    right = max(0, (y.shape[1] - 1) * p["sw"] + p["kw"] - p["pl"] - x.shape[1])
    return {"stride": (p["sh"], p["sw"]), "pad": (p["pt"], p["pl"], below, right)}
