"""A sensor's board on a pseudo-terminal, that prints readings whatever it is sent."""

from __future__ import annotations

import os
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def sensor(lines: list[str]) -> Iterator[str]:
    """A port on which a board prints lines; it starts in the middle of one."""
    master, slave = os.openpty()
    data = memoryview(("0.3,7\r\n" + "\r\n".join(lines) + "\r\n").encode())

    def talk() -> None:
        while termios.tcgetattr(slave)[3] & termios.ICANON:
            time.sleep(0.01)  # not open yet: what comes before is lost
        time.sleep(0.2)
        sent = 0
        while sent < len(data):
            sent += os.write(master, data[sent : sent + 1024])

    thread = threading.Thread(target=talk)
    thread.start()
    try:
        yield os.ttyname(slave)
    finally:
        thread.join(10)
        os.close(slave)
        os.close(master)
