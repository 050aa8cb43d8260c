"""Bytes of every kind of memory in a linked firmware, read from its ELF sections."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from mcutrain.errors import ToolchainError


@dataclass(frozen=True)
class Sizes:
    """All in bytes; `pool` is the memory that the image gets, `stack` the reserved stack.

    image: one that is part of the firmware.
    """

    text: int
    rodata: int
    data: int
    bss: int
    pool: int
    stack: int
    image: int = 0

    @property
    def flash_bytes(self) -> int:
        """Code, constants and the initial values of .data: flash beside the image."""
        return self.text + self.rodata + self.data

    @property
    def ram_bytes(self) -> int:
        """All SRAM that is spoken for: stack, variables and pool."""
        return self.stack + self.data + self.bss + self.pool


_SECTIONS = {
    "text": (".text",),
    "rodata": (".rodata", ".ARM.exidx"),
    "data": (".data",),
    "bss": (".bss", ".noinit"),
    "pool": (".mct_pool",),
    "stack": (".stack",),
    "image": (".mct_image",),
}


def read_sizes(elf: Path) -> Sizes:
    """The sizes of a firmware that this project linked.

    Raises:
        ToolchainError: the file is no ELF, or allocates a section that no field counts.
    """
    try:
        with elf.open("rb") as stream:
            allocated = {
                section.name: int(section["sh_size"])
                for section in ELFFile(stream).iter_sections()
                if section["sh_flags"] & 2 and section["sh_size"]  # SHF_ALLOC
            }
    except ELFError as error:
        raise ToolchainError("not an ELF file", where=str(elf), why=str(error)) from None
    sums = {
        field: sum(allocated.pop(name, 0) for name in names) for field, names in _SECTIONS.items()
    }
    if allocated:
        raise ToolchainError(
            "the linker made sections that are not accounted for",
            where=str(elf),
            why=", ".join(f"{name} ({size} bytes)" for name, size in allocated.items()),
        )
    return Sizes(**sums)
