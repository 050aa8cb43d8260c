"""Undo what saves memory: a program with whole maps, in which nothing is computed twice.

    segment    conv2d x -> y (ring)    ...    conv2d x -> y.again, mask    conv2d_dw e, y.again
becomes
    conv2d x -> y, mask    ...    conv2d_dw e, y

The result is the same to the bit: what saves memory changes no number. Scratch memory is left out,
too: it is lent anew with the layout.
"""

from __future__ import annotations

from dataclasses import replace

from mcutrain.ir.program import STATE, Instr, Program
from mcutrain.passes.rows import ROW_INPUTS

_Key = tuple[object, ...]


def whole(program: Program) -> Program:
    """The program without segments, rings, scratch memory and repeated forward instructions."""
    plain = [_without_scratch(i) for i in program.instrs if i.op != "segment"]
    segments = sum(i.op == "segment" for i in program.instrs[: program.forward])
    values = {name: replace(v, rows=None, turns=None) for name, v in program.values.items()}
    out = replace(program, values=values, instrs=tuple(plain), forward=program.forward - segments)
    return used(_Merging(out).run())


def used(program: Program) -> Program:
    """The program without values that nothing touches; the state stays as it is."""
    names = {program.base(n).name for n in (*program.inputs, program.logits)}
    names |= {*program.inputs, program.logits}
    for instr in program.instrs:
        for name in instr.operands.values():
            names |= {name, program.base(name).name}
    values = {n: v for n, v in program.values.items() if n in names or v.space == STATE}
    return replace(program, values=values)


def _without_scratch(instr: Instr) -> Instr:
    scratch = {s.name for s in instr.spec.slots if s.scratch}
    kept = {slot: name for slot, name in instr.operands.items() if slot not in scratch}
    return replace(instr, operands=kept)


class _Merging:
    """Replaces forward instructions that the backward pass repeats by what they made first."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.forward = list(program.instrs[: program.forward])
        self.same: dict[str, str] = {}
        self.updated: set[str] = set()
        self.first = {self._key(i): n for n, i in enumerate(self.forward) if i.op in ROW_INPUTS}

    def run(self) -> Program:
        backward = []
        for instr in self.program.instrs[self.program.forward :]:
            instr = self._renamed(instr)
            if instr.op in ROW_INPUTS and self._is_repeat(instr):
                self._merge(instr)
            else:
                backward.append(instr)
                self.updated |= set(instr.writes())
        values = {
            name: v if v.view_of is None else replace(v, view_of=self._home(v.view_of))
            for name, v in self.program.values.items()
        }
        return replace(self.program, values=values, instrs=(*self.forward, *backward))

    def _home(self, name: str) -> str:
        return self.same.get(name, name)

    def _renamed(self, instr: Instr) -> Instr:
        return replace(instr, operands={s: self._home(n) for s, n in instr.operands.items()})

    def _key(self, instr: Instr) -> _Key:
        """Equal for instructions that make the same of the same, views by what they are views
        of.
        """
        written = {s.name for s in instr.spec.slots if s.written}
        read = [
            (slot, self._owner(name), self.program.values[name].shape)
            for slot, name in sorted(instr.operands.items())
            if slot not in written
        ]
        return (instr.op, instr.layer, tuple(read), tuple(sorted(instr.params.items())))

    def _owner(self, name: str) -> str:
        return self._home(self.program.base(self._home(name)).name)

    def _is_repeat(self, instr: Instr) -> bool:
        return self._key(instr) in self.first and self.updated.isdisjoint(instr.reads())

    def _merge(self, again: Instr) -> None:
        index = self.first[self._key(again)]
        operands = dict(self.forward[index].operands)
        for slot in again.spec.slots:
            if slot.written and slot.name in again.operands:
                made = again.operands[slot.name]
                self.same[made] = operands.setdefault(slot.name, made)
        self.forward[index] = replace(self.forward[index], operands=operands)
