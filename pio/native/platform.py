"""The platform's class, by whose name PlatformIO finds it."""

from platformio.public import PlatformBase


class NativePlatform(PlatformBase):
    """As PlatformIO's: no boards, the compiler on the PATH."""

    def is_embedded(self):
        """Tests run here."""
        return False
