"""PlatformIO's runner is named like a test, and is none of pytest's."""

collect_ignore = ["test_custom_runner.py"]
