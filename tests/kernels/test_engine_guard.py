"""The watch itself: a stray access is noticed by both builds, else the other tests prove little."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mcutrain.engine.build import load, sanitized
from mcutrain.engine.memory import GuardedMemory
from mcutrain.errors import InternalError

STRAY = """
from mcutrain.engine.build import load
from mcutrain.engine.memory import GuardedMemory
memory = GuardedMemory(load(), 10)
load().lib.mct_crc32(0, memory.pointer + {start}, {size})
print("survived")
"""


@pytest.mark.parametrize(("start", "size", "stray"), [(0, 10, 0), (0, 11, 1), (-1, 5, 1)])
def test_a_stray_read_stops_a_build_with_sanitizers(start: int, size: int, stray: int) -> None:
    if not sanitized():
        pytest.skip("needs MCUTRAIN_SANITIZE=1: make sanitize")
    code = STRAY.format(start=start, size=size)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ("survived" in run.stdout) == (not stray)
    assert ("AddressSanitizer" in run.stderr) == bool(stray)


@pytest.mark.parametrize("at", [-64, -1, 10, 73])
def test_a_stray_write_is_noticed_by_any_other_build(at: int) -> None:
    if sanitized():
        pytest.skip("the sanitizers stop the program instead")
    memory = GuardedMemory(load(), 10)
    memory.bytes[:] = 0
    memory.check("here")
    memory.pointer[at] ^= 1
    with pytest.raises(InternalError, match="outside of its memory"):
        memory.check("here")
