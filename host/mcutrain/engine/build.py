"""Compile the C kernels and the executor for this machine: `python -m mcutrain.engine.build`.

The library is kept under a key made of its sources, flags, compiler and Python, so that a change of
any of them builds anew and nothing else does. MCUTRAIN_SANITIZE=1 builds with ASan and UBSan
(Python must then run with libasan preloaded: `make sanitize`). CC names another compiler.
MCUTRAIN_SIMD chooses the vector unit for the kernels: auto (the default: the best there is), none
(plain C), or avx2, avx512, neon. It chooses when a process loads the library; all give the same
bytes.

Besides kernels_c, every `*.c` and `*.cdef` in this folder is taken in; where one of them is the
loop-back's, the firmware's portable app as well.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import os
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from types import ModuleType

import cffi

from mcutrain.errors import ToolchainError, UsageError

MODULE = "_mcutrain_engine"
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
CACHE = ROOT / "build" / "engine"

STRICT = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wmissing-prototypes", "-Werror")
BASE = ("-std=c99", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-DMCT_SIMD=1")
OPTIMIZED = ("-O3",)
# What single files need beyond the target's baseline; the core is asked before any of it runs.
VECTORS = {
    "mct_simd_avx2.c": ("-mavx2",),
    "mct_simd_avx512.c": ("-mavx2", "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512vnni"),
}
SANITIZED = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def sanitized() -> bool:
    """Whether the environment asks for a build with ASan and UBSan."""
    return os.environ.get("MCUTRAIN_SANITIZE") == "1"


def compiler() -> list[str]:
    """The C compiler's command.

    Raises:
        ToolchainError: there is none.
    """
    command = shlex.split(os.environ.get("CC", "cc"))
    if not command or shutil.which(command[0]) is None:
        raise ToolchainError(
            "no C compiler found: the host engine is compiled on first use",
            where=" ".join(command) or "CC",
            why="the program is not on PATH",
            hint="run `make setup`, or install gcc, or set CC to a compiler",
        )
    return command


def sources() -> list[Path]:
    """C files of the library."""
    kernels = [ROOT / "kernels_c" / name for name in ("src", "simd")]
    found = [p for folder in kernels for p in sorted(folder.rglob("*.c"))]
    found += sorted(HERE.glob("*.c"))
    if (HERE / "loopback.c").exists():
        app = (ROOT / "firmware" / "app").glob("*.c")
        found += sorted(p for p in app if p.name != "main.c")
        found += sorted((ROOT / "firmware" / "store").glob("*.c"))
    if not (ROOT / "kernels_c").is_dir():
        raise ToolchainError(
            "the C sources are not there: the host engine is built from a checkout",
            where=str(ROOT / "kernels_c"),
            hint="install mcutrain from its repository: make setup",
        )
    return found


def include_dirs() -> list[Path]:
    """Where headers are looked for."""
    app = [ROOT / "firmware" / name for name in ("app", "hal", "store")]
    kernels = [ROOT / "kernels_c" / name for name in ("include", "simd")]
    return [*kernels, HERE, *(p for p in app if p.is_dir())]


def vector_flags(source: Path, command: list[str]) -> tuple[str, ...]:
    """Flags of a file of vector kernels; none where the compiler's target is no x86-64."""
    if source.name not in VECTORS:
        return ()
    target = subprocess.run([*command, "-dumpmachine"], capture_output=True, check=False).stdout
    return VECTORS[source.name] if target.startswith((b"x86_64", b"amd64")) else ()


def _headers() -> list[Path]:
    folders = [ROOT / "kernels_c", *include_dirs()]
    return sorted({p for folder in folders for p in folder.rglob("*.h")})


def _definitions() -> str:
    return "\n".join(p.read_text() for p in sorted(HERE.glob("*.cdef")))


def _flags() -> tuple[str, ...]:
    return BASE + (SANITIZED if sanitized() else OPTIMIZED)


def _key(command: list[str]) -> str:
    version = subprocess.run([*command, "--version"], capture_output=True, check=False).stdout
    digest = hashlib.sha256(version)
    for text in (*command, *_flags(), *STRICT, cffi.__version__, str(_suffix()), _definitions()):
        digest.update(text.encode() + b"\0")
    for path in (*sources(), *_headers(), Path(__file__)):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:24]


