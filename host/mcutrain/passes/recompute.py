"""Run forward instructions again in the backward pass, instead of keeping what they made.

    gather s -> s.saved     conv2d s -> x     ...     conv2d_dw e, x          becomes
    gather s -> s.saved     conv2d s -> x     ...     conv2d s -> x.again     conv2d_dw e, x.again

What is made again comes from values that are there anyway: here s is saved, too. The weights on the
way are those of the forward pass, for no update of theirs has run by then (errors come to them
later), so that the result is the same to the bit. The idea is that of POET (Patil et al., 2022),
without paging. Whether it is worth its price is not decided here.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, replace

from mcutrain.ir.program import ARENA, STATE, Instr
from mcutrain.passes.lowered import Lowered
from mcutrain.passes.prune import prune
from mcutrain.passes.rows import ROW_INPUTS

SUFFIX = ".again"


@dataclass(frozen=True)
class Repeat:
    """Instructions that could run again.

    Attributes:
        instrs: their indices in the forward pass, ascending.
        before: the backward instruction before which they run.
        values: what would not be kept any more.
    """

    instrs: tuple[int, ...]
    before: int
    values: frozenset[str]


def repeats(out: Lowered) -> Iterator[Repeat]:
    """What could be made again in a program that has no segments yet."""
    uses = _Uses(out)
    seen = set()
    for name in uses.kept:
        found = uses.repeat(name)
        if found is not None and found not in seen:
            seen.add(found)
            yield found


def repeat(out: Lowered, chosen: Repeat) -> Lowered:
    """A copy of the program in which the instructions of `chosen` run again."""
    out = replace(out, values=dict(out.values), instrs=list(out.instrs))
    makers = [out.instrs[i] for i in chosen.instrs]
    made = {out.base(n) for i in makers for n in i.results()}
    again: dict[str, str] = {}

    def renamed(name: str) -> str:
        """What is made again gets a new name; a view becomes a view of that."""
        if name not in again:
            value = out.values[name]
            owner = None if value.view_of is None else renamed(value.view_of)
            again[name] = out.add(replace(value, name=_fresh(out, name), view_of=owner))
        return again[name]

    def reading(instr: Instr, changed: Set[str]) -> Instr:
        operands = {
            s: renamed(n) if out.base(n) in changed else n for s, n in instr.operands.items()
        }
        return replace(instr, operands=operands)

    copies = [reading(i, made) for i in makers]
    rest = [reading(i, chosen.values) for i in out.instrs[chosen.before :]]
    out.instrs[chosen.before :] = [*copies, *rest]
    return prune(out)


def _fresh(out: Lowered, name: str) -> str:
    name += SUFFIX
    return name if name not in out.values else _fresh(out, name)


class _Uses:
    """Who makes and who reads the arena values of a program."""

    def __init__(self, out: Lowered) -> None:
        self.out = out
        self.makers: dict[str, list[int]] = {}
        self.readers: dict[str, list[int]] = {}
        self.updates: dict[str, int] = {}
        for index, instr in enumerate(out.instrs):
            for name in map(out.base, instr.results()):
                if out.values[name].space == STATE:
                    self.updates.setdefault(name, index)
                else:
                    self.makers.setdefault(name, []).append(index)
            for name in map(out.base, instr.reads()):
                if out.values[name].space == ARENA:
                    self.readers.setdefault(name, []).append(index)
        self.kept = [n for n in self.makers if self._is_kept(n)]

    def _is_kept(self, name: str) -> bool:
        """Whether a value lives from the forward into the backward pass."""
        forward = self.out.forward
        return self.makers[name][-1] < forward <= self.readers.get(name, [0])[-1]

    def _first_use(self, name: str) -> int:
        return next(i for i in self.readers[name] if i >= self.out.forward)

    def repeat(self, target: str) -> Repeat | None:
        """How to make a value again when the backward pass reads it; None if that cannot be."""
        before = self._first_use(target)
        instrs: set[int] = set()
        wanted = [target]
        while wanted:
            name = wanted.pop()
            if name not in self.makers:  # an input of the network
                return None
            for index in set(self.makers[name]) - instrs:
                if not self._can_repeat(index, before):
                    return None
                instrs.add(index)
                wanted += self._missing(index, target, before)
        made = {self.out.base(n) for i in instrs for n in self.out.instrs[i].results()}
        values = {n for n in made if n in self.kept and self._first_use(n) >= before}
        return Repeat(tuple(sorted(instrs)), before, frozenset(values))

    def _can_repeat(self, index: int, before: int) -> bool:
        instr = self.out.instrs[index]
        fresh = all(self.updates.get(n, before) >= before for n in instr.reads())
        return instr.op in ROW_INPUTS and fresh and index < self.out.forward

    def _missing(self, index: int, target: str, before: int) -> list[str]:
        """What an instruction reads and is not there at that time."""
        reads = {self.out.base(n) for n in self.out.instrs[index].reads()}
        return [
            n
            for n in reads
            if self.out.values[n].space == ARENA and (n == target or self.readers[n][-1] < before)
        ]
