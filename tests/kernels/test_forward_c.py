"""Forward kernels: results worked out by hand, the definition as loops, and invariances."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

I8 = npt.NDArray[np.int8]
ONE = {"mult": 2**30, "shift": 2}  # a multiplier of exactly 1


def shape(h: int, w: int, c: int) -> dict[str, int]:
    return {"h": h, "w": w, "c": c}


def window(kh: int, kw: int, s: int = 1, pad: int = 0) -> dict[str, int]:
    return {"kh": kh, "kw": kw, "sh": s, "sw": s, "pt": pad, "pl": pad}


def outputs(n: int, k: int, s: int, pad: int) -> int:
    return (n + 2 * pad - k) // s + 1


class Conv:
    """A convolution over a whole map, row by row; weights (C_out, kh, kw, C_in / groups)."""

    def __init__(
        self,
        x: I8,
        w: I8,
        *,
        stride: int = 1,
        pad: int = 0,
        groups: int = 1,
        z: tuple[int, int] = (0, 0),
        bias: list[int] | None = None,
    ) -> None:
        self.x, self.w, self.groups, self.z = x, w, groups, z
        c_out, kh, kw, _ = w.shape
        self.window = window(kh, kw, stride, pad)
        out = [outputs(n, k, stride, pad) for n, k in zip(x.shape, (kh, kw), strict=False)]
        self.y_shape = (*out, c_out)
        self.bias = np.array(bias or [0] * c_out, np.int32)
        self.mult = np.full(c_out, ONE["mult"], np.int32)
        self.shift = np.full(c_out, ONE["shift"], np.uint8)
        self.trained: I8 | None = None
        self.frozen: I8 | None = w
        self.perm: npt.NDArray[np.uint16] | None = None

    def split(self, perm: list[int], trained: int) -> None:
        """Cut into two blocks, the first `trained` places of perm in the first."""
        self.perm = np.array(perm, np.uint16)
        axis = 0 if self.groups > 1 else 3
        ordered = np.take(self.w, perm, axis=axis)
        parts = np.split(ordered, [trained], axis=axis)
        self.trained, self.frozen = (np.ascontiguousarray(p) for p in parts)

    def struct(self, k: Any) -> Any:
        trained = 0
        if self.trained is not None:
            trained = self.trained.shape[0 if self.groups > 1 else 3]
        return k.struct(
            "mct_conv2d",
            conv={
                "x": shape(*self.x.shape),
                "y": shape(*self.y_shape),
                "win": self.window,
                "groups": self.groups,
                "trained": trained,
                "w_trained": self.trained,
                "w_frozen": self.frozen,
                "perm": self.perm,
            },
            bias=self.bias,
            mult=self.mult,
            shift=self.shift,
            z_x=self.z[0],
            z_y=self.z[1],
            lo=-128,
            hi=127,
        )

    def run(self, k: Any, order: list[int] | None = None) -> tuple[I8, npt.NDArray[np.uint8]]:
        y = np.zeros(self.y_shape, np.int8)
        mask = np.zeros((y.size + 7) // 8, np.uint8)
        p, rows = self.struct(k), k.rows(self.x)
        for oy in order or range(self.y_shape[0]):
            k.lib.mct_conv2d_row_s8(p, rows, oy, k.array(y[oy]), k.array(mask))
        return y, mask


def random_conv(seed: int, c_in: int, c_out: int, groups: int, **kwargs: Any) -> Conv:
    rng = np.random.default_rng(seed)
    x = rng.integers(-128, 128, (7, 5, c_in), np.int8)
    w = rng.integers(-127, 128, (c_out, 3, 3, c_in // groups), np.int8)
    conv = Conv(x, w, groups=groups, stride=2, pad=1, z=(-7, 5), **kwargs)
    conv.mult[:] = rng.integers(2**15, 2**26, c_out)
    conv.shift[:] = 0
    conv.bias[:] = rng.integers(-30000, 30000, c_out)
    return conv


def test_t39_convolution_by_hand(kernels: Any) -> None:
    x = np.arange(1, 10, dtype=np.int8).reshape(3, 3, 1)
    w = np.array([[1, 0], [0, -1]], np.int8).reshape(1, 2, 2, 1)
    y, mask = Conv(x, w, bias=[10]).run(kernels)
    # 1 - 5, 2 - 6, 4 - 8, 5 - 9, each + 10
    assert y.reshape(-1).tolist() == [6, 6, 6, 6]
    assert mask.tolist() == [0b1111]


def test_t39_two_channels_by_hand(kernels: Any) -> None:
    x = np.array([[[1, 2], [3, 4]]], np.int8)  # one row of two pixels
    w = np.array([[10, 1], [-1, 5]], np.int8).reshape(2, 1, 1, 2)
    y, mask = Conv(x, w, z=(0, 3)).run(kernels)
    assert y.tolist() == [[[15, 12], [37, 20]]]
    assert mask.tolist() == [0b1111]


def test_padding_reads_the_zero_point(kernels: Any) -> None:
    """Nine taps of weight 1: four inside at a corner, five that read z_x = 7."""
    x = np.full((2, 2, 1), 1, np.int8)
    y, _ = Conv(x, np.ones((1, 3, 3, 1), np.int8), pad=1, z=(7, 0)).run(kernels)
    assert y.reshape(-1).tolist() == [4 * 1 + 5 * 7] * 4


def test_mask_is_of_the_value_before_the_clamp(kernels: Any) -> None:
    x = np.array([127, 127, -128, -128], np.int8).reshape(1, 4, 1)
    y, mask = Conv(x, np.ones((1, 1, 1, 1), np.int8), bias=[1]).run(kernels)
    assert y.reshape(-1).tolist() == [127, 127, -127, -127]
    assert mask.tolist() == [0b1100]
    y, mask = Conv(x, np.ones((1, 1, 1, 1), np.int8), bias=[-1]).run(kernels)
    assert y.reshape(-1).tolist() == [126, 126, -128, -128]
    assert mask.tolist() == [0b0011]


def test_degenerate_and_extreme_channels(kernels: Any) -> None:
    x = np.full((1, 1, 3), -128, np.int8)
    conv = Conv(x, np.full((2, 1, 1, 3), -127, np.int8), bias=[2**31 - 1 - 3 * 128 * 127, 0])
    conv.mult[:], conv.shift[:] = [2**31 - 1, 0], [0, 0]
    y, mask = conv.run(kernels)
    assert y.reshape(-1).tolist() == [127, 0]
    assert mask.tolist() == [0b10]


@pytest.mark.parametrize(
    ("c_in", "c_out", "groups"),
    [(1, 1, 1), (3, 5, 1), (4, 8, 1), (6, 4, 2), (6, 12, 6), (5, 5, 5), (8, 8, 8), (257, 2, 1)],
)
def test_convolution_equals_its_definition(
    kernels: Any, c_in: int, c_out: int, groups: int
) -> None:
    conv = random_conv(c_in, c_in, c_out, groups)
    y, mask = conv.run(kernels)
    bits = np.unpackbits(mask, bitorder="little")
    padded = np.pad(conv.x.astype(int), ((1, 2), (1, 2), (0, 0)), constant_values=-7)
    for flat, (oy, ox, o) in enumerate(np.ndindex(*y.shape)):
        c0 = o // (c_out // groups) * (c_in // groups)
        taps = padded[2 * oy : 2 * oy + 3, 2 * ox : 2 * ox + 3, c0 : c0 + c_in // groups]
        acc = int(conv.bias[o]) + int((taps * conv.w[o].astype(int)).sum())
        p = 5 + ((acc * int(conv.mult[o]) + 2**31) >> 32)
        assert y[oy, ox, o] == max(-128, min(127, p)), (oy, ox, o)
        assert bits[flat] == (-128 <= p <= 127), (oy, ox, o)
    assert 0 < bits.sum() < y.size or c_in == 1


@pytest.mark.parametrize(
    ("c_in", "c_out", "groups", "trained"),
    [(7, 3, 1, 2), (9, 9, 1, 5), (7, 7, 7, 3), (10, 10, 10, 6)],
)
def test_two_blocks_of_weights_give_the_same_bytes(
    kernels: Any, c_in: int, c_out: int, groups: int, trained: int
) -> None:
    conv = random_conv(5, c_in, c_out, groups)
    expected = conv.run(kernels)
    conv.split(np.random.default_rng(6).permutation(c_in).tolist(), trained)
    for a, b in zip(conv.run(kernels), expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("groups", [1, 6])
def test_rows_in_any_order_give_the_same_bytes(kernels: Any, groups: int) -> None:
    """Mask bits of neighbouring rows share bytes: 3 * 6 bits a row."""
    conv = random_conv(8, 6, 6, groups)
    expected = conv.run(kernels)
    assert expected[0].shape == (4, 3, 6)
    for order in ([3, 2, 1, 0], [1, 3, 0, 2], [0, 0, 1, 2, 3, 1]):
        for a, b in zip(conv.run(kernels, order), expected, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("groups", [1, 6])
def test_a_ring_of_rows_gives_the_same_bytes(kernels: Any, groups: int) -> None:
    """Three rows are kept; each is overwritten as soon as no later window needs it."""
    conv = random_conv(9, 6, 6, groups)
    expected, _ = conv.run(kernels)
    ring = np.full((3, 5, 6), 99, np.int8)
    y = np.zeros_like(expected)
    p, rows = conv.struct(kernels), kernels.rows(ring)
    arrived = 0
    for oy in range(y.shape[0]):
        for _ in range(arrived, min(2 * oy - 1 + 3, 7)):
            ring[arrived % 3] = conv.x[arrived]
            arrived += 1
        kernels.lib.mct_conv2d_row_s8(p, rows, oy, kernels.array(y[oy]), kernels.ffi.NULL)
    np.testing.assert_array_equal(y, expected)


def pool(k: Any, x: I8, win: dict[str, int], y: tuple[int, int], **fields: Any) -> Any:
    return k.struct("mct_pool", x=shape(*x.shape), y=shape(*y, x.shape[2]), win=win, **fields)


@pytest.mark.parametrize(
    ("values", "expected"),
    [([-2, -3], -2), ([-3, -4], -3), ([2, 3], 3), ([-1, 0], 0), ([127, 127], 127)],
)
def test_t43_average_of_negatives_rounds_half_up(
    kernels: Any, values: list[int], expected: int
) -> None:
    """-2.5 gives -2 and 2.5 gives 3: floor(v + 0.5), not away from zero."""
    x = np.array(values, np.int8).reshape(1, 2, 1)
    y = np.zeros(1, np.int8)
    p = pool(kernels, x, window(1, 2), (1, 1), z_x=0, mult=2**30, shift=1)  # m = 1/2
    kernels.lib.mct_avgpool_row_s8(p, kernels.rows(x), 0, kernels.array(y))
    assert y[0] == expected


def test_average_counts_padding_as_the_zero_point(kernels: Any) -> None:
    x = np.array([[10, 20], [30, 40]], np.int8).reshape(2, 2, 1)
    y = np.zeros((2, 2), np.int8)
    p = pool(kernels, x, window(2, 2, pad=1), (2, 2), z_x=2, mult=2**30, shift=0)  # m = 1/4
    for oy in range(2):
        kernels.lib.mct_avgpool_row_s8(p, kernels.rows(x), oy, kernels.array(y[oy]))
    # (10 + 3 * 2) / 4; (10 + 20 + 2 * 2) / 4 = 8.5; (10 + 30 + 2 * 2) / 4; 100 / 4
    assert y.tolist() == [[4, 9], [11, 25]]


def test_maximum_is_of_inside_taps_and_the_first(kernels: Any) -> None:
    x = np.array([[-128, -5], [-5, -128]], np.int8).reshape(2, 2, 1)
    y, index = np.zeros((2, 2), np.int8), np.zeros((2, 2), np.uint8)
    p = pool(kernels, x, window(2, 2, pad=1), (2, 2))
    for oy in (1, 0):
        rows = kernels.rows(x)
        kernels.lib.mct_maxpool_row_s8(p, rows, oy, kernels.array(y[oy]), kernels.array(index[oy]))
    assert y.tolist() == [[-128, -5], [-5, -5]]
    assert index.tolist() == [[3, 3], [3, 1]]
    kernels.lib.mct_maxpool_row_s8(p, kernels.rows(x), 0, kernels.array(y[0]), kernels.ffi.NULL)


def test_add_by_hand_and_in_place(kernels: Any) -> None:
    a = np.array([10, -10, 127, -128, 1], np.int8)
    b = np.array([4, 5, 127, -128, 2], np.int8)
    mask = np.array([0xFF, 0xFF], np.uint8)
    # y = 1 + (1 * (a - 0) + 0.5 * (b - 2)), n = 4
    p = kernels.struct(
        "mct_add", n=5, mult_a=16, mult_b=8, shift=4, z_a=0, z_b=2, z_y=1, lo=-128, hi=127
    )
    kernels.lib.mct_add_s8(p, *map(kernels.array, (a, b, a, mask)), 6)
    assert a.tolist() == [12, -7, 127, -128, 2]  # -7.5 is rounded up
    assert mask.tolist() == [0b11111111, 0b11111100]


def test_rescale_writes_its_channels_and_their_bits(kernels: Any) -> None:
    x = np.array([[3, -128], [-3, 127]], np.int8)
    y = np.full((2, 3), 55, np.int8)
    mask = np.zeros(1, np.uint8)
    p = kernels.struct(
        "mct_rescale",
        pixels=2,
        c_x=2,
        c_y=3,
        c0=1,
        mult=2**30,
        shift=0,
        z_x=1,
        z_y=-1,
        lo=-20,
        hi=99,
    )
    kernels.lib.mct_rescale_s8(p, *map(kernels.array, (x, y, mask)), 0)
    # -1 + (x - 1) / 4: 0.5 -> 1, -32.25, -1, 31.5 -> 32
    assert y.tolist() == [[55, 0, -20], [55, -2, 31]]
    assert mask.tolist() == [0b110010]


def test_gather(kernels: Any) -> None:
    x = np.arange(8, dtype=np.int8).reshape(2, 4)
    y = np.zeros((2, 3), np.int8)
    p = kernels.struct("mct_gather", pixels=2, c_x=4, c_y=3, chan=np.array([3, 0, 3], np.uint16))
    kernels.lib.mct_gather_s8(p, kernels.array(x), kernels.array(y))
    assert y.tolist() == [[3, 0, 3], [7, 4, 7]]
