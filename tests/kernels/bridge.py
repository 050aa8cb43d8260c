"""Runs one instruction with its C kernel, in place of the numpy reference of the same signature.

It does what the executor does around a kernel (rows, exponents, keys) with the functions of
mct_arith.h.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mcutrain.ir import arith
from mcutrain.ir.program import Instr
from mcutrain.ir.reference.runtime import DTYPES, Memory, Runtime, error_index

C_TYPES = {"s8": "int8_t", "u8": "uint8_t", "s16": "int16_t", "u16": "uint16_t", "s32": "int32_t"}
C_TYPES |= {"f32": "float", "bits": "uint8_t", "nibbles": "uint8_t"}
INT32_MIN = -(2**31)


@dataclass(frozen=True)
class Call:
    """One instruction about to run; k has `ffi` and `lib`, as the fixture `kernel_module`."""

    k: Any
    instr: Instr
    memory: Memory
    runtime: Runtime
    scratch: np.ndarray[Any, Any] | None = None

    def scratch_memory(self) -> dict[str, Any]:
        """The field `scratch` of a kernel's parameters."""
        if self.scratch is None:
            return {"base": self.k.ffi.NULL, "bytes": 0}
        pointer = self.k.ffi.cast("void *", self.k.ffi.from_buffer(self.scratch))
        return {"base": pointer, "bytes": self.scratch.nbytes}

    def plane(self) -> Any:
        """Scratch memory for one channel, of its own where `scratch` is too small."""
        h, w, _ = self.shape("e_x")
        if self.scratch is None or self.scratch.nbytes < h * w:
            return self.ptr("scratch")
        return self.k.ffi.from_buffer(self.scratch)

    def ptr(self, slot: str) -> Any:
        """Pointer to the value in a slot, NULL where it is empty."""
        if slot not in self.instr.operands:
            return self.k.ffi.NULL
        array, dtype = self.memory.read(self.instr, slot), self.value(slot).dtype
        assert array.dtype == DTYPES[dtype]
        return self.k.ffi.cast(f"{C_TYPES[dtype]} *", self.k.ffi.from_buffer(array))

    def value(self, slot: str) -> Any:
        return self.memory.value(self.instr, slot)

    def z(self, slot: str) -> int:
        return int(self.value(slot).zero_point)

    def shape(self, slot: str) -> list[int]:
        return list(self.value(slot).shape)

    def p(self, *names: str) -> dict[str, int]:
        return {name: self.instr.params[name] for name in names}

    @property
    def window(self) -> dict[str, int]:
        return self.p("kh", "kw", "sh", "sw", "pt", "pl")

    def e(self, slot: str) -> int:
        return self.runtime.exponent_of(self.memory, self.instr.operands[slot])

    def key(self) -> int:
        run = self.runtime
        return int(self.k.lib.mct_random_key(run.seed, run.step, self.instr.params["rng"]))

    def new(self, struct: str, **fields: Any) -> Any:
        return self.k.ffi.new(f"{struct} *", fields)

    def conv(self, x: str, y: str) -> dict[str, Any]:
        trained = 0
        if "w_trained" in self.instr.operands:
            rows, _, cols = self.shape("w_trained")
            groups = self.instr.params["groups"]
            depthwise = groups > 1 and groups == self.shape(x)[2] == self.shape(y)[2]
            trained = rows if depthwise else cols
        fields = {name: self.ptr(name) for name in ("w_trained", "w_frozen", "perm")}
        fields |= {"x": self.shape(x), "y": self.shape(y), "win": self.window}
        return fields | self.p("groups") | {"trained": trained}

    def rows(self, slot: str) -> Any:
        h, w, c = self.shape(slot)
        return self.new("mct_rows", base=self.ptr(slot), stride=w * c, rows=h)


def _conv2d_params(c: Call) -> Any:
    return c.new(
        "mct_conv2d",
        conv=c.conv("x", "y"),
        z_x=c.z("x"),
        z_y=c.z("y"),
        scratch=c.scratch_memory(),
        **{name: c.ptr(name) for name in ("bias", "mult", "shift")},
        **c.p("lo", "hi"),
    )


