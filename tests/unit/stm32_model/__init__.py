"""STM32 drivers compiled for this machine, with the registers of a Python model under them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import cffi

from mcutrain.boards.table import Board, Slot

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
HAL = ROOT / "firmware" / "hal"
FLASH_BASE = 0x0800_0000
CLOCK_TURNS = 1000  # instead of 100,000: each is a call into Python

CDEF = """
extern uint32_t (*model_read)(uint32_t address);
extern void (*model_write)(uint32_t address, uint32_t value, uint32_t bytes);
extern void (*model_barrier)(void);
extern void (*model_event)(const char *what);
extern int (*model_faults)(uint32_t address, uint32_t n);
extern uint8_t model_flash[2097152];
uint32_t mct_clock_start(void);
void mct_pins_start(void);
int mct_flash_erase(uint32_t address);
int mct_flash_program(uint32_t address, const uint8_t *src);
int mct_flash_read(uint32_t address, uint8_t *dst, uint32_t n);
uint32_t mct_flash_sector(uint32_t address);
int mct_hal_flash_write(uint32_t offset, const uint8_t *src, uint32_t n, _Bool last);
typedef struct { uint32_t valid, sequence, image_crc, state_bytes, state_crc; } mct_store_record;
typedef struct {
    const void *device; mct_store_record records[2]; uint32_t erasures[2];
} mct_store;
const void *mct_hal_store(void);
void mct_store_open(mct_store *store, const void *device);
uint32_t mct_store_capacity(const mct_store *store);
int mct_store_load(const mct_store *store, uint32_t image_crc, uint8_t *state, uint32_t bytes);
int mct_store_save(mct_store *store, uint32_t image_crc, const uint8_t *state, uint32_t bytes);
"""

NMI_CDEF = "void mct_nmi_handler(void);"


class Model(Protocol):
    """Registers: what a read gives, what a write does; and whether reading memory faults."""

    def read(self, address: int) -> int: ...
    def write(self, address: int, value: int, nbytes: int) -> None: ...
    def event(self, what: str) -> None: ...
    def faults(self, address: int, n: int) -> bool: ...


class Drivers:
    """The compiled drivers of a board."""

    def __init__(self, board: Board, folder: Path) -> None:
        self.board = board
        target = folder / f"{board.config}.so"
        _compile(board, target)
        self.ffi = cffi.FFI()
        self.ffi.cdef(CDEF + (NMI_CDEF if board.hal[-1] == "stm32l4" else ""))
        self.lib: Any = self.ffi.dlopen(str(target))
        self.flash = self.ffi.buffer(self.lib.model_flash)
        self._keep: list[object] = []

    def attach(self, model: Model) -> None:
        """Puts a model under the registers and erased flash under the memory."""
        self.flash[:] = b"\xff" * len(self.flash)
        self.failure: BaseException | None = None
        events: dict[str, tuple[str, Callable[..., Any]]] = {
            "model_read": ("uint32_t(uint32_t)", model.read),
            "model_write": ("void(uint32_t, uint32_t, uint32_t)", model.write),
            "model_barrier": ("void(void)", lambda: model.event("barrier")),
            "model_event": ("void(char *)", lambda s: model.event(self.ffi.string(s).decode())),
            "model_faults": ("int(uint32_t, uint32_t)", model.faults),
        }
        self._keep = [self.ffi.callback(c, f, onerror=self._failed) for c, f in events.values()]
        for name, callback in zip(events, self._keep, strict=True):
            setattr(self.lib, name, callback)

    def call(self, name: str, *arguments: Any) -> Any:
        """Calls a driver; an assertion that failed in the model fails here."""
        result = getattr(self.lib, name)(*arguments)
        if self.failure is not None:
            raise self.failure
        return result

    def _failed(self, _kind: object, error: BaseException, _trace: object) -> None:
        self.failure = self.failure or error


def _compile(board: Board, target: Path) -> None:
    dirs = [HAL / name for name in board.hal]
    sources = [file for d in dirs for file in d.glob("*.c") if file.name != "stm32.c"]
    store = ROOT / "firmware" / "store"
    kernels = ROOT / "kernels_c"
    sources += [HERE / "model.c", *store.glob("*.c"), kernels / "src" / "runtime" / "mct_crc32.c"]
    includes = [HERE, *dirs, HAL, HAL / "cortexm", store, kernels / "include"]
    includes.append(ROOT / "firmware" / "boards" / board.config)
    flags = ["-std=c99", "-O1", "-g", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]
    flags += ["-fsanitize=undefined", "-fno-sanitize-recover=undefined"]
    flags += [f"-DMCT_CLOCK_TURNS={CLOCK_TURNS}u"]
    # First, so that its guard leaves out the real one, which lies beside stm32.h.
    flags += ["-include", str(HERE / "mct_reg.h"), *(f"-I{d}" for d in includes)]
    for number, slot in enumerate(board.store or (Slot(0, 0, 0), Slot(0, 0, 0))):
        flags.append(f"-DMODEL_SLOT_{number}={{{slot.base},{slot.sector},{slot.sectors}}}")
    flags.append(f"-DMODEL_IMAGE={board.image.base}")
    flags.append(f"-DMODEL_IMAGE_END={board.image.end}")
    subprocess.run(["gcc", *flags, *map(str, sources), "-o", str(target)], check=True)
