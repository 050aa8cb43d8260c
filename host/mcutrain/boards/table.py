"""The board table: one frozen row a board. Memory sizes are the chip's, not the emulator's."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mcutrain.errors import UsageError

KIB = 1024
MIB = 1024 * KIB

M3 = ("-mthumb", "-mcpu=cortex-m3", "-mfloat-abi=soft")
M4F = ("-mthumb", "-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard")
# The F746 has single precision only.
M7SP = ("-mthumb", "-mcpu=cortex-m7", "-mfpu=fpv5-sp-d16", "-mfloat-abi=hard")
M55 = ("-mthumb", "-mcpu=cortex-m55", "-mfloat-abi=hard")
M7F = ("-mthumb", "-mcpu=cortex-m7", "-mfpu=fpv5-d16", "-mfloat-abi=hard")

# Enough to catch an overrun; painting more only makes booting slower.
GUARD_BYTES_MAX = 64 * KIB

STORE_HEADER_BYTES = 32  # firmware/store/mct_store.h


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
class Slot:
    """One of the two places for saved states: sectors of flash that are erased one by one.

    Attributes:
        base: first address.
        sector: bytes of a sector; sectors: how many.
    """

    base: int
    sector: int
    sectors: int

    @property
    def region(self) -> Region:
        """The addresses of all its sectors."""
        return Region(self.base, self.sector * self.sectors)


@dataclass(frozen=True)
class Flasher:
    """What the flashing tools call the chip.

    Attributes:
        pyocd: target of pyocd. openocd: its target script.
        boot_uart: the link's USART is one of the ROM's serial boot loader (stm32flash).
        dfu: the ROM has a boot loader over USB, and such boards bring USB out (dfu-util).
    """

    pyocd: str
    openocd: str
    boot_uart: bool = False
    dfu: bool = False


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
        hal: directories under firmware/hal beside cortexm; config: one under firmware/boards.
        code: where program and constants may lie; image: the partition behind them.
        image_writable: the firmware itself can write the image partition.
        ram: SRAM of the chip, stack included; stack_bytes: reserved at its start.
        serial: the UART that carries the link; baud: its rate.
        emulation: None for a real board.
        store: where saved states lie, None: nowhere.
        clock_hz: the core's speed, 0 for an emulated board.
        flasher: None for an emulated board.
    """

    id: str
    chip: str
    cpu: str
    core_flags: tuple[str, ...]
    hal: tuple[str, ...]
    config: str
    code: Region
    image: Region
    image_writable: bool
    ram: Region
    serial: str
    baud: int
    stack_bytes: int = 4 * KIB
    emulation: Emulation | None = None
    store: tuple[Slot, Slot] | None = None
    clock_hz: int = 0
    flasher: Flasher | None = None

    @property
    def guard(self) -> Region:
        """Memory that the emulator has and the chip has not; empty where they agree."""
        excess = self.emulation.ram_size - self.ram.size if self.emulation else 0
        return Region(self.ram.end, min(excess, GUARD_BYTES_MAX))

    @property
    def state_bytes(self) -> int:
        """The largest state that can be saved; 0 without a store."""
        if self.store is None:
            return 0
        return min(slot.region.size for slot in self.store) - STORE_HEADER_BYTES

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
        hal=("mps", "mps2"),
        config=f"mps2-{image}",
        code=Region(0x0000_0000, 4 * MIB),
        image=Region(second_ram, 15 * MIB),
        image_writable=True,
        ram=Region(0x2000_0000, 4 * MIB),
        serial="UART0",
        baud=115200,
        # The 25 MHz timer ticks every 40 ns; an instruction takes 64 ns.
        emulation=Emulation(f"mps2-{image}", 6, 40, 64, ram_size=4 * MIB),
        store=(
            Slot(second_ram + 15 * MIB, 128 * KIB, 4),
            Slot(second_ram + 15 * MIB + 512 * KIB, 128 * KIB, 4),
        ),
    )


