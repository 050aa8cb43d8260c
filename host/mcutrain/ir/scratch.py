"""How much scratch memory the C kernels make use of: kernels_c/include/mct_scratch.h once more.

It is the same for every core, so that an image runs everywhere. With less, down to none, a kernel
gives the same result in more time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from mcutrain.ir.program import Instr, Value

LANES = PLANES = 4
TABLE_TAIL = 10
PADDED_BYTES_MAX = 1024
PLANES_BYTES_MAX = 2048
DX_BYTES_MAX = DW_BYTES_MAX = 4096
WIDE_WEIGHTS = 24


class _Conv(NamedTuple):
    """A convolution's geometry: input and output map, window, blocks of weights."""

    x: tuple[int, int, int]
    y: tuple[int, int, int]
    kh: int
    kw: int
    sh: int
    sw: int
    groups: int
    trained: int
    two_blocks: bool

    @property
    def taps(self) -> int:
        return self.kh * self.kw

    @property
    def planes(self) -> bool:
        """Whether there is a kernel for it that unpacks channels into planes."""
        depthwise = 1 < self.groups == self.x[2] == self.y[2]
        return depthwise and _fits_planes(self.kh, self.kw, self.sw) and self.x[2] % PLANES == 0


def scratch_bytes(
    values: Mapping[str, Value], instr: Instr, rows: int | None = None, unpacked: bool = True
) -> int:
    """Bytes of scratch memory with which an instruction is fastest; 0 if it needs none.

    Args:
        values: the program's values.
        instr: the instruction.
        rows: of a conv2d, how many rows of its output are made at a time; all by default.
        unpacked: of a conv2d_dx without groups, whether there is room for its errors, too: without,
            it takes a sixth longer.
    """
    if instr.op == "conv2d":
        conv = _conv(values, instr, "x", "y")
        return _forward(conv, instr, conv.y[0] if rows is None else rows)
    if instr.op == "conv2d_dx":
        return _dx(_conv(values, instr, "e_x", "e_y"), unpacked)
    if instr.op == "conv2d_dw":
        return _dw(values, instr)
    return 0


def _conv(values: Mapping[str, Value], instr: Instr, x: str, y: str) -> _Conv:
    shapes = {slot: values[name].shape for slot, name in instr.operands.items()}
    kh, kw, sh, sw, groups = (instr.params[name] for name in ("kh", "kw", "sh", "sw", "groups"))
    trained = 0
    if "w_trained" in shapes:
        depthwise = 1 < groups == shapes[x][2] == shapes[y][2]
        trained = shapes["w_trained"][0 if depthwise else 2]
    return _Conv(shapes[x], shapes[y], kh, kw, sh, sw, groups, trained, "perm" in shapes)


def _fits_planes(kh: int, kw: int, sw: int) -> bool:
    return kh == kw and kw in (3, 5, 7) and sw in (1, 2)


def _most_rows(rows: int, need: Callable[[int], int], most: int) -> int:
    """Of so many rows as many as need at most so many bytes, at least 1."""
    while rows > 1 and need(rows) > most:
        rows -= 1
    return rows


def _quads(n: int) -> int:
    return -(-n // 4)


def _dense(conv: _Conv) -> tuple[int, int, int]:
    """Bytes of a window's elements, of one lane, and of weights padded to whole quads."""
    trained = conv.taps * conv.trained
    frozen = conv.taps * (conv.x[2] - conv.trained)
    lane = 8 * (_quads(trained) + _quads(frozen))
    window = 4 * _quads(max(trained, frozen)) if conv.taps > 1 or conv.two_blocks else 0
    padded = 4 * _quads(trained + frozen) * conv.y[2]
    one_block = trained == 0 or frozen == 0
    ragged = one_block and (trained + frozen) % 4 != 0 and padded <= PADDED_BYTES_MAX
    return window, lane, padded if ragged else 0


def _table_words(kw: int, sw: int) -> int:
    packed = kw - 1 if sw == 1 else (kw + 1) // 2
    return 1 + kw * packed + TABLE_TAIL


def _planes(outputs: int, rows: int, conv: _Conv, sh: int, sw: int, sums: bool) -> int:
    width = 4 * _quads(outputs)
    pitch = width * sw + conv.kw - 1
    inputs = (rows - 1) * sh + conv.kh
    words = _table_words(conv.kw, sw) + (width if sums else 0)
    return PLANES * (4 * words + 2 * inputs * pitch)


def _forward(conv: _Conv, instr: Instr, rows: int) -> int:
    if conv.groups == 1:
        window, lane, weights = _dense(conv)
        return window + lane if rows * conv.y[1] == 1 else window + LANES * lane + weights
    if not conv.planes:
        return 0
    clamped = (instr.params["lo"], instr.params["hi"]) != (-128, 127)
    sums = clamped or "mask" in instr.operands or conv.y[1] % 4 != 0

    def need(rows: int) -> int:
        return _planes(conv.y[1], rows, conv, conv.sh, conv.sw, sums)

    return need(_most_rows(rows, need, PLANES_BYTES_MAX))


def _dx(conv: _Conv, unpacked: bool) -> int:
    if conv.groups == 1:
        h, w, c = conv.y
        lanes, one = 2 * conv.taps * 4 * LANES * _quads(c), 8 * _quads(c)
        if not unpacked or conv.taps * conv.x[2] < WIDE_WEIGHTS:
            return lanes
        return lanes + one * min(max(0, DX_BYTES_MAX - lanes) // one, h * w)
    if not conv.planes or conv.sh > 2:
        return 0
    sy = 1 if conv.sw == 1 else conv.sh
    height, taps = -(-conv.x[0] // sy), -(-conv.kh // sy)
    groups = _quads(-(-conv.x[1] // conv.sw))
    width = max(3, -(-conv.kw // conv.sw))

    def need(rows: int, sums: int) -> int:
        words = 1 + taps * (width - 1) + TABLE_TAIL + 4 * sums
        pitch = 4 * groups + width // 2 * 2
        return PLANES * (4 * words + 2 * (rows - 1 + taps) * pitch)

    rows = _most_rows(height, partial(need, sums=groups), PLANES_BYTES_MAX)
    return need(rows, max(rows, groups))


def _dw(values: Mapping[str, Value], instr: Instr) -> int:
    h, w, c = values[instr.operands["e_y"]].shape
    rows, taps, cols = values[instr.operands["w"]].shape
    kh, kw, sh, sw, groups = (instr.params[name] for name in ("kh", "kw", "sh", "sw", "groups"))
    if 1 < groups == c and cols == 1 and rows >= PLANES and _fits_planes(kh, kw, sw):
        return _dw_planes(h, w, kh, kw, sh, sw)
    if groups != 1:
        return 0
    quads = _quads(h * w)
    if quads * (16 + 32) > DW_BYTES_MAX:
        return 0
    fit, vectors = (DW_BYTES_MAX // quads - 16) // 32, taps * _quads(cols)
    changes = 16 * _quads(rows) if fit < vectors else 0
    return quads * (16 + 32 * min(fit, vectors)) + changes


def _dw_planes(h: int, w: int, kh: int, kw: int, sh: int, sw: int) -> int:
    def need(rows: int) -> int:
        inputs, pitch = (rows - 1) * sh + kh, 4 * _quads(w) * sw + kw - 1
        return PLANES * (4 * kh * kw + 8 * _quads(w) * rows + 2 * inputs * pitch)

    return need(_most_rows(h, need, DW_BYTES_MAX))
