"""Values between pages that nothing may touch: a byte read or written beside one ends the process.

The address sanitizer does not see an access of several bytes whose first ones are inside.
"""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import numpy.typing as npt

from mcutrain.ir.program import Program
from mcutrain.ir.reference.runtime import Memory

PAGES = 40  # a value may have so many
VALUES = 24
_PAGE = mmap.PAGESIZE


class GuardPages:
    """Rooms for values, each with a forbidden page on either side.

    Attributes:
        at_end: whether values touch the page behind them, else the one before.
    """

    def __init__(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self.at_end = True
        self._used = 0
        self._rooms: list[npt.NDArray[np.uint8]] = []
        for _ in range(VALUES):
            memory = mmap.mmap(-1, (PAGES + 2) * _PAGE)
            start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
            for page in (0, PAGES + 1):
                assert libc.mprotect(ctypes.c_void_p(start + page * _PAGE), _PAGE, 0) == 0
            self._rooms.append(np.frombuffer(memory, np.uint8)[_PAGE:-_PAGE])

    def clear(self) -> None:
        self._used = 0

    def room(self, nbytes: int) -> npt.NDArray[np.uint8]:
        """Bytes of any contents."""
        room = self._rooms[self._used]
        self._used += 1
        assert nbytes <= room.size
        return room[room.size - nbytes :] if self.at_end else room[:nbytes]


class GuardedMemory(Memory):
    """The contents of another memory in such rooms."""

    def __init__(self, program: Program, other: Memory, pages: GuardPages) -> None:
        super().__init__(program)
        for name, array in self._arrays.items():
            self._arrays[name] = pages.room(array.nbytes).view(array.dtype)
        self.copy(other, self)

    @staticmethod
    def copy(source: Memory, to: Memory) -> None:
        for name, value in source.program.values.items():
            if not value.view_of:
                to.array(name)[...] = source.array(name)
