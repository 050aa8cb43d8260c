"""Compiles and links the firmware for a board, into a cache keyed by sources and flags.

The cache lies in build/firmware of the checkout. An object is reused while its source, any header
and its flags are unchanged; a linked firmware while everything is. Both appear by renaming, so that
builds may run at the same time.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from mcutrain.boards import baked, recipe, toolchain
from mcutrain.boards.recipe import ROOT
from mcutrain.boards.sizes import Sizes, read_sizes
from mcutrain.boards.table import Board
from mcutrain.errors import FitError, ToolchainError

_TIMEOUT_S = 300.0
_HASH_CHARS = 32
_IMAGE_NAME = "image.bin"
_BINARY_FLAGS = ("-O", "binary", "-R", ".mct_image")
_BUILD_ID_MACRO = b"MCT_BUILD_ID"


@dataclass(frozen=True)
class Firmware:
    """A linked firmware.

    Attributes:
        board: what it was built for.
        elf, map: the files. binary: code alone, for the start of flash.
        image_binary: the image that is part of the firmware, for the image partition; else None.
        build_id: 16 hex digits over sources, flags and compiler; the firmware knows it, too.
        sizes: bytes of every kind of memory, from the ELF.
        frames: stack frame in bytes of each function that was compiled, "file:function".
    """

    board: Board
    elf: Path
    map: Path
    binary: Path
    image_binary: Path | None
    build_id: str
    sizes: Sizes
    frames: Mapping[str, int]


@dataclass(frozen=True)
class _Job:
    sources: tuple[Path, ...]
    headers_digest: str
    flags: tuple[str, ...]


def build_firmware(
    board: Board,
    *,
    app: Path | None = None,
    kernels: Path | None = None,
    defines: Mapping[str, str | int] | None = None,
    pool_bytes: int = 0,
    image: bytes | None = None,
    all_operations: bool = False,
) -> Firmware:
    """Builds `app` with the HAL of `board` and the kernels it calls.

    Args:
        board: a row of the board table, perhaps cut with `with_ram`.
        app: directory of the app's C files; firmware/app by default.
        kernels: directory with include/ and src/; kernels_c by default.
        defines: more preprocessor definitions, for app, HAL and kernels alike.
        pool_bytes: size of the memory pool; 0 gives it all SRAM that is left.
        image: bake it in: it lies in the image partition of the firmware, which has the operations
            that it uses and no others,
        all_operations: or all of them, so that other images can be loaded, too.

    Raises:
        ImageError: the image is damaged.
        InputError: a source directory is missing.
        FitError: code or data does not fit into the board.
        ToolchainError: the compiler is missing or refused a source.
    """
    app = app or recipe.FIRMWARE / "app"
    kernels = kernels or recipe.KERNELS
    sources = recipe.sources(board, app, kernels)
    includes = recipe.include_dirs(board, app, kernels)
    flags = (*board.core_flags, *recipe.COMPILE_FLAGS, "-fstack-usage")
    flags += (f"-ffile-prefix-map={ROOT}=.",)
    flags += tuple(f"-I{directory}" for directory in includes)
    flags += tuple(f"-D{name}={value}" for name, value in sorted((defines or {}).items()))
    link = [*recipe.LINK_FLAGS, *recipe.layout(board, pool_bytes)]
    if image is not None and not all_operations:
        link += [f"-Wl,{flag}" for flag in baked.without_unused(image)]
    headers = sorted(header for directory in includes for header in directory.rglob("*.h"))
    job = _Job(sources, _digest(headers), flags)
    inputs = _digest([*sources, recipe.SCRIPT]) + hashlib.sha256(image or b"").hexdigest()
    everything = [*flags, *map(recipe.optimization, sources), *link, *_BINARY_FLAGS]
    build_id = _hash(job.headers_digest, inputs, _portable(everything))[:16]
    cache = Path(os.environ.get("MCUTRAIN_BUILD_DIR") or ROOT / "build" / "firmware")
    directory = cache / board.config / build_id
    objects = _compile_all(job, cache / "objects", build_id)
    elf = directory / "firmware.elf"
    if not elf.is_file():
        _link(board, objects, [*board.core_flags, *link, f"-T{recipe.SCRIPT}"], directory, image)
    return Firmware(
        board=board,
        elf=elf,
        map=elf.with_suffix(".map"),
        binary=elf.with_suffix(".bin"),
        image_binary=elf.with_name(_IMAGE_NAME) if image is not None else None,
        build_id=build_id,
        sizes=read_sizes(elf),
        frames=_frames(sources, objects),
    )


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:_HASH_CHARS]


def _digest(files: Iterable[Path]) -> str:
    """A hash over names (relative to the checkout, where inside) and contents."""
    return _hash(
        *(
            f"{os.path.relpath(file, ROOT)} {hashlib.sha256(file.read_bytes()).hexdigest()}"
            for file in files
        )
    )


def _portable(flags: Sequence[str]) -> str:
    """Flags and compiler without the place of the checkout: two clones give one build id."""
    text = " ".join([toolchain.tool_version(toolchain.GCC), *flags])
    return text.replace(str(ROOT), ".")


def _compile_all(job: _Job, cache: Path, build_id: str) -> list[Path]:
    cache.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=cache) as scratch,
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        return list(
            pool.map(lambda s: _compile(job, s, build_id, cache, Path(scratch)), job.sources)
        )


def _compile(job: _Job, source: Path, build_id: str, cache: Path, scratch: Path) -> Path:
    flags = [*job.flags, recipe.optimization(source)]
    if _BUILD_ID_MACRO in source.read_bytes():
        # Only where it is used, or a change anywhere would compile everything again.
        flags.append(f"-DMCT_BUILD_ID=0x{build_id}ULL")
    key = _hash(job.headers_digest, _digest([source]), _portable(flags))
    target = cache / f"{key}.o"
    if not target.is_file():
        made = scratch / target.name
        gcc = str(toolchain.find_tool(toolchain.GCC))
        toolchain.run([gcc, *flags, "-c", "-o", str(made), str(source)], _TIMEOUT_S)
        made.with_suffix(".su").replace(target.with_suffix(".su"))
        made.replace(target)
    return target


def _link(
    board: Board,
    objects: Sequence[Path],
    flags: Sequence[str],
    directory: Path,
    image: bytes | None,
) -> None:
    directory.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=directory.parent))
    command = [str(toolchain.find_tool(toolchain.GCC)), *flags]
    command += [f"-Wl,-Map={scratch / 'firmware.map'}", *map(str, objects)]
    command += ["-o", str(scratch / "firmware.elf")]
    try:
        if image is not None:
            command.append(str(baked.image_source(image, scratch / _IMAGE_NAME)))
        toolchain.run(command, _TIMEOUT_S)
        objcopy = [str(toolchain.find_tool(toolchain.OBJCOPY)), *_BINARY_FLAGS]
        files = [str(scratch / name) for name in ("firmware.elf", "firmware.bin")]
        toolchain.run([*objcopy, *files], _TIMEOUT_S)
        if not directory.is_dir():
            scratch.rename(directory)
    except ToolchainError as error:
        raise _explain_link(error, board) from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _explain_link(error: ToolchainError, board: Board) -> ToolchainError | FitError:
    lines = [line for line in (error.why or "").splitlines() if "overflowed by" in line]
    if not lines:
        return error
    return FitError(
        "the firmware does not fit into the board",
        where=board.id,
        why="; ".join(line.partition("ld: ")[2] or line for line in lines)
        + f" (code {board.code.size} bytes, SRAM {board.ram.size} bytes)",
    )


def _frames(sources: Sequence[Path], objects: Sequence[Path]) -> dict[str, int]:
    """Reads gcc's .su files: "path:line:column:function<TAB>bytes<TAB>kind" a line."""
    frames: dict[str, int] = {}
    for source, item in zip(sources, objects, strict=True):
        for line in item.with_suffix(".su").read_text().splitlines():
            place, size, _ = line.split("\t")
            function = place.rpartition(":")[2]
            frames[f"{os.path.relpath(source, ROOT)}:{function}"] = int(size)
    return frames
