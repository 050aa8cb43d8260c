"""The independent checker: no two buffers that live at the same time may share a byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mcutrain.errors import InternalError
from mcutrain.ir.program import Buffer


def check_layout(buffers: Sequence[Buffer], offsets: Mapping[str, int], arena_bytes: int) -> None:
    """Raise InternalError if a layout is wrong, whichever solver made it."""
    for a in buffers:
        if offsets[a.name] % 4 or offsets[a.name] < 0 or offsets[a.name] + a.nbytes > arena_bytes:
            raise InternalError("a buffer is misaligned or outside the arena", where=a.name)
        for b in buffers:
            alive_together = a.first <= b.last and b.first <= a.last
            share_bytes = (
                offsets[a.name] < offsets[b.name] + b.nbytes
                and offsets[b.name] < offsets[a.name] + a.nbytes
            )
            if a.name != b.name and alive_together and share_bytes:
                raise InternalError("two live buffers overlap", where=f"{a.name}, {b.name}")
