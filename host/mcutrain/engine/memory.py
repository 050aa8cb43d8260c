"""Memory for the C code between two guards, so that a stray access is noticed."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.errors import InternalError

_GUARD = np.array([(37 * i + 0x5A) & 0xFF for i in range(64)], np.uint8)
_GUARD_BYTES = _GUARD.tobytes()


class GuardedMemory:
    """A block of bytes, 8-byte aligned, with a guard before and behind it.

    A build with AddressSanitizer stops at the first access to a guard; any other build notices a
    changed guard in `check`.

    Attributes:
        pointer: address of the block (cffi).
        bytes: the same memory as a numpy array (size,) of uint8.
    """

    def __init__(self, module: ModuleType, size: int) -> None:
        n = _GUARD.size
        self._ffi, self._lib = module.ffi, module.lib
        self._owner: Any = self._ffi.new("uint64_t[]", (2 * n + size + 7) // 8)
        everything = np.frombuffer(self._ffi.buffer(self._owner), np.uint8)
        self.pointer: Any = self._ffi.cast("uint8_t *", self._owner) + n
        self.bytes: npt.NDArray[np.uint8] = everything[n : n + size]
        self._guards = (everything[:n], everything[n + size : 2 * n + size])
        for guard in self._guards:
            guard[:] = _GUARD
        self._poisoned = self._protect(True)

    def _protect(self, on: bool) -> bool:
        n, size = _GUARD.size, self.bytes.size
        before = self._lib.mcutrain_guard(self.pointer - n, n, on)
        return bool(self._lib.mcutrain_guard(self.pointer + size, n, on)) and bool(before)

    def __del__(self) -> None:
        if getattr(self, "_poisoned", False):
            self._protect(False)

    def check(self, where: str) -> None:
        """Raise InternalError if a guard was overwritten."""
        if not self._poisoned and any(guard.tobytes() != _GUARD_BYTES for guard in self._guards):
            raise InternalError("the executor wrote outside of its memory", where=where)
