"""What the command line asks of its process: streams that take any text, signals, memory."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

# Ctrl-C raises KeyboardInterrupt already; these end a command in the same orderly way.
STOPPING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


def open_missing_streams() -> None:
    """Where a stream is closed (`>&-`), what is written to it goes nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115


def prepare() -> None:
    """Streams escape what their encoding lacks; SIGTERM and SIGHUP stop as Ctrl-C does."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if threading.current_thread() is not threading.main_thread():
        return  # only the main thread may set handlers
    for number in STOPPING:
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup ignores SIGHUP, and so do we
            signal.signal(number, _stop)


def drop_output() -> None:
    """Nobody takes our output any more: Python is not to complain of it at its end."""
    sink = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(sink, stream.fileno())
    os.close(sink)


def _stop(number: int, frame: FrameType | None) -> Any:
    del number, frame
    raise KeyboardInterrupt