def _conv2d(c: Call) -> None:
    h, w, channels = c.shape("y")
    if c.scratch is not None:
        rows_of_conv2d(c, h)
        return
    p, x, y, mask = _conv2d_params(c), c.rows("x"), c.ptr("y"), c.ptr("mask")
    for oy in reversed(range(h)):  # any order of rows is allowed
        c.k.lib.mct_conv2d_row_s8(p, x, oy, y + oy * w * channels, mask)


def rows_of_conv2d(c: Call, rows: int) -> None:
    """A conv2d whose output is made some rows at a time."""
    h, w, channels = c.shape("y")
    p, x, y, mask = _conv2d_params(c), c.rows("x"), c.ptr("y"), c.ptr("mask")
    for oy in range(0, h, rows):
        n = min(rows, h - oy)
        c.k.lib.mct_conv2d_rows_s8(p, x, oy, n, y + oy * w * channels, mask)


def scratch_of(c: Call) -> int:
    """What the kernel of a convolution says that it can use."""
    if c.instr.op == "conv2d":
        masked = int("mask" in c.instr.operands)
        rows = c.shape("y")[0]
        return int(c.k.lib.mct_conv2d_scratch_bytes(_conv2d_params(c), rows, masked))
    if c.instr.op == "conv2d_dx":
        conv = c.new("mct_conv", **c.conv("e_x", "e_y"))
        return int(c.k.lib.mct_conv2d_dx_scratch_bytes(conv))
    return int(c.k.lib.mct_conv2d_dw_scratch_bytes(_conv2d_dw_params(c)))


def _pool(c: Call, **constants: int) -> tuple[Any, Any, int, int]:
    p = c.new("mct_pool", x=c.shape("x"), y=c.shape("y"), win=c.window, z_x=c.z("x"), **constants)
    h, w, channels = c.shape("y")
    return p, c.rows("x"), h, w * channels


def _avgpool(c: Call) -> None:
    p, x, h, row = _pool(c, **c.p("mult", "shift"))
    for oy in range(h):
        c.k.lib.mct_avgpool_row_s8(p, x, oy, c.ptr("y") + oy * row)


def _maxpool(c: Call) -> None:
    p, x, h, row = _pool(c)
    for oy in range(h):
        index = c.ptr("index") + oy * row if "index" in c.instr.operands else c.k.ffi.NULL
        c.k.lib.mct_maxpool_row_s8(p, x, oy, c.ptr("y") + oy * row, index)


