"""Append the backward pass: loss, errors of all tensors, updates of the plan.

Walking backwards from the classifier, `conv2d x -> y, mask` adds

    conv2d_dx e_y, weights, skip, mask of x -> e_x
    conv2d_dw e_y, x -> weights, bias
    conv2d_db e_y -> bias

Errors are in real units, so add, concat, clamp and reshape pass them on as they are. What reaches
a tensor along several ways is summed: a convolution or pool adds at most one *skip* error to its
own before the one rounding, so contributions that are errors already are joined by error_sum
first, and several convolutions are chained. All errors are generated here, needed or not: `prune`
drops the rest. Updates come last, after every reader of the weights; `reorder` moves them up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mcutrain.ir import arith
from mcutrain.ir.graph import Array
from mcutrain.ir.program import Instr, Value
from mcutrain.passes.lowered import LayerInfo, Lowered

_MAX_SUM = 4


@dataclass(frozen=True)
class _Passed:
    """An error that reaches a tensor unchanged: channels c0 and up of the error value `name`."""

    name: str
    c0: int = 0


# Emits the instruction that computes an error: (skip, mask, output) names; skip and mask may be
# None.
_Emit = Callable[[str | None, str | None, str], None]


@dataclass
class _Ways:
    """How the loss reaches one tensor."""

    passed: list[_Passed] = field(default_factory=list)
    made: list[_Emit] = field(default_factory=list)


class _Autodiff:
    def __init__(self, out: Lowered) -> None:
        self.out = out
        self.ways: dict[str, _Ways] = {}
        self.errors: dict[str, str | None] = {}
        self.masks = {
            out.base(i.operands["y"]): i.operands["mask"]
            for i in out.instrs
            if "mask" in i.operands
        }
        self.updates: list[Instr] = []

    def run(self) -> None:
        forward = list(self.out.instrs)
        self._loss(forward[-1])
        for instr in reversed(forward[:-1]):
            rule = _RULES.get(instr.op)
            if rule is not None:
                rule(self, instr)
        self.out.instrs.extend(self.updates)

    def emit(self, op: str, layer: str, operands: dict[str, str | None], **params: int) -> None:
        present = {slot: name for slot, name in operands.items() if name is not None}
        self.out.instrs.append(Instr(op, layer, present, params))

    def way_to(self, tensor: str) -> _Ways:
        return self.ways.setdefault(self.out.base(tensor), _Ways())

    def error_of(self, tensor: str) -> str | None:
        """The error of a tensor under that tensor's shape; None if the loss does not depend on it.

        All consumers have been visited when a producer asks, so its ways are complete.
        """
        base = self.out.base(tensor)
        if base not in self.errors:
            self.errors[base] = self._materialise(base)
        error = self.errors[base]
        return None if error is None else self.out.view(error, self.out.values[tensor].shape)

    def _new_error(self, tensor: str, suffix: str = "", error: int | None = None) -> str:
        index = self.out.new_error() if error is None else error
        shape = self.out.values[tensor].shape
        return self.out.add(Value(f"{tensor}.error{suffix}", shape, "s8", error=index))

    def _materialise(self, base: str) -> str | None:
        ways = self.ways.get(base, _Ways())
        mask = self.masks.get(base)
        if not ways.made:
            return self._sum(base, ways.passed, mask, "") if ways.passed else None
        skip = self._sum(base, ways.passed, None, ".skip") if ways.passed else None
        for number, make in enumerate(ways.made):
            last = number == len(ways.made) - 1
            error = self._new_error(base, "" if last else f".part{number}")
            make(skip, mask if last else None, error)
            skip = error
        return skip

    def _sum(self, base: str, passed: list[_Passed], mask: str | None, suffix: str) -> str:
        shape = self.out.values[base].shape
        if len(passed) == 1:
            only = passed[0]
            if mask is None and self.out.values[only.name].count == self.out.values[base].count:
                return self.out.view(only.name, shape)
        if len(passed) > _MAX_SUM:
            head = self._sum(base, passed[:_MAX_SUM], None, f"{suffix}.sum{len(passed)}")
            return self._sum(base, [_Passed(head), *passed[_MAX_SUM:]], mask, suffix)
        copied = self.out.values[passed[0].name].error if len(passed) == 1 else None
        error = self._new_error(base, suffix, copied)
        operands: dict[str, str | None] = {"mask": mask, "e_x": error}
        params = {f"c{i}": 0 for i in range(_MAX_SUM)}
        for i, one in enumerate(passed):
            value = self.out.values[one.name]
            same = value.count == self.out.values[base].count
            operands[f"e{i}"] = self.out.view(one.name, shape) if same else one.name
            params[f"c{i}"] = one.c0
        self.emit("error_sum", base, operands, **params, rng=self.out.new_rng())
        return error

    def _loss(self, head: Instr) -> None:
        out, layer = self.out, head.layer
        logits, weight = head.operands["logits"], head.operands["w"]
        df = out.arena(f"{logits}.df", out.values[logits].shape, "f32")
        self.emit("loss", layer, {"logits": logits, "df": df})
        features = out.values[out.features]
        scratch = out.arena(f"{layer}.scratch", (1, 1, features.count), "f32")

        def make(skip: str | None, mask: str | None, error: str) -> None:
            assert skip is None  # nothing but the classifier reads the features
            operands = {"df": df, "w": weight, "scratch": scratch, "mask": mask, "e_x": error}
            self.emit("head_dx", layer, operands, rng=out.new_rng())

        self.way_to(out.features).made.append(make)
        if out.train_head:
            operands = {
                "x": head.operands["x"],
                "df": df,
                "w": weight,
                "b": head.operands["b"],
            }
            self.updates.append(Instr("head_dw", layer, operands))

    def pool(self, instr: Instr) -> None:
        error = self.error_of(instr.operands["y"])
        if error is None:
            return
        params = {
            k: v for k, v in instr.params.items() if k in ("kh", "kw", "sh", "sw", "pt", "pl")
        }
        operands: dict[str, str | None] = {"e_y": error}
        if instr.op == "maxpool":
            operands["index"] = instr.operands["index"]
        else:
            mant, exp = arith.fixed(1 / (params["kh"] * params["kw"]))
            params |= {"mant": int(mant), "exp": int(exp)}

        def make(skip: str | None, mask: str | None, out: str) -> None:
            rest = {"skip": skip, "mask": mask, "e_x": out}
            rng = self.out.new_rng()
            self.emit(f"{instr.op}_dx", instr.layer, {**operands, **rest}, **params, rng=rng)

        self.way_to(instr.operands["x"]).made.append(make)

    def passing(self, instr: Instr) -> None:
        error = self.error_of(instr.operands["y"])
        if error is not None:
            for slot in ("a", "b", "x"):
                if slot in instr.operands:
                    one = _Passed(error, instr.params.get("c0", 0))
                    self.way_to(instr.operands[slot]).passed.append(one)

    def conv2d(self, instr: Instr) -> None:
        error = self.error_of(instr.operands["y"])
        if error is None:
            return
        info = self.out.layers[instr.layer]
        window = {k: v for k, v in instr.params.items() if k not in ("lo", "hi")}
        x = instr.operands["x"]

        def make(skip: str | None, mask: str | None, e_x: str) -> None:
            self._conv2d_dx(
                instr, info, error, (skip, mask, self.out.view(e_x, self.out.values[x].shape))
            )

        self.way_to(x).made.append(make)
        if info.channels:
            self._conv2d_dw(instr, info, error, window)
        if info.train_bias:
            scale = 1 / (info.x_scale * info.w_scale)
            operands = {"e_y": error, "bias": instr.operands["bias"]}
            operands |= self._update_tables(instr, info, "bias", scale)
            params = {"reach": info.reach, "rng": self.out.new_rng()}
            self.updates.append(Instr("conv2d_db", instr.layer, operands, params))

    def _conv2d_dx(
        self,
        instr: Instr,
        info: LayerInfo,
        error: str,
        rest: tuple[str | None, str | None, str],
    ) -> None:
        layer, params = instr.layer, dict(instr.params)
        groups, taps = params["groups"], params["kh"] * params["kw"]
        table = arith.error_scale(info.w_scale, info.degenerate, groups, taps, layer)
        skip, mask, e_x = rest
        operands: dict[str, str | None] = {
            "e_y": error,
            "w_trained": instr.operands.get("w_trained"),
            "w_frozen": instr.operands.get("w_frozen"),
            "r": self.out.const(f"{layer}.r", "s16", table.r),
            "mant": self.out.const(f"{layer}.dx.mant", "s32", table.mant),
            "exp": self.out.const(f"{layer}.dx.exp", "s8", table.exp),
            "perm": instr.operands.get("perm"),
            "skip": skip,
            "mask": mask,
            "e_x": e_x,
        }
        del params["lo"], params["hi"]
        self.emit("conv2d_dx", layer, operands, **params, f=table.f, rng=self.out.new_rng())

    def _update_tables(
        self, instr: Instr, info: LayerInfo, kind: str, scale: Array
    ) -> dict[str, str]:
        layer = instr.layer
        mant, exp = arith.update_constants(scale, info.degenerate, layer)
        return {
            "mant": self.out.const(f"{layer}.{kind}.mant", "s32", mant),
            "exp": self.out.const(f"{layer}.{kind}.exp", "s8", exp),
            "shift": instr.operands["shift"],
        }

    def _conv2d_dw(self, instr: Instr, info: LayerInfo, error: str, window: dict[str, int]) -> None:
        assert info.saved is not None  # lowering saved it, for it saw the same plan
        layer, bits = instr.layer, self.out.fraction_bits
        operands = {
            "e_y": error,
            "x": info.saved,
            "w": instr.operands["w_trained"],
            "bias": instr.operands["bias"],
        }
        operands |= self._update_tables(instr, info, "weight", info.x_scale / info.w_scale)
        if bits:
            operands["frac"] = f"{layer}.frac"
        if info.depthwise and info.partial:
            operands["chan"] = f"{layer}.chan"
        params = {**window, "bits": bits, "reach": info.reach, "rng": self.out.new_rng()}
        self.updates.append(Instr("conv2d_dw", layer, operands, params))


_RULES: dict[str, Callable[[_Autodiff, Instr], None]] = {
    "conv2d": _Autodiff.conv2d,
    "add": _Autodiff.passing,
    "rescale": _Autodiff.passing,
    "avgpool": _Autodiff.pool,
    "maxpool": _Autodiff.pool,
}


def autodiff(out: Lowered) -> Lowered:
    """Append the backward pass of a lowered program, in place, and return it."""
    _Autodiff(out).run()
    return out
