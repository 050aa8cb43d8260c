"""A second serial port, on which a board prints its sensor."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from mcutrain.errors import LinkError
from mcutrain.link.serial_port import SerialPort
from mcutrain.sensors.block import Block, Counts
from mcutrain.sensors.lines import LineParser

_IDLE_S = 0.1
_LINE_BYTES = 4096  # no reading is that long

_NOTHING = Block(np.zeros((0, 0)))


class PortLines:
    """Lines as they come in on a port.

    Args:
        name: of the port, as of `SerialPort`.
        baud: its rate.
        parser: how lines are read.
        silence_s: how long nothing may come.

    Raises:
        LinkError: as of `SerialPort`.
    """

    def __init__(self, name: str, baud: int, parser: LineParser, silence_s: float) -> None:
        self.name = name
        self._parser = parser
        self._silence_s = silence_s
        self._port = SerialPort(name, baud)

    @property
    def counts(self) -> Counts:
        """Lines, and those that were left out."""
        return self._parser.counts

    def blocks(self) -> Iterator[Block]:
        """One reading a block; an empty one now and then while nothing comes."""
        partial = b""
        joined = False  # the first line may have lost its start
        heard = time.monotonic()
        while True:
            data = self._port.read(_IDLE_S)
            if not data:
                self._check_silence(time.monotonic() - heard)
                yield _NOTHING
                continue
            heard = time.monotonic()
            *lines, partial = (partial + data).split(b"\n")
            for line in lines if joined else lines[1:]:
                block = self._parser.parse(line.decode("utf-8", "replace"))
                if block is not None:
                    yield block
            joined = joined or bool(lines)
            if len(partial) > _LINE_BYTES:
                # Without a word it would never end; so it is judged, and counted.
                self._parser.parse(partial[:_LINE_BYTES].decode("utf-8", "replace") + "...")
                partial = b""

    def close(self) -> None:
        """Lets go of the port; a second call does nothing."""
        self._port.close()

    def _check_silence(self, silent_s: float) -> None:
        if silent_s < self._silence_s:
            return
        raise LinkError(
            "the sensor is silent",
            where=self.name,
            why=f"no byte came for {self._silence_s:g} s; {self.counts.lines} lines before",
            hint="check that its program runs and prints, and --source-baud; --silence S waits "
            "longer",
        )
