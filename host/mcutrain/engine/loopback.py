"""The firmware app in this process, behind a byte stream: the device `host`."""

from __future__ import annotations

from typing import Any

from mcutrain.engine.build import load
from mcutrain.errors import LinkError

_ALIGN = 16
_OUT_BYTES = 16384
POOL_BYTES = 16 << 20
FLASH_BYTES = 16 << 20
STORE_BYTES = 2 << 20
MAX_BAUD = 2_000_000


class Loopback:
    """A transport whose other end is the app, compiled for this machine.

    `write` runs the app on the bytes before it returns, so that `read` never waits.

    Args:
        pool_bytes: SRAM for image, state and arena.
        flash: what lies in the image partition at the start.
        flash_bytes: size of the partition.
        flash_writable: False for a board whose flash cannot be written.
        max_baud: the highest rate that its line can be given; bytes go through at any.
        store_bytes: size of the two slots for saved states together, a multiple of 4096; 0: none.

    Raises:
        ToolchainError: the app could not be compiled.
    """

    def __init__(
        self,
        pool_bytes: int = POOL_BYTES,
        flash: bytes = b"",
        flash_bytes: int = FLASH_BYTES,
        flash_writable: bool = True,
        store_bytes: int = STORE_BYTES,
        max_baud: int = MAX_BAUD,
    ) -> None:
        module: Any = load()
        self._ffi, self._lib = module.ffi, module.lib
        self._keep: list[Any] = []
        self._host = self._ffi.new("mct_loopback *")
        self._host.pool, self._host.pool_bytes = self._block(pool_bytes), pool_bytes
        flash_bytes = max(flash_bytes, len(flash))
        self._host.flash, self._host.flash_bytes = self._block(flash_bytes), flash_bytes
        self._host.flash_writable = flash_writable
        self._host.max_baud = max_baud
        if store_bytes:
            self._host.store, self._host.store_bytes = self._block(store_bytes), store_bytes
            self._ffi.memmove(self._host.store, b"\xff" * store_bytes, store_bytes)
        self._host.out, self._host.out_bytes = self._block(_OUT_BYTES), _OUT_BYTES
        self._ffi.memmove(self._host.flash, flash, len(flash))
        self._received = bytearray()
        self._closed = False
        self.restart()

    @property
    def baud(self) -> int:
        """The rate that the app has set."""
        return int(self._host.baud)

    def restart(self) -> None:
        """Power off and on: sessions and an image in SRAM are gone; flash stays."""
        self._received.clear()
        self._host.sent = 0
        self._lib.mct_loopback_start(self._host)

    def write(self, data: bytes) -> None:
        """Runs the app on `data`.

        Raises:
            LinkError: the transport is closed.
        """
        self._check_open()
        buffer = self._ffi.from_buffer(data)
        taken = 0
        while taken < len(data):
            taken += self._lib.mct_loopback_run(self._host, buffer + taken, len(data) - taken)
            self._received += self._ffi.buffer(self._host.out, self._host.sent)
            self._host.sent = 0

    def read(self, timeout_s: float) -> bytes:  # noqa: ARG002 - all there is to come is here
        """What the app has sent since the last call.

        Raises:
            LinkError: the transport is closed.
        """
        self._check_open()
        data = bytes(self._received)
        self._received.clear()
        return data

    def close(self) -> None:
        """Ends it; a second call does nothing."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise LinkError("the device is closed", where="host")

    def _block(self, size: int) -> Any:
        memory = self._ffi.new("uint8_t[]", size + _ALIGN)
        self._keep.append(memory)
        address = int(self._ffi.cast("uintptr_t", memory))
        return memory + (-address % _ALIGN)
