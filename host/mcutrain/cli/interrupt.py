"""Ctrl-C in the middle of a run: stop between two steps, when the device's state is known."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Any, Self

from mcutrain.cli.process import STOPPING


class Stopper:
    """While it is open, a first stopping signal sets `wanted`; a second stops at once."""

    def __init__(self) -> None:
        self.wanted = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, *STOPPING):
            if signal.getsignal(number) != signal.SIG_IGN:
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
