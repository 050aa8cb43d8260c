"""What compilers make of the kernels: no warning, no helper, no state, no fused product."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FLAGS = [
    *("-std=c99", "-O2", "-ffp-contract=off", f"-I{ROOT / 'kernels_c' / 'include'}"),
    *("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Wmissing-prototypes"),
    "-Werror",
]
ARM = "arm-none-eabi-"
CORES = {
    "m3": ["-mcpu=cortex-m3"],
    "m4": ["-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"],
    "m7": ["-mcpu=cortex-m7", "-mfpu=fpv5-d16", "-mfloat-abi=hard"],
}
INTEGER_DIRS, FLOAT_DIR = ("forward", "backward", "update"), "head"
LIBC = {"memcpy", "memset"}

needs_arm = pytest.mark.skipif(
    shutil.which(f"{ARM}gcc") is None,
    reason="arm-none-eabi-gcc not found; `make setup` installs it",
)


def sources(*directories: str) -> list[Path]:
    return [p for d in directories for p in sorted((ROOT / "kernels_c" / "src" / d).glob("*.c"))]


def run(*command: str) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def build(core: str, folder: Path, *directories: str) -> list[Path]:
    objects = []
    for source in sources(*directories):
        objects.append(folder / f"{source.stem}.o")
        options = [*FLAGS, "-mthumb", *CORES[core]]
        run(f"{ARM}gcc", *options, "-c", str(source), "-o", str(objects[-1]))
    assert objects
    return objects


def undefined(path: Path) -> set[str]:
    return set(re.findall(r"^ +U (\S+)$", run(f"{ARM}nm", "-u", str(path)), re.MULTILINE))


def test_host_compiler_has_no_warning() -> None:
    for source in sources(*INTEGER_DIRS, FLOAT_DIR):
        run("gcc", *FLAGS, "-fsyntax-only", str(source))


@needs_arm
@pytest.mark.parametrize("core", CORES)
def test_t15_integer_kernels_need_no_helper_function(core: str, tmp_path: Path) -> None:
    """No libm, no soft float, no 64-bit division: nothing undefined but string.h and kernels."""
    own = {p.stem for p in sources(*INTEGER_DIRS)}
    for path in build(core, tmp_path, *INTEGER_DIRS):
        assert undefined(path) <= LIBC | own, path.stem


@needs_arm
@pytest.mark.parametrize("core", CORES)
def test_t15_the_classifier_needs_at_most_single_precision_helpers(
    core: str, tmp_path: Path
) -> None:
    helper = r"__aeabi_(f(add|sub|rsub|mul|div|cmp\w+|2iz)|i2f|ui2f)" if core == "m3" else r"(?!)"
    for path in build(core, tmp_path, FLOAT_DIR):
        foreign = undefined(path) - LIBC - {p.stem for p in sources(*INTEGER_DIRS, FLOAT_DIR)}
        assert all(re.fullmatch(helper, name) for name in foreign), foreign


@needs_arm
@pytest.mark.parametrize("core", CORES)
def test_kernels_have_no_state(core: str, tmp_path: Path) -> None:
    for path in build(core, tmp_path, *INTEGER_DIRS, FLOAT_DIR):
        data, bss = run(f"{ARM}size", str(path)).splitlines()[1].split()[1:3]
        assert (data, bss) == ("0", "0"), path.stem


@needs_arm
@pytest.mark.parametrize("core", ["m4", "m7"])
def test_no_fused_multiply_add(core: str, tmp_path: Path) -> None:
    """A fused product rounds once: other bits than on a core without an FPU."""
    text = "".join(run(f"{ARM}objdump", "-d", str(p)) for p in build(core, tmp_path, FLOAT_DIR))
    assert re.search(r"\tvmul", text)
    assert not re.search(r"\tv(n?ml[as]|fn?m[as])", text)
