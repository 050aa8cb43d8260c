"""Cut a program before the first instruction that a trained parameter influences.

What stands before the cut, the *frozen prefix*, makes the same of a sample in every epoch, so that
what lives across the cut can be kept instead of the sample.

    conv2d x, w (constants) -> a    conv2d a, w (state) -> b    ...      becomes
    conv2d x, w -> a         |      conv2d a, w -> b    ...              with the input a
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mcutrain.ir.instructions import MAX_INPUTS
from mcutrain.ir.program import ARENA, STATE, Instr, Program
from mcutrain.passes.rows import ROW_INPUTS
from mcutrain.passes.whole import used


@dataclass(frozen=True)
class Split:
    """A program in two parts.

    Attributes:
        whole: all instructions, the frozen prefix first; the result is the same to the bit.
        prefix: how many instructions the frozen prefix has.
        suffix: the other ones; its inputs are what lives across the cut.
    """

    whole: Program
    prefix: int
    suffix: Program


def split(program: Program) -> Split:
    """Cut a program that has neither segments nor repeats (`mcutrain.passes.whole`).

    The cut lies as late as what lives across it can be the input of a program: at most four int8
    maps. If everything trains, the prefix is empty and its suffix is the whole program.
    """
    frozen = _frozen(program)
    forward = program.instrs[: program.forward]
    first = [i for index, i in enumerate(forward) if index in frozen]
    rest = [i for index, i in enumerate(forward) if index not in frozen]
    instrs = (*first, *rest, *program.instrs[program.forward :])
    whole = replace(program, instrs=instrs)
    cut = next(k for k in range(len(first), -1, -1) if k == 0 or _can_cut(whole, k))
    inputs = _across(whole, cut) if cut else program.inputs
    suffix = replace(
        whole, instrs=instrs[cut:], forward=program.forward - cut, inputs=tuple(inputs)
    )
    return Split(whole, cut, used(suffix))


def _frozen(program: Program) -> set[int]:
    """Indices of the forward instructions that no trained parameter influences.

    A gather is left to the suffix: what it copies from crosses the cut anyway, for the layer whose
    weights train reads it. Parts of one concatenation stay together.
    """
    frozen = {
        i
        for i, instr in enumerate(program.instrs[: program.forward])
        if instr.op in ROW_INPUTS and instr.op != "gather"
    }
    while True:
        made_late = {
            name
            for i, instr in enumerate(program.instrs[: program.forward])
            if i not in frozen
            for name in _owners(program, instr)
        }
        kept = {i for i in frozen if not _is_influenced(program, program.instrs[i], made_late)}
        if kept == frozen:
            return frozen
        frozen = kept


def _owners(program: Program, instr: Instr) -> set[str]:
    return {program.base(name).name for name in instr.writes()}


def _is_influenced(program: Program, instr: Instr, made_late: set[str]) -> bool:
    trains = any(program.base(n).space == STATE for n in instr.reads())
    touched = {program.base(n).name for n in instr.operands.values()}
    return trains or not made_late.isdisjoint(touched)


def _across(program: Program, cut: int) -> list[str]:
    """Names of the arena values that instructions from `cut` on read and earlier ones, or the
    sample, made.
    """
    made = {program.base(n).name for n in program.inputs}
    for instr in program.instrs[:cut]:
        made |= _owners(program, instr)
    read: dict[str, None] = {}
    for instr in program.instrs[cut:]:
        for name in (program.base(n) for n in instr.reads()):
            if name.space == ARENA and name.name in made:
                read[name.name] = None
    return list(read)


def _can_cut(program: Program, cut: int) -> bool:
    values = [program.values[name] for name in _across(program, cut)]
    maps = all(v.dtype == "s8" and v.error is None for v in values)
    return maps and 1 <= len(values) <= MAX_INPUTS
