"""The C kernels as a Python module: every function of mct_kernels.h and mct_arith.h, compiled once.

MCUTRAIN_SANITIZE=1 compiles them with the address and undefined-behaviour sanitizers (`make
sanitize` sets it and preloads the runtime library).
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import re
import subprocess
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

import cffi
import numpy as np
import pytest

from mcutrain.engine.build import vector_flags

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "kernels_c" / "include"
KERNEL_DIRS = ("forward", "backward", "update", "head")
SIMD = ROOT / "kernels_c" / "simd"
HEADERS = ("mct_status.h", "mct_types.h", "mct_kernels.h")
VECTOR_UNITS = ("neon",) if platform.machine() in ("aarch64", "arm64") else ("avx2", "avx512")
# The same warnings and the same strict floats as every build of the project.
FLAGS = [
    "-std=c99",
    *("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Wmissing-prototypes"),
    *("-Werror", "-ffp-contract=off", f"-I{INCLUDE}", f"-I{SIMD}"),
]
SANITIZERS = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]


def kernel_sources() -> list[Path]:
    return [p for d in KERNEL_DIRS for p in sorted((ROOT / "kernels_c" / "src" / d).glob("*.c"))]


def declarations() -> str:
    """What cffi must know: the types and prototypes, and the inline functions' prototypes."""
    text = "\n".join((INCLUDE / name).read_text() for name in HEADERS)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    for name, value in re.findall(r"^#define (\w+) (\d+)$", text, flags=re.MULTILINE):
        text = text.replace(f"[{name}]", f"[{value}]")
    text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
    inline = re.findall(r"^static inline ([^{]+?)\n\{", (INCLUDE / "mct_arith.h").read_text(), re.M)
    return text + "".join(f"{signature};\n" for signature in inline)


def vector_sources() -> list[Path]:
    return sorted(SIMD.glob("*.c"))


def compile_kernels(folder: Path, *defines: str) -> ModuleType:
    """Compile into `folder` (kept from run to run, named after its contents) and import."""
    sanitize = os.environ.get("MCUTRAIN_SANITIZE") == "1"
    options = [*(SANITIZERS if sanitize else ["-O2"]), *(f"-D{name}" for name in defines)]
    simd = "MCT_SIMD" in defines
    sources = [*kernel_sources(), *(vector_sources() if simd else ())]
    headers = [*sorted(INCLUDE.glob("*.h")), *sorted(SIMD.glob("*.h"))]
    content = [p.read_bytes() for p in [*sources, *headers, Path(__file__)]]
    for directory in KERNEL_DIRS:
        headers = (ROOT / "kernels_c" / "src" / directory).glob("*.h")
        content += [p.read_bytes() for p in sorted(headers)]
    name = (
        "mct_kernels_"
        + hashlib.sha256(b"\0".join([*content, *map(str.encode, options)])).hexdigest()
    )
    target = folder / (name + sysconfig.get_config_var("EXT_SUFFIX"))
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        own = folder / f"{name}.{os.getpid()}"  # several workers may do this at once
        ffi = cffi.FFI()
        ffi.cdef(declarations() + ("int mct_simd_select(const char *name);" if simd else ""))
        included = ("mct_arith.h", "mct_kernels.h", *(("mct_simd.h",) if simd else ()))
        ffi.set_source(name, "".join(f'#include "{header}"\n' for header in included))
        ffi.emit_c_code(f"{own}.c")
        python = f"-I{sysconfig.get_path('include')}"
        objects = []
        for source in [*sources, Path(f"{own}.c")]:
            objects.append(f"{own}.{source.stem}.o")
            flags = [*FLAGS, *vector_flags(source, ["gcc"])]
            if source not in sources:
                flags = [python, f"-I{INCLUDE}", f"-I{SIMD}", "-w"]
            _gcc("-c", "-fPIC", *flags, *options, str(source), "-o", objects[-1])
        _gcc("-shared", *options, *objects, "-o", f"{own}.so")
        Path(f"{own}.so").replace(target)
        for path in folder.glob(f"{own.name}.*"):
            path.unlink()
    spec = importlib.util.spec_from_file_location(name, target)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _gcc(*arguments: str) -> None:
    result = subprocess.run(["gcc", *arguments], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


class Kernels:
    """The library, and structs and pointers from Python values and numpy arrays."""

    def __init__(self, module: ModuleType) -> None:
        self.ffi, self.lib = module.ffi, module.lib
        self._alive: list[Any] = []

    def array(self, a: np.ndarray[Any, Any] | None) -> Any:
        """Pointer to the array's own memory; NULL for None."""
        if a is None:
            return self.ffi.NULL
        assert a.flags.c_contiguous
        kind = "float" if a.dtype == np.float32 else f"{a.dtype}_t"
        pointer = self.ffi.from_buffer(f"{kind}[]", a)
        self._alive.append(pointer)
        return pointer

    def struct(self, name: str, **fields: Any) -> Any:
        """A pointer to a new `name`; arrays become pointers, dicts nested structs."""
        cdata = self.ffi.new(f"{name} *", self._plain(fields))
        self._alive.append(cdata)
        return cdata

    def rows(self, x: np.ndarray[Any, Any], rows: int | None = None) -> Any:
        """mct_rows of a map (h, w, c) held whole, or of a ring of `rows` rows (rows, w, c)."""
        return self.struct("mct_rows", base=x, stride=x[0].size, rows=rows or x.shape[0])

    def _plain(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {k: self._plain(v) for k, v in value.items()}
        if value is None or isinstance(value, np.ndarray):
            return self.array(value)
        return value


@pytest.fixture(scope="session")
def kernel_module() -> ModuleType:
    return compile_kernels(ROOT / "build" / "tests" / "kernels")


@pytest.fixture(scope="session")
def dsp_module() -> ModuleType:
    """The same with the kernels for the DSP extension, its instructions in C."""
    return compile_kernels(ROOT / "build" / "tests" / "kernels", "MCT_DSP_IN_C")


@pytest.fixture
def kernels(kernel_module: ModuleType) -> Kernels:
    return Kernels(kernel_module)


@pytest.fixture(scope="session", params=VECTOR_UNITS)
def simd_module(request: pytest.FixtureRequest) -> ModuleType:
    """The same with the kernels for one of the vector units of this machine."""
    module = compile_kernels(ROOT / "build" / "tests" / "kernels", "MCT_SIMD")
    if not module.lib.mct_simd_select(request.param.encode()):
        pytest.skip(f"this processor has no {request.param}")
    return module
