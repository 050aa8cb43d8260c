"""Where every buffer of the arena lies: lifetimes, offsets, and a checker that trusts neither."""

from mcutrain.memory.canaries import plan_with_canaries
from mcutrain.memory.check import check_layout
from mcutrain.memory.lend import lend_scratch
from mcutrain.memory.liveness import buffers_of
from mcutrain.memory.plan import bound_of, peak_values, plan_memory

__all__ = [
    "bound_of",
    "buffers_of",
    "check_layout",
    "lend_scratch",
    "peak_values",
    "plan_memory",
    "plan_with_canaries",
]
