"""Which instructions may write their result over what they read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mcutrain.ir.program import ARENA, Instr, Value


def inplace_pairs(values: Mapping[str, Value], instr: Instr) -> Iterator[tuple[str, str]]:
    """Arena values that own bytes, (read, written), which may share a buffer if the read one ends
    here: they have as many bytes, and no other operand of the instruction needs what is read. The
    error of a residual's sum, for one, can be both what a pool's error is made of and the skip that
    is added to it. The best pair comes first.
    """
    base = {slot: _base(values, name) for slot, name in instr.operands.items()}
    pairs = [
        (source, target)
        for source, target in instr.spec.inplace
        if source in base and target in base
        if source != "e_y" or inplace_scratch(values, instr)
    ]
    for source, target in pairs:
        a, b = base[source], base[target]
        readers = {slot for slot, owner in base.items() if owner is a}
        alike = a.space == b.space == ARENA and a.nbytes == b.nbytes and a is not b
        if alike and all((slot, target) in pairs for slot in readers):
            yield a.name, b.name


def _base(values: Mapping[str, Value], name: str) -> Value:
    value = values[name]
    while value.view_of is not None:
        value = values[value.view_of]
    return value


def inplace_scratch(values: Mapping[str, Value], instr: Instr) -> int:
    """Bytes of scratch with which a conv2d_dx can write over the error that it reads: a plane of
    one channel. 0 if it cannot: it must be depthwise, of stride 1, between maps of one shape.
    """
    source, target = (values[instr.operands[s]] for s in ("e_y", "e_x"))
    params = instr.params
    if (
        source.shape != target.shape
        or not params["groups"] == source.shape[2] > 1
        or (params["sh"], params["sw"]) != (1, 1)
    ):
        return 0
    return source.shape[0] * source.shape[1]
