"""A firmware for one image: the image in it, and the operations that it uses and no others.

What runs and what verifies an operation is found through tables by its code (mct_run.c,
run_forward.c, verify_instruction.c). The linker points the entries that the image does not use to
functions that refuse (absent.c), and drops what only they referred to.

    python -m mcutrain.boards.baked IMAGE     the linker's flags, one a line (for MicroPython)
"""

from __future__ import annotations

import sys
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
    """Flags of the linker that leave out every operation that an image does not use.

    Raises:
        ImageError: the image is damaged.
    """
    kinds = ("check", "run", "row")
    flags = [f"--undefined=mct_{kind}_absent" for kind in kinds]  # else it drops those, too
    for op in sorted(set(INSTRUCTIONS) - used_operations(image)):
        kind = "row" if op in _BY_ROWS else "run"
        # The executor calls what runs a segment by name.
        used = ("check",) if op == "segment" else ("check", kind)
        flags += [f"--defsym=mct_{kind}_{op}=mct_{kind}_absent" for kind in used]
    return flags


def image_source(image: bytes, data: Path) -> Path:
    """Writes the image into `data`, and an assembler file that puts it into its section."""
    data.write_bytes(image)
    source = data.with_suffix(".s")
    source.write_text(f'.section .mct_image,"a",%progbits\n.balign 16\n.incbin "{data}"\n')
    return source


if __name__ == "__main__":
    sys.stdout.write("\n".join(without_unused(Path(sys.argv[1]).read_bytes())) + "\n")
