"""Lower a quantised network to forward instructions, with its weights cut up as the plan says.

    conv2d(x) -> y   with 12 of 48 input channels trained becomes
    gather x, chan -> x.saved      conv2d x, w_trained (state), w_frozen (constants), ... -> y, mask

Linear layers become 1x1 convolutions of 1x1 maps; reshape becomes a view; concat a rescale an
input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from mcutrain.errors import UnsupportedError
from mcutrain.ir import arith
from mcutrain.ir.graph import Array, Graph, Node, QParams, Shape
from mcutrain.ir.program import ARENA, Instr, Value
from mcutrain.passes.lowered import LayerInfo, Lowered
from mcutrain.plan.plan import Plan, is_depthwise


def lower(graph: Graph, plan: Plan) -> Lowered:
    """Forward instructions of a quantised network; trained weights and folded biases are state.

    Raises:
        UnsupportedError: an operator without lowering, or a constant that the arithmetic cannot
            hold.
    """
    plan.check(graph)
    out = Lowered(graph.name, fraction_bits=plan.fraction_bits, train_head=plan.head)
    for name in graph.inputs:
        tensor = graph.tensors[name]
        q = _q(graph, name)
        out.add(Value(name, tensor.shape, "s8", zero_point=q.zero_point, scale=q.scale))
    out.inputs = graph.inputs
    for node in graph.nodes[:-1]:
        rule = _RULES.get(node.op)
        if rule is None:
            raise UnsupportedError(f"operator '{node.op}' cannot be lowered", where=node.name)
        rule(out, graph, node, plan)
    _head(out, graph, plan)
    out.forward = len(out.instrs)
    return out


def _q(graph: Graph, tensor: str) -> QParams:
    q = graph.tensors[tensor].q
    if q is None:
        raise UnsupportedError(
            "the network is not quantised", where=tensor, hint="mcutrain quantize"
        )
    return q


def _activation(out: Lowered, graph: Graph, name: str) -> str:
    tensor = graph.tensors[name]
    q = _q(graph, name)
    return out.add(Value(name, tensor.shape, "s8", zero_point=q.zero_point, scale=q.scale))


def _mask(out: Lowered, y: str) -> str:
    return out.arena(f"{y}.mask", out.values[y].shape, "bits")


def _emit(
    out: Lowered, op: str, node: Node, operands: Mapping[str, str | None], **params: int
) -> None:
    present = {slot: name for slot, name in operands.items() if name is not None}
    out.instrs.append(Instr(op, node.name, present, params))


def _window(node: Node, kernel: tuple[int, int]) -> dict[str, int]:
    sh, sw = node.attrs.get("stride", (1, 1))
    pad = node.attrs.get("pad", (0, 0, 0, 0))
    return {"kh": kernel[0], "kw": kernel[1], "sh": sh, "sw": sw, "pt": pad[0], "pl": pad[1]}


def _limits(node: Node) -> dict[str, int]:
    return {"lo": int(node.attrs.get("lo", -128)), "hi": int(node.attrs.get("hi", 127))}


def _conv2d(out: Lowered, graph: Graph, node: Node, plan: Plan) -> None:
    source = node.inputs[0]
    weight = np.asarray(node.params["weight"], np.int8)
    x = out.view(source, (1, 1, graph.tensors[source].size)) if node.op == "linear" else source
    x_q, y_q = _q(graph, source), _q(graph, node.output)
    w_scale = np.asarray(node.params["w_scale"], np.float64)
    mult, shift = arith.multiplier(x_q.scale * w_scale / y_q.scale, node.name)
    channels = plan.weights.get(node.name, ())
    blocks = _Blocks(out, node, channels, out.values[x].shape[2])
    train_bias = node.name in plan.biases
    reach = arith.reach(blocks.frozen_sum, blocks.trained_count)
    if channels or train_bias:
        reach = reach.max()
    bound = arith.bias_bound(shift, reach, node.name)
    w_sum = weight.astype(np.int64).sum(axis=(1, 2, 3))
    bias = arith.fold_bias(node.params["bias"], x_q.zero_point, w_sum, bound)
    keep = out.state if channels or train_bias else out.const
    saved = blocks.save(x) if channels else None
    y = _activation(out, graph, node.output)
    operands: dict[str, str | None] = {
        "x": x,
        "w_trained": blocks.trained,
        "w_frozen": blocks.frozen,
        "bias": keep(f"{node.name}.bias", "s32", bias),
        "mult": out.const(f"{node.name}.mult", "s32", mult),
        "shift": out.const(f"{node.name}.shift", "u8", shift),
        "perm": blocks.perm,
        "y": y,
        "mask": _mask(out, y),
    }
    groups = int(node.attrs.get("groups", 1))
    kernel = (weight.shape[1], weight.shape[2])
    _emit(out, "conv2d", node, operands, **_window(node, kernel), groups=groups, **_limits(node))
    out.layers[node.name] = LayerInfo(
        w_scale,
        arith.degenerate(mult),
        int(reach.max()),
        x_q.scale,
        x_q.zero_point,
        channels,
        blocks.perm is not None,
        is_depthwise(node),
        train_bias,
        saved,
    )


class _Blocks:
    """The weights of one layer, cut into [trained | frozen] input channels (depthwise:
    channels).
    """

    def __init__(self, out: Lowered, node: Node, channels: tuple[int, ...], total: int) -> None:
        self._out, self._name, self._channels = out, node.name, channels
        weight = np.asarray(node.params["weight"], np.int8)
        axis = 0 if is_depthwise(node) else 3
        rest = tuple(c for c in range(total) if c not in set(channels))
        partial = bool(channels) and bool(rest)
        everything = tuple(range(weight.shape[axis]))
        picked = channels if partial else (everything if channels else ())
        left = rest if partial else (() if channels else everything)
        trains = np.zeros(weight.shape, bool)
        trains[(slice(None),) * axis + (list(picked),)] = True
        self.trained_count = trains.sum(axis=(1, 2, 3))
        self.frozen_sum = np.where(trains, 0, np.abs(weight.astype(np.int64))).sum(axis=(1, 2, 3))
        order = np.array((*channels, *rest), np.uint16)
        self.perm = out.const(f"{node.name}.perm", "u16", order) if partial else None
        self.trained = self._trained_state(np.take(weight, picked, axis)) if channels else None
        frozen = np.take(weight, left, axis)
        self.frozen = (
            out.const(f"{node.name}.weight", "s8", frozen, self._shape(frozen)) if left else None
        )

    @staticmethod
    def _shape(block: Array) -> Shape:
        return (block.shape[0], block.shape[1] * block.shape[2], block.shape[3])

    def _trained_state(self, block: Array) -> str:
        out, bits = self._out, self._out.fraction_bits
        if bits:
            dtype, fill = ("u8", 0x80) if bits == 8 else ("nibbles", 0x88)
            size = block.size if bits == 8 else (block.size + 1) // 2
            half = np.full(size, fill, np.uint8)
            out.state(f"{self._name}.frac", dtype, half, self._shape(block))
        return out.state(f"{self._name}.trained", "s8", block, self._shape(block))

    def save(self, x: str) -> str:
        """The value that keeps x for the weight gradient: x itself, or just its trained
        channels.
        """
        if self.perm is None:
            return x
        out, name = self._out, self._name
        value = out.values[x]
        chan = out.const(f"{name}.chan", "u16", np.array(self._channels, np.uint16))
        shape = (value.shape[0], value.shape[1], len(self._channels))
        saved = Value(f"{name}.saved", shape, "s8", ARENA, value.zero_point, value.scale)
        y = out.add(saved)
        out.instrs.append(Instr("gather", name, {"x": x, "chan": chan, "y": y}))
        return y


def _add(out: Lowered, graph: Graph, node: Node, plan: Plan) -> None:
    del plan
    qa, qb, qy = (_q(graph, t) for t in (*node.inputs, node.output))
    mult_a, mult_b, n = arith.add_constants(qa.scale, qb.scale, qy.scale, node.name)
    y = _activation(out, graph, node.output)
    operands = {"a": node.inputs[0], "b": node.inputs[1], "y": y, "mask": _mask(out, y)}
    _emit(out, "add", node, operands, mult_a=mult_a, mult_b=mult_b, n=n, **_limits(node))


def _avgpool(out: Lowered, graph: Graph, node: Node, plan: Plan) -> None:
    del plan
    kernel = node.attrs["kernel"]
    mult, shift = arith.multiplier(np.array([1 / (kernel[0] * kernel[1])]), node.name)
    y = _activation(out, graph, node.output)
    operands = {"x": node.inputs[0], "y": y}
    window = _window(node, kernel)
    _emit(out, "avgpool", node, operands, **window, mult=int(mult[0]), shift=int(shift[0]))


def _maxpool(out: Lowered, graph: Graph, node: Node, plan: Plan) -> None:
    del plan
    y = _activation(out, graph, node.output)
    index = out.arena(f"{y}.index", out.values[y].shape, "u8")
    operands = {"x": node.inputs[0], "y": y, "index": index}
    _emit(out, "maxpool", node, operands, **_window(node, node.attrs["kernel"]))


def _rescale(out: Lowered, graph: Graph, node: Node, plan: Plan) -> None:
    """A stand-alone clamp has one input; concat has several, each written to its own channels."""
    del plan
    y = _activation(out, graph, node.output)
    mask = _mask(out, y)
    c0 = 0
    for x in node.inputs:
        ratio = _q(graph, x).scale / _q(graph, node.output).scale
        mult, shift = arith.multiplier(np.array([ratio]), node.name)
        operands = {"x": x, "y": y, "mask": mask}
        constants = {"mult": int(mult[0]), "shift": int(shift[0])}
        _emit(out, "rescale", node, operands, **constants, **_limits(node), c0=c0)
        c0 += graph.tensors[x].shape[2]


def _reshape(out: Lowered, graph: Graph, node: Node, plan: Plan) -> None:
    del plan
    source = out.values[node.inputs[0]]
    out.add(
        Value(
            node.output,
            graph.tensors[node.output].shape,
            "s8",
            zero_point=source.zero_point,
            scale=source.scale,
            view_of=out.base(source.name),
        )
    )


def _head(out: Lowered, graph: Graph, plan: Plan) -> None:
    node = graph.head
    if node.op != "linear":
        raise UnsupportedError(
            "the last layer must be linear: it becomes the fp32 classifier", where=node.name
        )
    weight = np.asarray(node.params["weight"], np.float32)
    classes = weight.shape[0]
    keep = out.state if plan.head else out.const
    w = keep(f"{node.name}.weight", "f32", weight, (1, classes, weight[0].size))
    b = keep(f"{node.name}.bias", "f32", np.asarray(node.params["bias"], np.float32))
    out.features = node.inputs[0]
    out.logits = out.arena(node.output, (1, 1, classes), "f32")
    _emit(out, "head", node, {"x": out.features, "w": w, "b": b, "logits": out.logits})


_RULES: dict[str, Callable[[Lowered, Graph, Node, Plan], None]] = {
    "conv2d": _conv2d,
    "linear": _conv2d,
    "add": _add,
    "avgpool": _avgpool,
    "maxpool": _maxpool,
    "clamp": _rescale,
    "concat": _rescale,
    "reshape": _reshape,
}
