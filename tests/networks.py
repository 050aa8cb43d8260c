"""Small quantised networks built by hand, so that tests need neither torch nor calibration."""

from __future__ import annotations

from typing import Any

import numpy as np

from mcutrain.ir.graph import Graph, Node, QParams, Shape, Tensor


class NetworkBuilder:
    """Builds a quantised graph node by node with random weights; every call returns a tensor
    name.
    """

    def __init__(self, shape: Shape, seed: int = 0, name: str = "net") -> None:
        self.rng = np.random.default_rng(seed)
        self.name = name
        self.tensors = {"x": Tensor("x", shape, QParams(0.02, -3))}
        self.inputs: list[str] = ["x"]
        self.nodes: list[Node] = []

    def input(self, name: str, shape: Shape, q: QParams | None = None) -> str:
        """Another input of the network."""
        self.tensors[name] = Tensor(name, shape, q or QParams(0.03, 5))
        self.inputs.append(name)
        return name

    def _node(
        self,
        op: str,
        name: str,
        inputs: tuple[str, ...],
        shape: Shape,
        q: QParams | None,
        attrs: dict[str, Any],
        params: dict[str, Any] | None = None,
    ) -> str:
        self.tensors[f"{name}:0"] = Tensor(f"{name}:0", shape, q)
        self.nodes.append(Node(op, name, inputs, f"{name}:0", attrs, params or {}))
        return f"{name}:0"

    def _weights(self, c_out: int, kh: int, kw: int, c_in: int, x: str) -> tuple[dict, QParams]:
        q = self.tensors[x].q
        assert q is not None
        weight = self.rng.integers(-127, 128, (c_out, kh, kw, c_in)).astype(np.int8)
        fan_in = kh * kw * c_in
        w_scale = self.rng.uniform(0.5, 1.5, c_out) / (73 * np.sqrt(fan_in))
        bias = self.rng.integers(-2000, 2000, c_out).astype(np.int32)
        y = QParams(float(q.scale * 1.2), int(self.rng.integers(-20, 20)))
        return {"weight": weight, "bias": bias, "w_scale": w_scale}, y

    def conv(
        self,
        name: str,
        x: str,
        c_out: int,
        kernel: int | tuple[int, int] = 1,
        stride: int = 1,
        pad: int | tuple[int, int, int, int] = 0,
        groups: int = 1,
        relu: bool = False,
    ) -> str:
        """A conv2d; `relu` gives the output the zero point -128."""
        h, w, c = self.tensors[x].shape
        kh, kw = (kernel, kernel) if isinstance(kernel, int) else kernel
        t, left, b, r = (pad,) * 4 if isinstance(pad, int) else pad
        params, q = self._weights(c_out, kh, kw, c // groups, x)
        if relu:
            q = QParams(q.scale / 2, -128)
        shape = ((h + t + b - kh) // stride + 1, (w + left + r - kw) // stride + 1, c_out)
        attrs = {"stride": (stride, stride), "pad": (t, left, b, r), "groups": groups}
        return self._node("conv2d", name, (x,), shape, q, attrs | {"lo": -128, "hi": 127}, params)

    def linear(self, name: str, x: str, c_out: int) -> str:
        """A hidden linear layer."""
        params, q = self._weights(c_out, 1, 1, self.tensors[x].size, x)
        return self._node("linear", name, (x,), (1, 1, c_out), q, {"lo": -128, "hi": 127}, params)

    def add(self, name: str, a: str, b: str) -> str:
        """A residual addition."""
        qa = self.tensors[a].q
        assert qa is not None
        attrs = {"lo": -128, "hi": 127}
        q = QParams(qa.scale * 1.3, 4)
        return self._node("add", name, (a, b), self.tensors[a].shape, q, attrs)

    def pool(self, op: str, name: str, x: str, kernel: int, stride: int, pad: int = 0) -> str:
        """`op` is avgpool or maxpool."""
        h, w, c = self.tensors[x].shape
        shape = ((h + 2 * pad - kernel) // stride + 1, (w + 2 * pad - kernel) // stride + 1, c)
        attrs = {"kernel": (kernel, kernel), "stride": (stride, stride), "pad": (pad,) * 4}
        return self._node(op, name, (x,), shape, self.tensors[x].q, attrs)

    def global_pool(self, name: str, x: str) -> str:
        """Average over the whole map."""
        h, w, c = self.tensors[x].shape
        attrs = {"kernel": (h, w), "stride": (1, 1), "pad": (0, 0, 0, 0)}
        return self._node("avgpool", name, (x,), (1, 1, c), self.tensors[x].q, attrs)

    def concat(self, name: str, *xs: str) -> str:
        """Concatenate along the channels."""
        h, w, _ = self.tensors[xs[0]].shape
        c = sum(self.tensors[x].shape[2] for x in xs)
        return self._node("concat", name, xs, (h, w, c), QParams(0.025, -7), {})

    def clamp(self, name: str, x: str, lo: int, hi: int, q: QParams | None = None) -> str:
        """A stand-alone clamp to int8 limits."""
        tensor = self.tensors[x]
        return self._node("clamp", name, (x,), tensor.shape, q or tensor.q, {"lo": lo, "hi": hi})

    def reshape(self, name: str, x: str, shape: Shape) -> str:
        """The same bytes under another shape."""
        attrs = {"shape": shape}
        return self._node("reshape", name, (x,), shape, self.tensors[x].q, attrs)

    def head(self, x: str, classes: int) -> Graph:
        """Close the network with its fp32 classifier."""
        size = self.tensors[x].size
        params = {
            "weight": self.rng.normal(0, 0.3, (classes, 1, 1, size)).astype(np.float32),
            "bias": self.rng.normal(0, 0.1, classes).astype(np.float32),
        }
        output = self._node("linear", "classifier", (x,), (1, 1, classes), None, {}, params)
        names = tuple(f"class{i}" for i in range(classes))
        return Graph(self.name, tuple(self.inputs), output, self.tensors, tuple(self.nodes), names)


def joined_network() -> Graph:
    """Max pools, one with windows that overlap and reach outside, a concat of three maps in other
    units, and stand-alone clamps, one of which changes units; both kinds of clamp cut values off.
    """
    b = NetworkBuilder((8, 7, 3), 2, "joined")
    x = b.conv("stem", "x", 6, 3, 1, 1)
    wide = b.pool("maxpool", "wide", x, 3, 2, 1)
    cut = b.clamp("cut", b.conv("deep", wide, 4), -60, 40, QParams(0.017, 9))
    y = b.concat("joined", wide, cut, b.conv("dw", wide, 6, 3, 1, 1, groups=6))
    y = b.clamp("relu6", b.conv("mixed", y, 8), -20, 90)
    return b.head(b.pool("maxpool", "largest", y, 2, 2), 4)


def residual_network(size: int = 8, classes: int = 4, seed: int = 0) -> Graph:
    """MCUNet-like: first conv, an inverted residual block, a strided one, global pool,
    classifier.
    """
    b = NetworkBuilder((size, size, 3), seed, "residual")
    x = b.conv("stem", "x", 8, 3, 2, 1, relu=True)
    y = b.conv("b1.pw1", x, 16, relu=True)
    y = b.conv("b1.dw", y, 16, 3, 1, 1, groups=16, relu=True)
    y = b.conv("b1.pw2", y, 8)
    x = b.add("b1.add", x, y)
    y = b.conv("b2.pw1", x, 24, relu=True)
    y = b.conv("b2.dw", y, 24, 3, 2, 1, groups=24, relu=True)
    y = b.conv("b2.pw2", y, 12)
    return b.head(b.global_pool("pool", y), classes)
