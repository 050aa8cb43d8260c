"""A firmware for one image: the image in it, and the operations that it uses and no others.

What runs and what verifies an operation is found through tables by its code (mct_run.c,
run_forward.c, verify_instruction.c). The linker points the entries that the image does not use to
functions that refuse (absent.c), and drops what only they referred to. The same goes for kernels of
depthwise convolutions: the plain ones are asked next.

    python -m mcutrain.boards.baked IMAGE     the linker's flags, one a line (for MicroPython)
"""

from __future__ import annotations

import sys
from pathlib import Path

from mcutrain.image.unpack import unpack
from mcutrain.ir.instructions import INSTRUCTIONS

_DEPTHWISE_KERNELS = {
    "conv2d": "mct_conv2d_depthwise_dsp",
    "conv2d_dx": "mct_conv2d_dx_depthwise_dsp",
    "conv2d_dw": "mct_conv2d_dw_depthwise_dsp",
}
_BY_ROWS = {"conv2d", "add", "avgpool", "maxpool", "rescale", "gather"}


def used_operations(image: bytes) -> set[str]:
    """Names of the operations in an image's programs.

    Raises:
        ImageError: it is damaged.
    """
    return {instruction.op for instruction in unpack(image).program}


def unused_kernels(image: bytes) -> set[str]:
    """Names of the kernels of depthwise convolutions that no instruction of an image can use.

    Raises:
        ImageError: it is damaged.
    """
    grouped = {i.op for i in unpack(image).program if i.params.get("groups", 1) > 1}
    return {kernel for op, kernel in _DEPTHWISE_KERNELS.items() if op not in grouped}


def without_unused(image: bytes) -> list[str]:
    """Flags of the linker that leave out every operation and kernel that an image does not use.

    Raises:
        ImageError: the image is damaged.
    """
    instead: dict[str, str] = {}
    for op in sorted(set(INSTRUCTIONS) - used_operations(image)):
        instead[f"mct_check_{op}"] = "mct_check_absent"
        kind = "row" if op in _BY_ROWS else "run"
        if op != "segment":  # the executor calls what runs a segment by name
            instead[f"mct_{kind}_{op}"] = f"mct_{kind}_absent"
    instead |= dict.fromkeys(sorted(unused_kernels(image)), "mct_kernel_absent")
    kept = sorted(set(instead.values()))  # else the linker drops those, too
    return [
        *(f"--undefined={absent}" for absent in kept),
        *(f"--defsym={name}={absent}" for name, absent in instead.items()),
    ]


def image_source(image: bytes, data: Path) -> Path:
    """Writes the image into `data`, and an assembler file that puts it into its section."""
    data.write_bytes(image)
    source = data.with_suffix(".s")
    source.write_text(f'.section .mct_image,"a",%progbits\n.balign 16\n.incbin "{data}"\n')
    return source


if __name__ == "__main__":
    sys.stdout.write("\n".join(without_unused(Path(sys.argv[1]).read_bytes())) + "\n")
