"""Labels by key press: the last key says what is being done now."""

from __future__ import annotations

import contextlib
import importlib
import os
import select
import sys
from types import TracebackType
from typing import Any, Self

from mcutrain.errors import UsageError


class Keys:
    """While it is open, keys on a terminal (or characters on any input) choose the label.

    Args:
        names: the label of each key; any other key means none.
        fd: what to read, standard input if absent.
    """

    def __init__(self, names: dict[str, str], fd: int | None = None) -> None:
        self._names = names
        self._fd = sys.stdin.fileno() if fd is None else fd
        self._label: str | None = None
        self._before: Any = None
        self._ended = False

    @classmethod
    def parse(cls, text: str, fd: int | None = None) -> Self:
        """From `w=walk,r=run`.

        Raises:
            UsageError: it is something else.
        """
        names: dict[str, str] = {}
        for part in text.split(","):
            key, equals, name = part.partition("=")
            if len(key) != 1 or not equals or not name or key in names:
                raise UsageError(
                    "this does not say which key means which label",
                    where="--keys",
                    why=f"'{part}' is not KEY=LABEL with a key of its own",
                    hint="--keys w=walk,r=run",
                )
            names[key] = name
        return cls(names, fd)

    def __enter__(self) -> Self:
        if os.isatty(self._fd):  # keys come at once, and are not printed; Ctrl-C still stops
            termios, tty = importlib.import_module("termios"), importlib.import_module("tty")
            self._before = termios.tcgetattr(self._fd)
            tty.setcbreak(self._fd)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._before is not None:
            termios = importlib.import_module("termios")
            with contextlib.suppress(OSError):
                termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)

    def label(self) -> str | None:
        """The label as of the last key."""
        while not self._ended and select.select([self._fd], [], [], 0)[0]:
            pressed = os.read(self._fd, 64).decode("utf-8", "replace")
            self._ended = not pressed
            for key in pressed.replace("\r", "").replace("\n", ""):
                self._label = self._names.get(key)
        return self._label