def _suffix() -> str:
    return str(sysconfig.get_config_var("EXT_SUFFIX"))


def _run(command: Iterable[str]) -> None:
    done = subprocess.run(list(command), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ToolchainError(
            "the host engine does not compile",
            where=" ".join(command),
            why=done.stderr.strip()[-4000:] or f"exit code {done.returncode}",
            hint="run `make setup` if headers are missing; else this is a defect of mcutrain",
        )


def _binding(folder: Path) -> Path:
    """The C side of the Python module, written by cffi."""
    names = sorted(p.name for p in (ROOT / "kernels_c" / "include").glob("*.h"))
    names += sorted(p.name for p in HERE.glob("*.h"))
    ffi = cffi.FFI()
    ffi.cdef(_definitions())
    ffi.set_source(MODULE, "".join(f'#include "{name}"\n' for name in names))
    path = folder / f"{MODULE}.c"
    with contextlib.redirect_stdout(io.StringIO()):  # it says what it writes
        ffi.emit_c_code(str(path))
    return path


def _compile(command: list[str], folder: Path) -> Path:
    includes = [f"-I{p}" for p in include_dirs()]
    python = [f"-I{sysconfig.get_path('include')}", f"-I{sysconfig.get_path('platinclude')}"]
    jobs = [([*STRICT, *vector_flags(path, command)], path) for path in sources()]
    # cffi's own code is not held to this project's warnings, and needs POSIX names.
    jobs.append((["-std=gnu99", "-w", *python], _binding(folder)))

    def build(numbered: tuple[int, tuple[list[str], Path]]) -> str:
        number, (extra, path) = numbered
        output = str(folder / f"{number}.o")
        _run([*command, *_flags(), *extra, *includes, "-c", str(path), "-o", output])
        return output

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        objects = list(pool.map(build, enumerate(jobs)))
    library = folder / f"{MODULE}{_suffix()}"
    _run([*command, *_flags(), "-shared", *objects, "-o", str(library)])
    for made in (*objects, str(folder / f"{MODULE}.c")):
        Path(made).unlink()
    return library


def build() -> Path:
    """The compiled library, built now if it is not there.

    Raises:
        ToolchainError: no compiler, no sources, or they do not compile.
    """
    command = compiler()
    target = CACHE / (_key(command) + ("-sanitized" if sanitized() else ""))
    library = target / f"{MODULE}{_suffix()}"
    if library.exists():
        return library
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tmp-", dir=CACHE) as name:
        folder = Path(name) / "out"
        folder.mkdir()
        _compile(command, folder)
        try:
            folder.rename(target)
        except OSError:
            if not library.exists():  # else another process was faster
                raise
    return library


@cache
def load() -> ModuleType:
    """The cffi module (`ffi` and `lib`) of the library, built first where needed.

    Raises:
        ToolchainError: it cannot be built or loaded.
        UsageError: MCUTRAIN_SIMD names a vector unit that is not there.
    """
    library = build()
    spec = importlib.util.spec_from_file_location(MODULE, library)
    if spec is None or spec.loader is None:
        raise ToolchainError("the host engine cannot be loaded", where=str(library))
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError as error:
        raise ToolchainError(
            "the host engine cannot be loaded",
            where=str(library),
            why=str(error),
            hint="run `make clean`, then again; with MCUTRAIN_SANITIZE=1: make sanitize",
        ) from error
    _select(module, os.environ.get("MCUTRAIN_SIMD", "auto"))
    return module


def vector_unit() -> str:
    """Name of the vector unit that the kernels use; "none": plain C."""
    module = load()
    return str(module.ffi.string(module.lib.mct_simd_name()).decode())


def _select(module: ModuleType, name: str) -> None:
    if not module.lib.mct_simd_select(name.encode()):
        raise UsageError(
            "this processor has not the vector unit that was asked for",
            where=f"MCUTRAIN_SIMD={name}",
            why="auto, none, avx2, avx512 and neon have a meaning, each where there is such a unit",
            hint="unset MCUTRAIN_SIMD",
        )


if __name__ == "__main__":
    build()
