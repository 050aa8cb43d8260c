"""Sensors as they stream: readings from files or a port, cut into labelled windows.

A reading is one moment of a sensor: one number a channel. `open_source` gives blocks of readings,
`Windows` cuts them into what a network takes.
"""

from mcutrain.sensors.block import Block, Counts, Source
from mcutrain.sensors.keys import Keys
from mcutrain.sensors.source import SourceOptions, open_source
from mcutrain.sensors.windows import Window, Windows

__all__ = [
    "Block",
    "Counts",
    "Keys",
    "Source",
    "SourceOptions",
    "Window",
    "Windows",
    "open_source",
]
