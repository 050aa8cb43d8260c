"""The entry point that PlatformIO starts."""

from SCons.Script import main

main()
