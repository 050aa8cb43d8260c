"""The numpy reference: one readable function an instruction, written from the specification alone.

The C kernels and every chip must give the same bytes. `machine.Machine` runs programs with it.
"""

from __future__ import annotations

from collections.abc import Callable

from mcutrain.ir.program import Instr
from mcutrain.ir.reference import errors, forward, head, updates
from mcutrain.ir.reference.runtime import Memory, Runtime


def _segment(instr: Instr, memory: Memory, runtime: Runtime) -> None:
    """Nothing: a segment says in which order its members make their rows, not what is in them."""


REFERENCE: dict[str, Callable[[Instr, Memory, Runtime], None]] = {
    "conv2d": forward.conv2d,
    "add": forward.add,
    "avgpool": forward.avgpool,
    "maxpool": forward.maxpool,
    "rescale": forward.rescale,
    "gather": forward.gather,
    "head": head.head,
    "loss": head.loss,
    "head_dx": head.head_dx,
    "head_dw": head.head_dw,
    "conv2d_dx": errors.conv2d_dx,
    "avgpool_dx": errors.avgpool_dx,
    "maxpool_dx": errors.maxpool_dx,
    "error_sum": errors.error_sum,
    "conv2d_dw": updates.conv2d_dw,
    "conv2d_db": updates.conv2d_db,
    "segment": _segment,
}
