"""mcutrain: train int8 neural networks on microcontrollers, bit for bit as on the host."""

from importlib.metadata import version

__version__ = version("mcutrain")
