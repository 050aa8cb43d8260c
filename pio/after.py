"""After the platform's own script: what it adds and this firmware does without."""

Import("env")  # noqa: F821 - PlatformIO's

# C only; and Debian has the C++ library in a package of its own.
env.Replace(LIBS=[name for name in env.get("LIBS", []) if name != "stdc++"])  # noqa: F821