_BOARDS = (
    Board(
        id="qemu:netduinoplus2",
        chip="STM32F405",
        cpu="Cortex-M4F",
        core_flags=M4F,
        hal=("stm32", "stm32flash", "stm32f4f7", "stm32f4"),
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
    # Code and data lie in the tightly coupled memories, the image in the second RAM.
    Board(
        id="qemu:mps3-an547",
        chip="MPS3 FPGA AN547",
        cpu="Cortex-M55",
        core_flags=M55,
        hal=("mps", "mps3"),
        config="mps3-an547",
        code=Region(0x0000_0000, 512 * KIB),
        image=Region(0x2100_0000, 3 * MIB),
        image_writable=True,
        ram=Region(0x2000_0000, 512 * KIB),
        serial="UART0",
        baud=115200,
        # The 32 MHz counter ticks every 31.25 ns; an instruction takes 4 ns.
        emulation=Emulation("mps3-an547", 2, 125, 16, ram_size=512 * KIB),
        store=(
            Slot(0x2100_0000 + 3 * MIB, 128 * KIB, 4),
            Slot(0x2100_0000 + 3 * MIB + 512 * KIB, 128 * KIB, 4),
        ),
    ),
)

# Boards that QEMU stands in for.
BOARDS: dict[str, Board] = {board.id: board for board in _BOARDS}

# Boards on a desk. Flash is cut at sectors: code, two slots for saved states, image.
_FLASH = 0x0800_0000
_SRAM = 0x2000_0000
_REAL = (
    Board(
        id="disco_f746ng",
        chip="STM32F746NG",
        cpu="Cortex-M7F",
        core_flags=M7SP,
        hal=("stm32", "stm32flash", "stm32f4f7", "stm32f7"),
        config="disco_f746ng",
        code=Region(_FLASH, 64 * KIB),
        image=Region(_FLASH + 256 * KIB, 768 * KIB),
        image_writable=True,
        ram=Region(_SRAM, 320 * KIB),
        serial="USART1",
        baud=115200,
        store=(Slot(_FLASH + 64 * KIB, 32 * KIB, 2), Slot(_FLASH + 128 * KIB, 128 * KIB, 1)),
        clock_hz=216_000_000,
        flasher=Flasher("stm32f746nghx", "stm32f7x"),
    ),
    Board(
        id="nucleo_h743zi",
        chip="STM32H743ZI",
        cpu="Cortex-M7F",
        core_flags=M7F,
        hal=("stm32", "stm32flash", "stm32h7"),
        config="nucleo_h743zi",
        code=Region(_FLASH, 128 * KIB),
        image=Region(_FLASH + 128 * KIB, 1664 * KIB),
        image_writable=True,
        ram=Region(0x2400_0000, 512 * KIB),
        serial="USART3",
        baud=115200,
        store=(Slot(_FLASH + 1792 * KIB, 128 * KIB, 1), Slot(_FLASH + 1920 * KIB, 128 * KIB, 1)),
        clock_hz=400_000_000,
        flasher=Flasher("stm32h743zitx", "stm32h7x"),
    ),
    Board(
        id="nucleo_f446re",
        chip="STM32F446RE",
        cpu="Cortex-M4F",
        core_flags=M4F,
        hal=("stm32", "stm32flash", "stm32f4f7", "stm32f4"),
        config="nucleo_f446re",
        code=Region(_FLASH, 64 * KIB),
        image=Region(_FLASH + 256 * KIB, 256 * KIB),
        image_writable=True,
        ram=Region(_SRAM, 128 * KIB),
        serial="USART2",
        baud=115200,
        store=(Slot(_FLASH + 64 * KIB, 64 * KIB, 1), Slot(_FLASH + 128 * KIB, 128 * KIB, 1)),
        clock_hz=180_000_000,
        flasher=Flasher("stm32f446retx", "stm32f4x"),
    ),
    Board(
        id="genericSTM32F405RG",
        chip="STM32F405RG",
        cpu="Cortex-M4F",
        core_flags=M4F,
        hal=("stm32", "stm32flash", "stm32f4f7", "stm32f4"),
        config="genericSTM32F405RG",
        code=Region(_FLASH, 64 * KIB),
        image=Region(_FLASH + 256 * KIB, 768 * KIB),
        image_writable=True,
        ram=Region(_SRAM, 128 * KIB),
        serial="USART1",
        baud=115200,
        store=(Slot(_FLASH + 64 * KIB, 64 * KIB, 1), Slot(_FLASH + 128 * KIB, 128 * KIB, 1)),
        clock_hz=168_000_000,
        flasher=Flasher("stm32f405rgtx", "stm32f4x", boot_uart=True, dfu=True),
    ),
    Board(
        id="nucleo_l476rg",
        chip="STM32L476RG",
        cpu="Cortex-M4F",
        core_flags=M4F,
        hal=("stm32", "stm32flash", "stm32l4"),
        config="nucleo_l476rg",
        code=Region(_FLASH, 128 * KIB),
        image=Region(_FLASH + 128 * KIB, 768 * KIB),
        image_writable=True,
        ram=Region(_SRAM, 96 * KIB),
        serial="USART2",
        baud=115200,
        store=(Slot(_FLASH + 896 * KIB, 2 * KIB, 32), Slot(_FLASH + 960 * KIB, 2 * KIB, 32)),
        clock_hz=80_000_000,
        flasher=Flasher("stm32l476rgtx", "stm32l4x"),
    ),
    Board(
        id="genericSTM32F103RE",
        chip="STM32F103RE",
        cpu="Cortex-M3",
        core_flags=M3,
        hal=("stm32", "stm32flash", "stm32f1"),
        config="genericSTM32F103RE",
        code=Region(_FLASH, 64 * KIB),
        image=Region(_FLASH + 64 * KIB, 352 * KIB),
        image_writable=True,
        ram=Region(_SRAM, 64 * KIB),
        serial="USART1",
        baud=115200,
        store=(Slot(_FLASH + 416 * KIB, 2 * KIB, 24), Slot(_FLASH + 464 * KIB, 2 * KIB, 24)),
        clock_hz=72_000_000,
        flasher=Flasher("stm32f103re", "stm32f1x", boot_uart=True),
    ),
)
REAL_BOARDS: dict[str, Board] = {board.id: board for board in _REAL}
ALL_BOARDS: dict[str, Board] = BOARDS | REAL_BOARDS


def get_board(board_id: str) -> Board:
    """The board with this id.

    Raises:
        UsageError: there is no such board; the message lists those there are.
    """
    try:
        return ALL_BOARDS[board_id]
    except KeyError:
        raise UsageError(
            "unknown board",
            where=board_id,
            hint="use one of " + ", ".join(ALL_BOARDS),
        ) from None
