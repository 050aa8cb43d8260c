"""The board table: one frozen row a board. Memory sizes are the chip's, not the emulator's."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mcutrain.errors import UsageError

KIB = 1024
MIB = 1024 * KIB

M3 = ("-mthumb", "-mcpu=cortex-m3", "-mfloat-abi=soft")
M4F = ("-mthumb", "-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard")
M7F = ("-mthumb", "-mcpu=cortex-m7", "-mfpu=fpv5-d16", "-mfloat-abi=hard")

# Enough to catch an overrun; painting more only makes booting slower.
GUARD_BYTES_MAX = 64 * KIB


@dataclass(frozen=True)
class Region:
    """A range of addresses: first byte, and length in bytes."""

    base: int
    size: int

    @property
    def end(self) -> int:
        """The first address behind the region."""
        return self.base + self.size


@dataclass(frozen=True)
class Emulation:
    """How QEMU stands in for a board.

    Attributes:
        machine: QEMU's name of it (`-M`).
        icount_shift: N of `-icount shift=N`; one instruction takes 2^N ns of virtual time.
        counter_num, counter_den: instructions = counter ticks * num / den at that shift.
        ram_size: bytes of RAM that the emulator has from the start of SRAM on.
    """

    machine: str
    icount_shift: int
    counter_num: int
    counter_den: int
    ram_size: int


@dataclass(frozen=True)
class Board:
    """A microcontroller board.

    Attributes:
        id: what `--device` takes.
        chip, cpu: names for people.
        core_flags: compiler flags that select core, FPU and float ABI.
        family: directory under firmware/hal; config: directory under firmware/boards.
        code: where program and constants may lie; image: the partition behind them.
        image_writable: the firmware itself can write the image partition.
        ram: SRAM of the chip, stack included; stack_bytes: reserved at its start.
        serial: the UART that carries the link; baud: its rate.
        emulation: None for a real board.
    """

    id: str
    chip: str
    cpu: str
    core_flags: tuple[str, ...]
    family: str
    config: str
    code: Region
    image: Region
    image_writable: bool
    ram: Region
    serial: str
    baud: int
    stack_bytes: int = 4 * KIB
    emulation: Emulation | None = None

    @property
    def guard(self) -> Region:
        """Memory that the emulator has and the chip has not; empty where they agree."""
        excess = self.emulation.ram_size - self.ram.size if self.emulation else 0
        return Region(self.ram.end, min(excess, GUARD_BYTES_MAX))

    def with_ram(self, size: int) -> Board:
        """This board with its SRAM cut to `size` bytes, to model a smaller chip.

        Raises:
            UsageError: `size` is more than the board has, or no multiple of 16.
        """
        if size > self.ram.size or size <= self.stack_bytes or size % 16:
            raise UsageError(
                f"cannot cut the SRAM to {size} bytes",
                where=self.id,
                why=f"it must be a multiple of 16 above the {self.stack_bytes} bytes of stack and "
                f"at most the {self.ram.size} bytes of the board",
            )
        return replace(self, ram=Region(self.ram.base, size))


def _mps2(image: str, cpu: str, core_flags: tuple[str, ...], second_ram: int) -> Board:
    return Board(
        id=f"qemu:mps2-{image}",
        chip=f"MPS2 FPGA {image.upper()}",
        cpu=cpu,
        core_flags=core_flags,
        family="mps2",
        config=f"mps2-{image}",
        code=Region(0x0000_0000, 4 * MIB),
        image=Region(second_ram, 16 * MIB),
        image_writable=True,
        ram=Region(0x2000_0000, 4 * MIB),
        serial="UART0",
        baud=115200,
        # The 25 MHz timer ticks every 40 ns; an instruction takes 64 ns.
        emulation=Emulation(f"mps2-{image}", 6, 40, 64, ram_size=4 * MIB),
    )


_BOARDS = (
    Board(
        id="qemu:netduinoplus2",
        chip="STM32F405",
        cpu="Cortex-M4F",
        core_flags=M4F,
        family="stm32f4",
        config="netduinoplus2",
        code=Region(0x0800_0000, 256 * KIB),
        image=Region(0x0804_0000, 768 * KIB),
        image_writable=False,
        ram=Region(0x2000_0000, 128 * KIB),
        serial="USART1",
        baud=115200,
        # QEMU clocks TIM2 at 1 GHz. Its versions before 8 have 192 KB where the chip has 128 KB.
        emulation=Emulation("netduinoplus2", 0, 1, 1, ram_size=192 * KIB),
    ),
    _mps2("an385", "Cortex-M3", M3, 0x2100_0000),
    _mps2("an386", "Cortex-M4F", M4F, 0x2100_0000),
    _mps2("an500", "Cortex-M7F", M7F, 0x6000_0000),
)

BOARDS: dict[str, Board] = {board.id: board for board in _BOARDS}


def get_board(board_id: str) -> Board:
    """The board with this id.

    Raises:
        UsageError: there is no such board; the message lists those there are.
    """
    try:
        return BOARDS[board_id]
    except KeyError:
        raise UsageError(
            "unknown board",
            where=board_id,
            hint="use one of " + ", ".join(BOARDS),
        ) from None
