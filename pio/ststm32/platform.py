"""The platform's class, by whose name PlatformIO finds it."""

from platformio.public import PlatformBase


class Ststm32Platform(PlatformBase):
    """Boards from boards/*.json, no frameworks."""
