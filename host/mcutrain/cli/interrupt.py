"""Ctrl-C in the middle of a run: stop between two steps, when the device's state is known."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Any, Self


class Stopper:
    """While it is open, a first SIGINT or SIGTERM sets `wanted`; a second one stops at once."""

    def __init__(self) -> None:
        self.wanted = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = True
