"""A source by its name: a file, or a serial port."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mcutrain.errors import InputError
from mcutrain.link.channel import START_BAUD
from mcutrain.link.ports import is_port
from mcutrain.sensors.block import Block, Counts, Source
from mcutrain.sensors.file_sources import ArrayFile, TextFile, WavFile
from mcutrain.sensors.lines import LineParser
from mcutrain.sensors.port_source import PortLines

_LARGEST = float(np.finfo(np.float32).max)  # of what is recorded, and of what a network takes
_FILES = (".csv", ".tsv", ".txt", ".npz", ".wav")  # an absent one is no port


@dataclass(frozen=True)
class SourceOptions:
    """How a source is read.

    Attributes:
        baud: rate of a port.
        columns, label_column: see `LineParser`.
        scale, offset: a reading becomes value * scale + offset; one number, or one a channel.
        silence_s: how long a port may be silent.
    """

    baud: int = START_BAUD
    columns: tuple[str, ...] = ()
    label_column: str = "label"
    scale: tuple[float, ...] = (1.0,)
    offset: tuple[float, ...] = (0.0,)
    silence_s: float = 5.0


class _Scaled:
    """A source whose readings are in the units that the network was calibrated with."""

    def __init__(self, inner: Source, scale: tuple[float, ...], offset: tuple[float, ...]) -> None:
        self.name = inner.name
        self._inner = inner
        self._scale, self._offset = np.array(scale), np.array(offset)

    @property
    def counts(self) -> Counts:
        """Of the source."""
        return self._inner.counts

    def blocks(self) -> Iterator[Block]:
        """The source's, scaled."""
        for block in self._inner.blocks():
            if not len(block.values):
                yield block
                continue
            channels = block.values.shape[1]
            for factors in (self._scale, self._offset):
                if len(factors) not in (1, channels):
                    raise InputError(
                        "scale and offset must have one number, or one a channel",
                        where=self.name,
                        why=f"{len(factors)} numbers, {channels} channels",
                        hint="--scale 0.001, or --scale 0.1,0.1,0.5",
                    )
            with np.errstate(over="ignore"):
                values = block.values * self._scale + self._offset
            yield replace(block, values=np.clip(values, -_LARGEST, _LARGEST))

    def close(self) -> None:
        """Closes the source."""
        self._inner.close()


def open_source(name: str, options: SourceOptions) -> Source:
    """Opens a source of readings.

    Args:
        name: a file (.npz, .wav, else text with one reading a line), or a serial port as of
            `mcutrain.link.ports.find_port`.
        options: how it is read.

    Raises:
        InputError: there is no such file.
        UsageError, LinkError: as of `SerialPort`.
    """
    parser = LineParser(name, options.columns, options.label_column)
    path = Path(name)
    source: Source
    if path.is_file():
        kind = path.suffix.lower()
        source = (
            ArrayFile(path)
            if kind == ".npz"
            else WavFile(path)
            if kind == ".wav"
            else TextFile(path, parser)
        )
    elif is_port(name) and path.suffix.lower() not in _FILES:
        source = PortLines(name, options.baud, parser, options.silence_s)
    else:
        raise InputError(
            "there is no such file",
            where=name,
            why="a source is a file of readings or a serial port",
            hint="for example readings.csv, yes_1.wav, /dev/ttyACM1, or auto",
        )
    return _Scaled(source, options.scale, options.offset)
