"""The kernels of an emulated board behind the same names as those compiled for the host.

`BoardKernels` has `ffi` and `lib` as the module of the host's kernels, so tests/kernels/bridge.py
runs on either. Arrays given to `share` are copied to the board, calls go there, `fetch` brings
the arrays back.
"""

from __future__ import annotations

import struct
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from mcutrain.boards.build import build_firmware
from mcutrain.boards.emulate import EmulatedBoard
from mcutrain.boards.table import Board

APP = Path(__file__).parent / "fw_kernels"
# The order is that of call() in fw_kernels/main.c, which takes ARGS words.
KERNELS = (
    "mct_conv2d_rows_s8",
    "mct_conv2d_dx_s8",
    "mct_conv2d_dw_s8",
    "mct_conv2d_db_s8",
    "mct_add_s8",
    "mct_avgpool_row_s8",
    "mct_avgpool_dx_s8",
    "mct_rescale_s8",
    "mct_depthwise_dx_inplace_s8",
)
ARGS = 7
_STRUCTS_BYTES = 1024  # at the end of the board's memory, for parameters
_TIMEOUT_S = 60.0


class BoardKernels:
    """Kernels of an emulated board.

    Args:
        board: a board of the table.
        host: the kernels compiled for the host, whose types and inline functions are used.

    Attributes:
        count: instructions executed by kernels since it was set to 0.
    """

    def __init__(self, board: Board, host: ModuleType) -> None:
        self.ffi, self._host = host.ffi, host.lib
        self.board_id = board.id
        self.lib = self
        self.count = 0.0
        assert board.emulation is not None
        self._scale = board.emulation.counter_num / board.emulation.counter_den
        self._port = EmulatedBoard(board, build_firmware(board, app=APP).elf)
        try:
            assert self._read(1) == b"!"
            self._port.write(b"P")
            self._base, self._size = struct.unpack("<II", self._read(8))
        except BaseException:
            self._port.close()
            raise
        self._shared: list[tuple[int, int, np.ndarray[Any, Any]]] = []

    def close(self) -> None:
        self._port.close()

    def share(self, arrays: list[np.ndarray[Any, Any]]) -> None:
        """Copies arrays to the board, in place of those of the last time."""
        self._shared = []
        at = self._base
        for array in arrays:
            self._shared.append((at, array.ctypes.data, array))
            self._send(at, array.tobytes())
            at += -(-array.nbytes // 16) * 16
        assert at <= self._structs, "the case does not fit into the board's memory"

    def fetch(self) -> None:
        """Copies the shared arrays back."""
        for at, _, array in self._shared:
            array.reshape(-1).view(np.uint8)[:] = np.frombuffer(self._get(at, array.nbytes), "u1")

    def __getattr__(self, name: str) -> Any:
        if name not in KERNELS:
            return getattr(self._host, name)
        return lambda *arguments: self._call(KERNELS.index(name), arguments)

    @property
    def _structs(self) -> int:
        return self._base + self._size - _STRUCTS_BYTES

    def _call(self, kernel: int, arguments: tuple[Any, ...]) -> None:
        words, results = [], []
        at = self._structs
        for argument in arguments:
            if isinstance(argument, int):
                words.append(argument)
            elif self._is_struct(argument):
                data = self._pack(self.ffi.typeof(argument).item, argument[0])
                self._send(at, data)
                words.append(at)
                results.append((argument, at, len(data)))
                at += -(-len(data) // 8) * 8
            else:
                words.append(self._address(argument))
        words += [0] * (ARGS - len(words))
        self._port.write(b"K" + struct.pack(f"<{1 + ARGS}I", kernel, *words))
        result, ticks = struct.unpack("<II", self._read(8))
        assert result == 0
        self.count += ticks * self._scale
        for argument, place, size in results:
            if "stats" in self.ffi.typeof(argument).cname:
                fields = [name for name, _ in self.ffi.typeof(argument).item.fields]
                values = struct.unpack(f"<{size // 4}I", self._get(place, size))
                for name, value in zip(fields, values, strict=True):
                    setattr(argument, name, value)

    def _is_struct(self, argument: Any) -> bool:
        kind = self.ffi.typeof(argument)
        return bool(kind.kind == "pointer" and kind.item.kind == "struct")

    def _address(self, pointer: Any) -> int:
        """Where the board has what the host has at a pointer."""
        if pointer == self.ffi.NULL:
            return 0
        host = int(self.ffi.cast("uintptr_t", pointer))
        for at, start, array in self._shared:
            if start <= host < start + max(array.nbytes, 1):
                return at + host - start
        raise AssertionError("a pointer to something that was not shared")

    def _pack(self, kind: Any, value: Any) -> bytes:
        """A struct as the board's compiler lays it out: pointers have 4 bytes."""
        data, largest = b"", 1
        for name, field in kind.fields:
            part, align = self._pack_field(field.type, getattr(value, name))
            data += bytes(-len(data) % align) + part
            largest = max(largest, align)
        return data + bytes(-len(data) % largest)

    def _pack_field(self, kind: Any, value: Any) -> tuple[bytes, int]:
        if kind.kind == "struct":
            return self._pack(kind, value), self._alignment(kind)
        if kind.kind == "pointer":
            return struct.pack("<I", self._address(value)), 4
        size = self.ffi.sizeof(kind)
        number = int(value) % (1 << 8 * size)
        return number.to_bytes(size, "little"), size

    def _alignment(self, kind: Any) -> int:
        if kind.kind == "struct":
            return max(self._alignment(field.type) for _, field in kind.fields)
        return 4 if kind.kind == "pointer" else int(self.ffi.sizeof(kind))

    def _send(self, address: int, data: bytes) -> None:
        self._port.write(b"W" + struct.pack("<II", address, len(data)) + data)

    def _get(self, address: int, n: int) -> bytes:
        self._port.write(b"R" + struct.pack("<II", address, n))
        return self._read(n)

    def _read(self, n: int) -> bytes:
        data = b""
        deadline = time.monotonic() + _TIMEOUT_S
        while len(data) < n and time.monotonic() < deadline:
            data += self._port.read(0.5)
        assert len(data) == n, f"{len(data)} of {n} bytes"
        return data
