"""The command line: `mcutrain COMMAND`, one module a command."""

import sys

from mcutrain.cli.process import open_missing_streams

open_missing_streams()
try:
    from mcutrain.cli.main import main
except KeyboardInterrupt:  # the imports take half a second
    sys.stderr.write("error: stopped\n")
    sys.exit(8)

__all__ = ["main"]
