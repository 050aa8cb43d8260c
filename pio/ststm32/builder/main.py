"""What PlatformIO's ststm32 does without a framework, its quirks among it.

-Os, --relax and libstdc++ come from there, and the core's flags reach the linker without those of
the FPU. pio/firmware.py and pio/after.py have to cope with each.
"""

from SCons.Script import AlwaysBuild, Builder, Default, DefaultEnvironment

env = DefaultEnvironment()
board = env.BoardConfig()
env.Replace(
    AR="arm-none-eabi-gcc-ar",
    AS="arm-none-eabi-as",
    CC="arm-none-eabi-gcc",
    CXX="arm-none-eabi-g++",
    OBJCOPY="arm-none-eabi-objcopy",
    RANLIB="arm-none-eabi-gcc-ranlib",
    SIZETOOL="arm-none-eabi-size",
    ARFLAGS=["rc"],
    SIZEPROGREGEXP=r"^(?:\.text|\.data|\.rodata|\.ARM.exidx)\s+(\d+).*",
    SIZEDATAREGEXP=r"^(?:\.data|\.bss|\.noinit)\s+(\d+).*",
    SIZECHECKCMD="$SIZETOOL -A -d $SOURCES",
    SIZEPRINTCMD="$SIZETOOL -B -d $SOURCES",
    PROGSUFFIX=".elf",
    PROGNAME="firmware",
)
core = ["-mthumb", "-mcpu=" + board.get("build.cpu")]
env.Append(
    ASFLAGS=core,
    CCFLAGS=["-Os", "-ffunction-sections", "-fdata-sections", "-Wall", *core],
    CXXFLAGS=["-fno-rtti", "-fno-exceptions"],
    CPPDEFINES=[("F_CPU", "$BOARD_F_CPU")],
    LINKFLAGS=["-Os", "-Wl,--gc-sections,--relax", *core],
    LIBS=["c", "gcc", "m", "stdc++"],
    BUILDERS={
        "ElfToBin": Builder(
            action=env.VerboseAction("$OBJCOPY -O binary $SOURCES $TARGET", "Building $TARGET"),
            suffix=".bin",
        )
    },
)
elf = env.BuildProgram()
firmware = env.ElfToBin("$BUILD_DIR/${PROGNAME}", elf)
env.Depends(firmware, "checkprogsize")
AlwaysBuild(env.Alias("nobuild", firmware))
Default([env.Alias("buildprog", firmware, firmware)])
