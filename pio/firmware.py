"""Before the platform's own script: sources, flags and memory of the board, from host/mcutrain."""

import hashlib
import sys
import types
from pathlib import Path

Import("env")  # noqa: F821 - PlatformIO's

ROOT = Path(env.subst("$PROJECT_DIR"))  # noqa: F821
# Only these modules are wanted, and they need no package: mcutrain itself need not be installed.
package = types.ModuleType("mcutrain")
package.__path__ = [str(ROOT / "host" / "mcutrain")]
sys.modules.setdefault("mcutrain", package)

from mcutrain.boards import recipe  # noqa: E402
from mcutrain.boards.table import ALL_BOARDS  # noqa: E402

TESTING = "PIOTEST_RUNNING_NAME" in env  # noqa: F821
FLAGS = list(recipe.COMPILE_FLAGS)


def filters(folders, left_out=()):
    """PlatformIO's description of all C files in some folders under firmware."""
    return ["-<*>", *(f"+<{f}/*.c>" for f in folders), *(f"-<{f}>" for f in left_out)]


def fingerprint(flags):
    """The build id: a hash over sources and flags."""
    digest = hashlib.sha256("\0".join(flags).replace(str(ROOT), ".").encode())
    for file in sorted(p for d in ("firmware", "kernels_c") for p in (ROOT / d).rglob("*.[chl]*")):
        digest.update(f"{file.relative_to(ROOT)} {recipe.optimization(file)}".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def set_up(env):
    """Everything but what the platform's script sets afterwards."""
    name = env.GetProjectOption("custom_board", env["PIOENV"])
    app = () if TESTING else ("app",)
    hal = ROOT / "firmware" / "hal"
    env.Append(CPPPATH=[str(ROOT / "firmware" / d) for d in ("app", "store", "hal")])
    env.Append(CPPPATH=[str(ROOT / "kernels_c" / "include")])
    if name == "native":
        env.Append(CCFLAGS=FLAGS)
        folders = (*app, "store") if TESTING else (*app, "store", "hal/native")
        env.Replace(SRC_FILTER=filters(folders))
        flags = FLAGS
    else:
        board = ALL_BOARDS[name]
        folders = ("cortexm", *board.hal)
        env.Append(
            CPPPATH=[str(hal / f) for f in folders],
            CCFLAGS=[*board.core_flags, *FLAGS],
            LINKFLAGS=[*board.core_flags, *recipe.LINK_FLAGS, *recipe.layout(board)],
        )
        env.Append(CPPPATH=[str(ROOT / "firmware" / "boards" / board.config)])
        env.Append(LINKFLAGS=[f"-Wl,-T{recipe.SCRIPT}"])
        env.Replace(SRC_FILTER=filters((*app, "store", *(f"hal/{f}" for f in folders))))
        flags = [*board.core_flags, *FLAGS, *recipe.layout(board)]
    define = ("MCT_BUILD_ID", f"0x{fingerprint(flags)}ULL")

    def compiled(env, node):
        source = Path(node.srcnode().get_abspath())
        defines = list(env.get("CPPDEFINES", []))
        # Only where it is used, or a change anywhere would compile everything again.
        if source.name == "device.c":
            defines.append(define)
        optimized = [*env.get("CCFLAGS", []), recipe.optimization(source)]
        return env.Object(node, CPPDEFINES=defines, CCFLAGS=optimized)

    env.AddBuildMiddleware(compiled, "*.c")


set_up(env)  # noqa: F821
