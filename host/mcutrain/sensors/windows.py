"""Windows of readings, each with one label."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mcutrain.errors import InputError
from mcutrain.sensors.block import Block, Values


@dataclass(frozen=True)
class Window:
    """values: (length, channels); label: None where its readings have none."""

    values: Values
    label: str | None


class Windows:
    """Cuts a stream into windows.

    Attributes:
        mixed: windows left out because the label changed in them.
        short: recordings that ended before they filled a window.
        longest: the most readings that came without another recording between them.

    Args:
        length: readings of a window.
        hop: readings from the start of one to the start of the next.
        channels: numbers of a reading.
        name: of the source, for errors.
    """

    def __init__(self, length: int, hop: int, channels: int, name: str = "source") -> None:
        self.mixed = self.short = self.longest = 0
        self.length = length
        self._recorded = 0
        self._hop = hop
        self._channels = channels
        self._name = name
        self._readings: deque[tuple[Values, str | None]] = deque()
        self._skip = 0  # readings between two windows, for hops longer than a window

    def feed(self, block: Block) -> Iterator[Window]:
        """The windows that become complete.

        Raises:
            InputError: the readings have another number of channels.
        """
        if block.first:
            self.end()
        if len(block.values) and block.values.shape[1] != self._channels:
            raise InputError(
                "the sensor has not the channels that the network takes",
                where=self._name,
                why=f"{block.values.shape[1]} columns, the network takes {self._channels}",
                hint="--columns chooses columns; --channels N says how many the network takes",
            )
        self._recorded += len(block.values)
        self.longest = max(self.longest, self._recorded)
        for reading in block.values:
            if self._skip:
                self._skip -= 1
                continue
            self._readings.append((reading, block.label))
            if len(self._readings) == self.length:
                yield from self._cut()

    def end(self) -> None:
        """The recording has ended: what was left of it makes no window any more."""
        self.short += 0 < self._recorded < self.length
        self._readings.clear()
        self._skip = self._recorded = 0

    def _cut(self) -> Iterator[Window]:
        labels = {label for _, label in self._readings}
        if len(labels) > 1:
            self.mixed += 1
        else:
            yield Window(np.array([values for values, _ in self._readings]), labels.pop())
        for _ in range(min(self._hop, self.length)):
            self._readings.popleft()
        self._skip = max(0, self._hop - self.length)
