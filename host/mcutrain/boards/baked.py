"""A firmware for one image: the image in it, and the operations that it uses and no others.

What runs and what verifies an operation is found through tables by its code (mct_run.c,
run_forward.c, verify_instruction.c). The linker points the entries that the image does not use to
functions that refuse (absent.c), and drops what only they referred to.
"""

from __future__ import annotations

from pathlib import Path

from mcutrain.image.unpack import unpack
from mcutrain.ir.instructions import INSTRUCTIONS

_BY_ROWS = {"conv2d", "add", "avgpool", "maxpool", "rescale", "gather"}


def used_operations(image: bytes) -> set[str]:
    """Names of the operations in an image's programs.

    Raises:
        ImageError: it is damaged.
    """
    return {instruction.op for instruction in unpack(image).program}


def without_unused(image: bytes) -> list[str]:
    """Linker flags that leave out every operation that an image does not use."""
    kinds = ("check", "run", "row")
    flags = [f"-Wl,-u,mct_{kind}_absent" for kind in kinds]  # else the linker drops those, too
    for op in sorted(set(INSTRUCTIONS) - used_operations(image)):
        kind = "row" if op in _BY_ROWS else "run"
        # The executor calls what runs a segment by name.
        used = ("check",) if op == "segment" else ("check", kind)
        flags += [f"-Wl,--defsym=mct_{kind}_{op}=mct_{kind}_absent" for kind in used]
    return flags


def image_source(image: bytes, data: Path) -> Path:
    """Writes the image into `data`, and an assembler file that puts it into its section."""
    data.write_bytes(image)
    source = data.with_suffix(".s")
    source.write_text(f'.section .mct_image,"a",%progbits\n.balign 16\n.incbin "{data}"\n')
    return source
