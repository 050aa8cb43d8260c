"""Where the bytes of an image go, for `inspect --bytes`."""

from __future__ import annotations

import numpy as np

from mcutrain.image import format as fmt
from mcutrain.image.unpack import Image


def bytes_by_use(image: Image) -> dict[str, int]:
    """Bytes of an image file by what they are for, most first; their sum is the file's size.

    Constants are named by the slot of the first instruction that reads them ("w_frozen": weights
    that do not train), so what several share is counted once.
    """
    header = image.header
    uses = {
        "header": fmt.HEADER.size,
        "tensor table": header["tensors"] * fmt.TENSOR.size,
        "program": header["instructions"] * fmt.INSTRUCTION.size,
        "initial state": header["initial_bytes"],
        "metadata": header["metadata_bytes"],
    }
    free = np.ones(len(image.constants), bool)
    for instr in image.program:
        for slot, index in instr.operands.items():
            tensor = image.tensors[index]
            if tensor.space != "const":
                continue
            where = slice(tensor.offset, tensor.offset + tensor.nbytes)
            name = f"constants: {slot}"
            uses[name] = uses.get(name, 0) + int(free[where].sum())
            free[where] = False
    uses["padding"] = header["image_bytes"] - sum(uses.values())
    return dict(sorted(uses.items(), key=lambda use: -use[1]))
