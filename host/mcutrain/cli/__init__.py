"""The command line: `mcutrain COMMAND`, one module a command."""

from mcutrain.cli.main import main

__all__ = ["main"]
