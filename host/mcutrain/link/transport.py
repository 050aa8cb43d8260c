"""What carries bytes: a serial port, an emulated board, the app in this process."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


class Transport(Protocol):
    """A stream of bytes in both directions; it may lose or damage some."""

    def write(self, data: bytes) -> None:
        """Sends all of `data`.

        Raises:
            LinkError: the other end is gone, or takes nothing for too long.
        """
        ...

    def read(self, timeout_s: float) -> bytes:
        """What has arrived, waiting at most `timeout_s` for the first byte.

        b"" means that nothing came in that time, or that nothing can come before the next write.

        Raises:
            LinkError: the other end is gone.
        """
        ...

    def close(self) -> None:
        """Lets go of the line; a second call does nothing."""
        ...


@runtime_checkable
class RatedTransport(Transport, Protocol):
    """A line with a rate, which both ends must have set."""

    def set_baud(self, baud: int) -> None:
        """Sends and receives at `baud` bits a second, once what was written is out.

        Raises:
            LinkError: this end cannot.
        """
        ...
