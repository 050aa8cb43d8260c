"""Move each update right behind the last thing it waits for, so that its error and saved input can
be forgotten.

Operator reordering of "On-Device Training Under 256KB Memory" (section 3.3), as list scheduling:
an instruction may run when everything before it that writes what it touches, or reads what it
writes, has run. Updates that can run go first; the rest keeps its order. The forward pass stays as
it is.
"""

from __future__ import annotations

from mcutrain.ir.program import STATE, Instr
from mcutrain.passes.lowered import Lowered


def reorder(out: Lowered) -> Lowered:
    """Schedule the backward instructions of a program, in place, and return it."""
    backward = out.instrs[out.forward :]
    waits = _dependencies(out, backward)
    done: set[int] = set()
    order: list[int] = []
    while len(order) < len(backward):
        ready = [i for i in range(len(backward)) if i not in done and waits[i] <= done]
        chosen = next((i for i in ready if _is_update(out, backward[i])), ready[0])
        done.add(chosen)
        order.append(chosen)
    out.instrs[out.forward :] = [backward[i] for i in order]
    return out


def _is_update(out: Lowered, instr: Instr) -> bool:
    return any(out.values[w].space == STATE for w in instr.writes())


def _dependencies(out: Lowered, instrs: list[Instr]) -> list[set[int]]:
    """For each instruction the earlier ones it must follow: read/write conflicts on the same
    bytes.
    """
    reads = [{out.base(r) for r in i.reads()} for i in instrs]
    writes = [{out.base(w) for w in i.writes()} for i in instrs]
    return [
        {j for j in range(i) if writes[j] & (reads[i] | writes[i]) or reads[j] & writes[i]}
        for i in range(len(instrs))
    ]
