"""Dead-code elimination: keep what an update, the logits or the loss needs, drop the rest.

Sparse update is this pass: an error, a mask or a saved activation that no trained parameter needs
is gone. Optional results (masks, pool indices) that nobody reads are dropped from the instructions
that make them. Errors that remain are numbered anew.
"""

from __future__ import annotations

from dataclasses import replace

from mcutrain.ir.program import STATE, Instr
from mcutrain.passes.lowered import Lowered


def prune(out: Lowered) -> Lowered:
    """Remove dead instructions, optional results and values, in place, and return the program."""
    live: set[str] = {out.base(out.logits)}
    kept: list[tuple[int, Instr]] = []
    for index in range(len(out.instrs) - 1, -1, -1):
        instr = out.instrs[index]
        if _is_root(out, instr) or any(out.base(w) in live for w in instr.writes()):
            instr = _drop_optional(out, instr, live)
            live.update(out.base(r) for r in instr.reads())
            kept.append((index, instr))
    kept.reverse()
    out.forward = sum(index < out.forward for index, _ in kept)
    out.instrs = [instr for _, instr in kept]
    _drop_values(out)
    return out


def _is_root(out: Lowered, instr: Instr) -> bool:
    return instr.op == "loss" or any(out.values[w].space == STATE for w in instr.writes())


def _drop_optional(out: Lowered, instr: Instr, live: set[str]) -> Instr:
    dead = {
        slot.name
        for slot in instr.spec.slots
        if slot.optional and slot.written and not slot.read
        if slot.name in instr.operands and out.base(instr.operands[slot.name]) not in live
    }
    if not dead:
        return instr
    return replace(instr, operands={k: v for k, v in instr.operands.items() if k not in dead})


def _drop_values(out: Lowered) -> None:
    used = set(out.inputs)
    for instr in out.instrs:
        for name in instr.operands.values():
            used.update((name, out.base(name)))
    values = {name: value for name, value in out.values.items() if name in used}
    indices = sorted({v.error for v in values.values() if v.error is not None})
    renumber = {old: new for new, old in enumerate(indices)}
    out.values = {
        name: value if value.error is None else replace(value, error=renumber[value.error])
        for name, value in values.items()
    }
    out.errors = len(indices)
