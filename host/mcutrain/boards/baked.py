"""A firmware for one image: the image in it, and the operations that it uses and no others.

What runs and what verifies an operation is found through tables by its code (mct_run.c,
run_forward.c, verify_instruction.c). The linker makes null of the entries that the image does not
use, and drops what only they referred to; the executor refuses an operation whose entry is null.
"""

from __future__ import annotations

from pathlib import Path

from mcutrain.image.unpack import unpack
from mcutrain.ir.instructions import INSTRUCTIONS

# The executor calls these by name: they are parts of it, not entries of a table.
_ALWAYS = {"segment"}
_BY_ROWS = {"conv2d", "add", "avgpool", "maxpool", "rescale", "gather"}


def used_operations(image: bytes) -> set[str]:
    """Names of the operations in an image's programs.

    Raises:
        ImageError: it is damaged.
    """
    return {instruction.op for instruction in unpack(image).program}


def without_unused(image: bytes) -> list[str]:
    """Linker flags that leave out every operation that an image does not use."""
    flags = []
    for op in sorted(set(INSTRUCTIONS) - used_operations(image) - _ALWAYS):
        run = f"mct_row_{op}" if op in _BY_ROWS else f"mct_run_{op}"
        flags += [f"-Wl,--defsym={name}=0" for name in (run, f"mct_check_{op}")]
    return flags


def image_source(image: bytes, folder: Path) -> Path:
    """An assembler file that puts the image into the section of the image partition."""
    data = folder / "image.bin"
    data.write_bytes(image)
    source = folder / "image.s"
    source.write_text(f'.section .mct_image,"a",%progbits\n.balign 16\n.incbin "{data}"\n')
    return source
