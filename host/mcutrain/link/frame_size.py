"""How many bytes a frame carries: less where the line damages frames, more again where not."""

from __future__ import annotations

from mcutrain.link import wire

_LOSSES = 2  # that halve the frame, with no stretch without any between them
_STRETCH = 4  # frames without loss after which earlier losses are forgotten
_CLEAN = 16  # frames without loss that double it


class FrameSize:
    """The bytes of data in the next frame, from wire.MIN_CHUNK to wire.DATA_CHUNK."""

    def __init__(self) -> None:
        self.bytes = wire.DATA_CHUNK
        self.least = wire.DATA_CHUNK  # that it has been
        self._losses = 0
        self._clean = 0

    def lost(self) -> None:
        """A frame or its response did not arrive whole."""
        self._clean = 0
        self._losses += 1
        if self._losses >= _LOSSES:
            self._losses = 0
            # Offsets stay multiples of 8.
            self.bytes = max(wire.MIN_CHUNK, (self.bytes // 2 + 7) & ~7)
            self.least = min(self.least, self.bytes)

    def arrived(self) -> None:
        """A frame with data was answered."""
        self._clean += 1
        if self._clean >= _STRETCH:
            self._losses = 0
        if self._clean >= _CLEAN:
            self._clean = 0
            self.bytes = min(wire.DATA_CHUNK, 2 * self.bytes)
