"""How firmware is made from the sources: files, flags, memory layout.

Nothing here runs a program or needs a package, so that PlatformIO's Python can import it, too.
"""

from __future__ import annotations

from pathlib import Path

from mcutrain.boards.table import Board, Slot
from mcutrain.errors import InputError

ROOT = Path(__file__).resolve().parents[3]
FIRMWARE = ROOT / "firmware"
KERNELS = ROOT / "kernels_c"
SCRIPT = FIRMWARE / "hal" / "cortexm" / "cortexm.ld"

CODE_FLAGS = ("-std=c99", "-g", "-ffunction-sections", "-fdata-sections")
ARITHMETIC_FLAGS = ("-ffp-contract=off",)
CHECK_FLAGS = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wmissing-prototypes", "-Werror")
COMPILE_FLAGS = (*CODE_FLAGS, *ARITHMETIC_FLAGS, *CHECK_FLAGS)
# Hosted, not -ffreestanding: that would turn every 4-byte memcpy into a call.
LIBC_FLAGS = ("-nostartfiles", "--specs=nano.specs", "--specs=nosys.specs")
LINK_FLAGS = (*LIBC_FLAGS, "-Wl,--gc-sections,--no-warn-rwx-segments,--fatal-warnings")

_ARITHMETIC = tuple(("src", name) for name in ("forward", "backward", "update", "head"))
_NO_SLOT = Slot(0, 0, 0)


def optimization(source: Path) -> str:
    """Arithmetic is made fast; what calls it, verifies and talks is made small."""
    return "-O2" if source.resolve().parts[-3:-1] in _ARITHMETIC else "-Os"


def sources(board: Board, app: Path, kernels: Path) -> tuple[Path, ...]:
    """All C files of a firmware.

    Raises:
        InputError: a source directory is missing.
    """
    hal = [FIRMWARE / "hal" / name for name in ("cortexm", *board.hal)]
    missing = [d for d in hal if not d.is_dir()] + [d for d in (app,) if not any(d.glob("*.c"))]
    if missing:
        raise InputError(
            "firmware sources are missing",
            where=str(missing[0]),
            why="firmware is built from a checkout of mcutrain",
            hint="run mcutrain from a checkout, installed with `make setup`",
        )
    own = [file for d in (app, FIRMWARE / "store", *hal) for file in d.glob("*.c")]
    computes = sorted((kernels / "src").rglob("*.c"))
    # An app without kernels has a HAL all the same, whose store needs the CRC.
    return tuple(sorted(own) + (computes or [KERNELS / "src" / "runtime" / "mct_crc32.c"]))


def include_dirs(board: Board, app: Path, kernels: Path) -> list[Path]:
    """Where headers are looked for, in this order."""
    hal = FIRMWARE / "hal"
    dirs = [app, FIRMWARE / "store", hal, hal / "cortexm", *(hal / name for name in board.hal)]
    dirs.append(FIRMWARE / "boards" / board.config)
    if (kernels / "src").is_dir():
        return [*dirs, kernels / "include", kernels / "src"]
    return [*dirs, KERNELS / "include"]


def layout(board: Board, pool_bytes: int = 0) -> list[str]:
    """The memory of the board as linker symbols; see cortexm.ld for their meaning."""
    symbols = {
        "code_base": board.code.base,
        "code_bytes": board.code.size,
        "ram_base": board.ram.base,
        "ram_bytes": board.ram.size,
        "image_base": board.image.base,
        "image_bytes": board.image.size,
        "guard_base": board.guard.base,
        "guard_bytes": board.guard.size,
        "stack_bytes": board.stack_bytes,
        "pool_bytes": pool_bytes,
    }
    for number, slot in enumerate(board.store or (_NO_SLOT, _NO_SLOT)):
        symbols[f"store_base_{number}"] = slot.base
        symbols[f"store_sector_{number}"] = slot.sector
        symbols[f"store_sectors_{number}"] = slot.sectors
    return [f"-Wl,--defsym=mct_{name}={value:#x}" for name, value in symbols.items()]
