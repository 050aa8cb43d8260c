"""The MicroPython module on emulated Cortex-M boards, as part of the firmware and as a file.

Image and samples lie where a board has its flash and are used from there.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.micropython import MACHINES, emulated, native_module
from tests.micropython_cases import TRAIN, Case, case

pytestmark = pytest.mark.qemu

# MicroPython imports files only; this is one in memory.
IMPORT = """
import io, os, sys
class File(io.IOBase):
    def __init__(self, data):
        self.data, self.at = data, 0
    def readinto(self, to):
        n = min(len(to), len(self.data) - self.at)
        to[:n] = self.data[self.at : self.at + n]
        self.at += n
        return n
    def ioctl(self, request, argument):
        return 0
class Files:
    def __init__(self, files):
        self.files = files
    def mount(self, readonly, make):
        pass
    def stat(self, path):
        if path.lstrip("/") not in self.files:
            raise OSError(2)
        return (0x8000, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    def open(self, path, mode):
        return File(self.files[path.lstrip("/")])
os.mount(Files({"native.mpy": module}), "/files")
sys.path.append("/files")
"""


def _memory(folder: Path, base: int, found: Case, module: bytes) -> tuple[Path, str]:
    """A file with all three, and code that names its parts."""
    path, parts, code = folder / "memory.bin", b"", "import uctypes\n"
    for name, data in (("image", found.image), ("samples", found.samples), ("module", module)):
        code += f"{name} = uctypes.bytearray_at({base + len(parts)}, {len(data)})\n"
        parts += data + bytes(-len(data) % 4)
    path.write_bytes(parts)
    return path, code + f"steps = {found.steps!r}\n"


def _train(board: str, arch: str, name: str, folder: Path) -> None:
    """Both kinds of module, side by side."""
    found = case(name)
    base, module_file = MACHINES[board].memory, native_module(arch)
    path, names = _memory(folder, base, found, module_file.read_bytes())
    with emulated(board, path) as repl:
        repl.run(names + TRAIN + IMPORT)
        repl.run("import mcutrain, native\nassert mcutrain.Network is not native.Network")
        for module in ("mcutrain", "native"):
            printed = repl.run(f"print(train({module}.Network(image), samples, steps))")
            assert eval(printed) == found.found, module
            bad = "image[:100]"
            repl.run(
                f"try:\n    {module}.Network({bad})\n"
                "except ValueError as error:\n    assert '(-20)' in str(error)\n"
                "else:\n    raise AssertionError"
            )


@pytest.mark.parametrize("name", ["streamed-residual", "branches"])
def test_twenty_steps_on_a_cortex_m3_are_those_of_the_host(name: str, tmp_path: Path) -> None:
    _train("MPS2_AN385", "armv7m", name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["streamed-residual", "branches", "mlp", "t45-deep"])
@pytest.mark.parametrize(
    ("board", "arch"),
    [("m4f", "armv7emsp"), ("m7d", "armv7emdp"), ("m4f", "armv7m"), ("m7d", "armv7m")],
)
def test_twenty_steps_with_an_fpu_are_those_of_the_host(
    board: str, arch: str, name: str, tmp_path: Path
) -> None:
    """The file for Cortex-M3 too: it passes floats in other registers than these firmwares."""
    _train(board, arch, name, tmp_path)
