"""Run parts of the forward pass depth-first, row by row, so that maps between them are never whole.

    conv2d x -> y, conv2d y -> z        becomes
    segment order, members 2            conv2d x -> y (ring of 3 rows)        conv2d y -> z

A value stays whole if something outside its segment reads it: a later segment, or the backward
pass, for which masks and saved activations are made. Where to cut the forward pass into segments
is chosen by dynamic programming over all cuts, twice: first for the smallest largest live set, then
for as little work row by row as that set allows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mcutrain.ir.inplace import inplace_pairs
from mcutrain.ir.instructions import INPUT_ROW, MAX_MEMBERS
from mcutrain.ir.program import ARENA, Instr, Value, aligned, value_bytes
from mcutrain.ir.scratch import scratch_bytes
from mcutrain.passes.lowered import Lowered
from mcutrain.passes.rows import flow, is_row_op, unpacks
from mcutrain.passes.scratch import SLOT, share_scratch
from mcutrain.passes.turns import quarrels, take_turns

BATCHES = (1, 2, 4)  # rows at a time of instructions that unpack their input


@dataclass(frozen=True)
class _Cut:
    """A choice of segments for the first instructions: largest live set, what is made row by row
    (`_row_work`), number of segments; for each part its end and the rows of a batch.
    """

    peak: int
    row_work: int
    segments: int
    parts: tuple[tuple[int, int], ...]


def by_peak(cut: _Cut) -> tuple[int, int, int]:
    """The order of the first search."""
    return cut.peak, cut.segments, len(cut.parts)


def by_work(cut: _Cut) -> tuple[int, int, int]:
    """The order of the second one."""
    return cut.row_work, cut.segments, len(cut.parts)


def stream(out: Lowered) -> Lowered:
    """Put row-by-row segments where that lowers the peak, in place: in the forward pass, and where
    the backward pass runs instructions of it again.
    """
    return _Streaming(out).run()


class _Streaming:
    def __init__(self, out: Lowered) -> None:
        self.out = out
        self.instrs = list(out.instrs)
        self.forward = out.forward
        self.sizes = {
            n: v.nbytes for n, v in out.values.items() if v.space == ARENA and v.view_of is None
        }
        self.spans = self._spans()
        self.rows_of: dict[int, dict[str, int]] = {n: {} for n in BATCHES}
        self.quarrel: dict[int, dict[str, set[str]]] = {n: {} for n in BATCHES}
        for batch in BATCHES:
            self._estimate(batch)

    def run(self) -> Lowered:
        runs = self._runs()
        others = set(range(len(self.instrs))).difference(*(range(a, b) for a, b in runs))
        peak = max((self._alone(i) for i in others), default=0)
        for start, end in runs:
            peak = max(peak, self._choose(start, end, None).peak)
        parts: dict[int, tuple[int, int]] = {}
        for start, end in runs:
            for border, batch in self._choose(start, end, peak).parts:
                parts[start] = (border, batch)
                start = border
        self._rebuild(parts)
        return self.out

    def _runs(self) -> list[tuple[int, int]]:
        """The forward pass, and instructions of it in a row in the backward pass."""
        runs, start = [(0, self.forward)], self.forward
        for i in range(self.forward, len(self.instrs) + 1):
            if i == len(self.instrs) or not is_row_op(self.out, self.instrs[i]):
                if i > start:
                    runs.append((start, i))
                start = i + 1
        return runs

    def _rebuild(self, parts: Mapping[int, tuple[int, int]]) -> None:
        instrs: list[Instr] = []
        at = 0
        while at < len(self.instrs):
            end, batch = parts.get(at, (at + 1, 1))
            members = self.instrs[at:end]
            if len(members) > 1:
                instrs.append(self._segment(at, end, batch))
                members = share_scratch(self.out, members)
            instrs.extend(members)
            at = end
            if at == self.forward:
                self.out.forward = len(instrs)
        self.out.instrs[:] = instrs

    def _spans(self) -> dict[str, tuple[int, int]]:
        """First and last instruction that touches each arena value, as without segments."""
        spans = {self.out.base(n): (-1, -1) for n in self.out.inputs}
        for index, instr in enumerate(self.instrs):
            for name in map(self.out.base, instr.operands.values()):
                if name in self.sizes:
                    spans[name] = (spans.get(name, (index, index))[0], index)
        return spans

    def _choose(self, start: int, stop: int, limit: int | None) -> _Cut:
        """Ends of the segments with the smallest largest live set; with a limit to that set, those
        with the least work row by row.
        """
        best: list[_Cut | None] = [_Cut(0, 0, 0, ())]
        for end in range(start + 1, stop + 1):
            options = []
            for first in range(max(start, end - MAX_MEMBERS), end):
                before = best[first - start]
                if before is None or not self._may_stream(first, end):
                    continue
                count = before.segments + (end - first > 1)
                for batch, most in self._ways(first, end, limit):
                    work = before.row_work + self._row_work(first, end, batch)
                    parts = (*before.parts, (end, batch))
                    options.append(_Cut(max(before.peak, most), work, count, parts))
            best.append(min(options, key=by_work if limit else by_peak, default=None))
        chosen = best[-1]
        assert chosen is not None  # each instruction may stand alone, within the smallest peak
        return chosen

    def _ways(self, first: int, end: int, limit: int | None) -> list[tuple[int, int]]:
        """Rows of a batch, and bytes alive while instructions first to end - 1 run; within the
        limit, with the kernels' scratch memory for more than one row.
        """
        need = self._cost(first, end, 1)
        if limit is None:
            return [(1, need)]
        ways = [(1, need)] if need <= limit else []
        for batch in BATCHES[1:] if ways and end - first > 1 else ():
            wanted = [scratch_bytes(self.out.values, i, batch) for i in self.instrs[first:end]]
            need = self._cost(first, end, batch) + max(wanted)
            if need <= limit:
                ways.append((batch, need))
        return ways

    def _row_work(self, first: int, end: int, batch: int) -> int:
        """Elements that are unpacked more than once, for they lie under windows of several
        batches.
        """
        if end - first == 1:
            return 0
        work = 0
        for instr in filter(unpacks, self.instrs[first:end]):
            x = self.out.values[instr.operands["x"]]
            again = max(0, instr.params["kh"] - instr.params["sh"])
            work += x.count * again // (instr.params["sh"] * batch)
        return work

    def _may_stream(self, first: int, end: int) -> bool:
        return end - first == 1 or all(is_row_op(self.out, i) for i in self.instrs[first:end])

    def _live(self, first: int, end: int) -> int:
        return sum(
            aligned(self.sizes[n])
            for n, (start, last) in self.spans.items()
            if start < end and last >= first
        )

    def _cost(self, first: int, end: int, batch: int) -> int:
        """Bytes alive while instructions first to end - 1 run."""
        if end - first == 1:
            return self._alone(first)
        live = self._live(first, end)
        counters = value_bytes("u16", end - first + len(self.out.inputs))
        rings = self._rings(first, end, self.rows_of[batch])
        live -= sum(aligned(self.sizes[name]) for name in rings)
        nbytes = {name: self._ring_bytes(name, rows) for name, rows in rings.items()}
        groups = take_turns(nbytes, self.quarrel[batch])
        scratch = [
            aligned(self.sizes[i.operands[SLOT]])
            for i in self.instrs[first:end]
            if SLOT in i.operands
        ]
        live -= sum(scratch) - max(scratch, default=0)
        return live + sum(nbytes[group[0]] for group in groups) + aligned(counters)

    def _ring_bytes(self, name: str, rows: int) -> int:
        value = self.out.values[name]
        return aligned(rows * value.shape[1] * value.shape[2])

    def _alone(self, index: int) -> int:
        """Bytes alive while one instruction runs that stands alone and may write over an input."""
        live = self._live(index, index + 1)
        for source, target in inplace_pairs(self.out.values, self.instrs[index]):
            if self.spans[source][1] == index == self.spans[target][0]:
                return live - aligned(self.sizes[target])
        return live

    def _estimate(self, batch: int) -> None:
        """Rows each value needs, and which rings quarrel, when all that can stream is one segment:
        enough in any part of it.
        """
        for start, stop in self._runs():
            first = start
            for end in range(start + 1, stop + 1):
                if end < stop and self._may_stream(first, end + 1):
                    continue
                if end - first > 1:
                    streamed = self._streamed(first, end)
                    found = flow(self.out, self.instrs[first:end], streamed, batch)
                    self.rows_of[batch] |= found.rings
                    self.quarrel[batch] |= quarrels(found, self.spans)
                first = end

    def _streamed(self, first: int, end: int) -> Sequence[str]:
        """The network's inputs, if this segment is the first and nothing else reads them."""
        inputs = self.out.inputs
        alone = all(self.spans[self.out.base(n)][1] < end for n in inputs)
        return inputs if first == 0 and alone and len(inputs) == 1 else ()

    def _rings(self, first: int, end: int, rows_of: Mapping[str, int]) -> dict[str, int]:
        """Rows of the values that only this segment touches, where fewer than all suffice."""
        found = {}
        touched = {n for i in self.instrs[first:end] for n in i.operands.values()}
        for name in touched & rows_of.keys():
            start, last = self.spans[name]
            from_input = start == -1 and name in self._streamed(first, end)
            inside = (start >= first or from_input) and last < end
            if inside and rows_of[name] < self.out.values[name].shape[0]:
                found[name] = rows_of[name]
        return found

    def _segment(self, first: int, end: int, batch: int) -> Instr:
        out, members = self.out, self.instrs[first:end]
        layer = members[0].layer
        label = layer if end <= self.forward else f"{layer}.again{first}"
        rows_flow = flow(out, members, self._streamed(first, end), batch)
        rings = self._rings(first, end, rows_flow.rings)
        nbytes = {name: self._ring_bytes(name, rows) for name, rows in rings.items()}
        for group in take_turns(nbytes, quarrels(rows_flow, self.spans)):
            for name in group:
                turns = None if name == group[0] else group[0]
                out.values[name] = replace(out.values[name], rows=rings[name], turns=turns)
        order = np.frombuffer(rows_flow.order, np.uint8)
        counters = (1, 1, len(members) + 1)
        operands = {
            "order": out.const(f"{label}.order", "u8", order),
            "rows": out.add(Value(f"{label}.rows", counters, "u16")),
        }
        input_rows = int(np.count_nonzero(order == INPUT_ROW))
        params = {"members": len(members), "input_rows": input_rows}
        return Instr("segment", layer, operands, params)
