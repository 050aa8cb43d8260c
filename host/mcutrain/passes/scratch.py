"""Give instructions the scratch memory that they work faster or in place with.

    conv2d_dx e_y -> e_x        becomes        conv2d_dx e_y -> e_x, scratch

How much is asked in one place, `scratch_bytes`. What lies in scratch memory means nothing before
and after an instruction, so that the members of a segment, which take turns, share one buffer:
`share_scratch`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mcutrain.ir.inplace import inplace_scratch
from mcutrain.ir.program import Instr, Value
from mcutrain.passes.lowered import Lowered

SLOT = "scratch"


def scratch_bytes(values: Mapping[str, Value], instr: Instr) -> int:
    """Bytes of scratch memory that an instruction can use; 0 for none."""
    return inplace_scratch(values, instr) if instr.op == "conv2d_dx" else 0


def add_scratch(out: Lowered) -> Lowered:
    """Give each instruction scratch of its own, in place, and return the program."""
    for index, instr in enumerate(out.instrs):
        nbytes = scratch_bytes(out.values, instr)
        if nbytes:
            name = out.arena(f"{instr.layer}.{instr.op}.scratch", (1, 1, nbytes), "u8")
            out.instrs[index] = replace(instr, operands={**instr.operands, SLOT: name})
    return out


def share_scratch(out: Lowered, members: Sequence[Instr]) -> list[Instr]:
    """The members of a segment with the largest of their scratch buffers for all."""
    mine = [out.values[i.operands[SLOT]] for i in members if SLOT in i.operands]
    if not mine:
        return list(members)
    largest = max(mine, key=lambda v: v.nbytes).name
    return [
        replace(i, operands={**i.operands, SLOT: largest}) if SLOT in i.operands else i
        for i in members
    ]