def _add(c: Call) -> None:
    """In two parts, cut where a mask byte is not full: the executor may cut anywhere."""
    count = c.value("y").count
    for start, n in ((0, count // 2), (count // 2, count - count // 2)):
        p = c.new(
            "mct_add",
            n=n,
            shift=c.instr.params["n"],
            z_a=c.z("a"),
            z_b=c.z("b"),
            z_y=c.z("y"),
            **c.p("mult_a", "mult_b", "lo", "hi"),
        )
        a, b, y = (c.ptr(slot) + start for slot in ("a", "b", "y"))
        c.k.lib.mct_add_s8(p, a, b, y, c.ptr("mask"), start)


def _rescale(c: Call) -> None:
    h, w, channels = c.shape("x")
    p = c.new(
        "mct_rescale",
        pixels=h * w,
        c_x=channels,
        c_y=c.shape("y")[2],
        z_x=c.z("x"),
        z_y=c.z("y"),
        **c.p("mult", "shift", "lo", "hi", "c0"),
    )
    c.k.lib.mct_rescale_s8(p, c.ptr("x"), c.ptr("y"), c.ptr("mask"), 0)


def _gather(c: Call) -> None:
    h, w, c_x = c.shape("x")
    p = c.new("mct_gather", pixels=h * w, c_x=c_x, c_y=c.shape("y")[2], chan=c.ptr("chan"))
    c.k.lib.mct_gather_s8(p, c.ptr("x"), c.ptr("y"))


def _error(c: Call, floor: int) -> dict[str, Any]:
    index = error_index(c.memory, c.instr.operands["e_x"])
    predictor = int(c.runtime.predictor[index])
    e_out = c.k.lib.mct_error_exponent(c.runtime.l_top, predictor, floor)
    skip = {"skip": c.ptr("skip"), "e_skip": c.e("skip") if "skip" in c.instr.operands else 0}
    return {"mask": c.ptr("mask"), "key": c.key(), "e_out": e_out, **skip}


def _finish(c: Call, e_out: int, stats: Any) -> None:
    index = error_index(c.memory, c.instr.operands["e_x"])
    c.runtime.saturated += stats.saturated
    predictor = int(c.runtime.predictor[index])
    c.runtime.exponent[index] = e_out
    c.runtime.predictor[index] = c.k.lib.mct_predictor_update(
        predictor, e_out, stats.amax, c.runtime.l_top
    )


def _conv2d_dx(c: Call) -> None:
    mant, exp, f = c.ptr("mant"), c.ptr("exp"), c.instr.params["f"]
    floor = c.k.lib.mct_exponent_floor(mant, exp, c.instr.params["groups"], f, c.e("e_y"))
    error = _error(c, floor)
    p = c.new(
        "mct_conv2d_dx",
        conv=c.conv("e_x", "e_y"),
        r=c.ptr("r"),
        mant=mant,
        exp=exp,
        f=f,
        e_y=c.e("e_y"),
        error=error,
        scratch=c.scratch_memory(),
    )
    stats = c.new("mct_error_stats")
    if c.ptr("e_x") == c.ptr("e_y"):
        plane = c.k.ffi.cast("int8_t *", c.plane())
        c.k.lib.mct_depthwise_dx_inplace_s8(p, c.ptr("e_x"), plane, stats)
    else:
        c.k.lib.mct_conv2d_dx_s8(p, c.ptr("e_y"), c.ptr("e_x"), stats)
    _finish(c, error["e_out"], stats)


def _pool_dx(c: Call, mant: int, exp: int, kernel: Callable[..., None], *inputs: Any) -> None:
    ffi, lib = c.k.ffi, c.k.lib
    floor = lib.mct_exponent_floor(
        ffi.new("int32_t[]", [mant]), ffi.new("int8_t[]", [exp]), 1, 8, c.e("e_y")
    )
    error = _error(c, floor)
    shapes = {"x": c.shape("e_x"), "y": c.shape("e_y"), "win": c.window}
    p = c.new("mct_pool_dx", **shapes, mant=mant, exp=exp, e_y=c.e("e_y"), error=error)
    stats = c.new("mct_error_stats")
    kernel(p, c.ptr("e_y"), *inputs, c.ptr("e_x"), stats)
    _finish(c, error["e_out"], stats)


def _avgpool_dx(c: Call) -> None:
    _pool_dx(c, c.instr.params["mant"], c.instr.params["exp"], c.k.lib.mct_avgpool_dx_s8)


def _maxpool_dx(c: Call) -> None:
    _pool_dx(c, 1 << 30, 30, c.k.lib.mct_maxpool_dx_s8, c.ptr("index"))


def _error_sum(c: Call) -> None:
    slots = [f"e{i}" for i in range(4) if f"e{i}" in c.instr.operands]
    h, w, channels = c.shape("e_x")
    error = _error(c, INT32_MIN)
    p = c.new(
        "mct_error_sum",
        pixels=h * w,
        c=channels,
        n=len(slots),
        c_in=[c.shape(s)[2] for s in slots],
        c0=[c.instr.params[f"c{s[1]}"] for s in slots],
        e_in=[c.e(s) for s in slots],
        error=error,
    )
    stats = c.new("mct_error_stats")
    inputs = c.k.ffi.new("int8_t *[]", [c.ptr(s) for s in slots])
    c.k.lib.mct_error_sum_s8(p, inputs, c.ptr("e_x"), stats)
    if len(slots) > 1:
        _finish(c, error["e_out"], stats)


def _update(c: Call) -> dict[str, Any]:
    bits = arith.float_bits(c.runtime.lr)
    rate = {"mant": c.k.lib.mct_rate_mant(bits), "exp": c.k.lib.mct_rate_exp(bits)}
    tables = {name: c.ptr(name) for name in ("mant", "exp", "shift")}
    return tables | c.p("reach") | {"rate": rate, "e_y": c.e("e_y"), "key": c.key()}


def _conv2d_dw_params(c: Call) -> Any:
    rows, _, cols = c.shape("w")
    shapes = {"x": c.shape("x"), "y": c.shape("e_y"), "win": c.window, "rows": rows, "cols": cols}
    return c.new(
        "mct_conv2d_dw",
        **shapes,
        **c.p("groups", "bits"),
        chan=c.ptr("chan"),
        z_x=c.z("x"),
        update=_update(c),
        scratch=c.scratch_memory(),
    )


def _conv2d_dw(c: Call) -> None:
    p = _conv2d_dw_params(c)
    stats = c.new("mct_update_stats")
    written = (c.ptr(slot) for slot in ("w", "frac", "bias"))
    c.k.lib.mct_conv2d_dw_s8(p, c.ptr("e_y"), c.ptr("x"), *written, stats)
    c.runtime.clamped += stats.clamped


def _conv2d_db(c: Call) -> None:
    p = c.new("mct_conv2d_db", y=c.shape("e_y"), update=_update(c))
    c.k.lib.mct_conv2d_db_s8(p, c.ptr("e_y"), c.ptr("bias"))


def _head_params(c: Call) -> Any:
    x = c.value("x")
    classes = c.value("b").count
    return c.new("mct_head", features=x.count, classes=classes, z_x=c.z("x"), s_x=x.scale)


def _head(c: Call) -> None:
    c.k.lib.mct_head_f32(_head_params(c), *(c.ptr(s) for s in ("x", "w", "b", "logits")))


def _loss(c: Call) -> None:
    p = c.new("mct_loss", classes=c.value("df").count, label=c.runtime.label)
    result = c.new("mct_loss_result")
    assert c.k.lib.mct_loss_f32(p, c.ptr("logits"), c.ptr("df"), result) == 0
    c.runtime.loss, c.runtime.predicted = np.float32(result.loss), result.predicted


def _head_dx(c: Call) -> None:
    sizes = {"features": c.value("e_x").count, "classes": c.value("df").count}
    p = c.new("mct_head_dx", **sizes, mask=c.ptr("mask"), key=c.key())
    top = c.new("mct_top_error")
    operands = (c.ptr(slot) for slot in ("df", "w", "scratch", "e_x"))
    assert c.k.lib.mct_head_dx_s8(p, *operands, top) == 0
    c.runtime.exponent[error_index(c.memory, c.instr.operands["e_x"])] = top.e
    c.runtime.l_top = top.l_top
    c.runtime.saturated += top.stats.saturated


def _head_dw(c: Call) -> None:
    slots = (c.ptr(slot) for slot in ("x", "df", "w", "b"))
    c.k.lib.mct_head_dw_f32(_head_params(c), c.runtime.lr_head, *slots)


KERNEL: dict[str, Callable[[Call], None]] = {
    "conv2d": _conv2d,
    "add": _add,
    "avgpool": _avgpool,
    "maxpool": _maxpool,
    "rescale": _rescale,
    "gather": _gather,
    "head": _head,
    "loss": _loss,
    "head_dx": _head_dx,
    "head_dw": _head_dw,
    "conv2d_dx": _conv2d_dx,
    "avgpool_dx": _avgpool_dx,
    "maxpool_dx": _maxpool_dx,
    "error_sum": _error_sum,
    "conv2d_dw": _conv2d_dw,
    "conv2d_db": _conv2d_db,
}
