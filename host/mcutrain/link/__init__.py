"""The serial link: what the bytes mean, how they get there, and the device at the other end."""

from mcutrain.link.device import (
    Counter,
    Device,
    DeviceInfo,
    Fault,
    ImageInfo,
    LooksAhead,
    Prediction,
    Stats,
    StepResult,
)

__all__ = [
    "Counter",
    "Device",
    "DeviceInfo",
    "Fault",
    "ImageInfo",
    "LooksAhead",
    "Prediction",
    "Stats",
    "StepResult",
]
