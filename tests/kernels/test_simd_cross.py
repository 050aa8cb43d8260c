"""The vector kernels as a C program: also for AArch64, cross-compiled and run in user emulation."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.kernels.conftest import FLAGS, VECTOR_UNITS, kernel_sources, vector_sources

from mcutrain.engine.build import vector_flags

COMPARE = Path(__file__).parent / "simd_compare.c"
ROUNDS = 500
CROSS, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"

needs_aarch64 = pytest.mark.skipif(
    shutil.which(CROSS) is None or shutil.which(EMULATOR) is None,
    reason=f"{CROSS} or {EMULATOR} not found: Debian's gcc-aarch64-linux-gnu, libc6-dev-arm64-cross"
    " and qemu-user have them",
)


def build(compiler: str, folder: Path, optimize: str) -> Path:
    objects = []
    for source in (*kernel_sources(), *vector_sources(), COMPARE):
        flags = FLAGS if source != COMPARE else [f for f in FLAGS if f != "-Werror"]
        objects.append(str(folder / f"{source.stem}.o"))
        options = [*flags, *vector_flags(source, [compiler]), optimize, "-DMCT_SIMD"]
        run(compiler, *options, "-c", str(source), "-o", objects[-1])
    program = folder / "compare"
    run(compiler, "-static", *objects, "-o", str(program))
    return program


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_random_shapes_are_those_of_plain_c(tmp_path: Path) -> None:
    program = build("gcc", tmp_path, "-O2")
    done = [
        subprocess.run([program, unit, str(ROUNDS)], capture_output=True, text=True, check=False)
        for unit in VECTOR_UNITS
    ]
    assert {d.returncode for d in done} <= {0, 2}, [d.stdout for d in done]  # 2: not on this core
    assert any(d.returncode == 0 for d in done)


@needs_aarch64
@pytest.mark.parametrize("optimize", ["-O1", "-O3"])
def test_random_shapes_are_those_of_plain_c_on_aarch64(tmp_path: Path, optimize: str) -> None:
    run(EMULATOR, str(build(CROSS, tmp_path, optimize)), "neon", str(ROUNDS))


def test_a_unit_that_is_not_there_is_not_compared(tmp_path: Path) -> None:
    done = subprocess.run([build("gcc", tmp_path, "-O1"), "mve", "1"], check=False)
    assert done.returncode == 2
