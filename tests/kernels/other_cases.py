"""Cases of every instruction that is not a convolution."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.kernels.cases import Case

from mcutrain.ir import arith

Shape = tuple[int, int, int]
ZEROS = (-128, -5, 0, 13, 127)
MAPS: tuple[Shape, ...] = ((1, 1, 1), (3, 5, 3), (2, 2, 257), (7, 6, 5))

# Map; kernel high and wide; stride down and right; padding on top, left, bottom, right.
WINDOWS: tuple[tuple[Shape, tuple[int, int], tuple[int, int], tuple[int, int, int, int]], ...] = (
    ((1, 1, 1), (1, 1), (1, 1), (0, 0, 0, 0)),
    ((7, 7, 5), (7, 7), (1, 1), (0, 0, 0, 0)),  # global
    ((7, 6, 3), (2, 2), (2, 2), (0, 0, 0, 0)),
    ((7, 6, 3), (3, 3), (1, 1), (1, 1, 1, 1)),  # windows overlap
    ((15, 16, 2), (3, 3), (2, 2), (1, 1, 1, 1)),
    ((5, 6, 257), (2, 3), (2, 1), (1, 2, 0, 1)),
    ((9, 7, 1), (5, 5), (3, 2), (1, 4, 3, 2)),  # four different pads
    ((8, 5, 2), (1, 3), (3, 1), (0, 1, 0, 1)),  # rows between the windows are never read
    ((20, 13, 2), (17, 15), (1, 1), (8, 7, 8, 7)),  # 255 taps
)


def _window(case: Case, spec: Any) -> Shape:
    """Sets the window's parameters; returns the output's shape."""
    (h, w, c), (kh, kw), (sh, sw), (top, left, bottom, right) = spec
    names = ("kh", "kw", "sh", "sw", "pt", "pl")
    case.params |= dict(zip(names, (kh, kw, sh, sw, top, left), strict=True))
    return (h + top + bottom - kh) // sh + 1, (w + left + right - kw) // sw + 1, c


def add(
    shape: Shape, scales: tuple[float, float, float], zeros: tuple[int, int, int], **more: Any
) -> Case:
    """T34: any scales and zero points."""
    lo, hi, rail, mask = (more.get(k, d) for k, d in zip(_ADD, (-128, 127, 0, True), strict=True))
    case = Case("add", (shape, scales, zeros, lo, hi, rail, mask))
    mult_a, mult_b, n = arith.add_constants(*scales)
    case.params = {"mult_a": mult_a, "mult_b": mult_b, "n": n, "lo": lo, "hi": hi}
    for slot, zero in zip("ab", zeros, strict=False):
        x = np.full(shape, rail, np.int8) if rail else case.int8(*shape)
        case.put(slot, "s8", x, shape, zero_point=zero)
    case.out("y", "s8", shape, zero_point=zeros[2])
    if mask:
        case.out("mask", "bits", shape)
    return case


_ADD = ("lo", "hi", "rail", "mask")
_SCALES = ((0.02, 0.03, 0.025), (1.0, 1e-9, 1.0), (0.9, 0.8, 1e-5), (3e-5, 2e-5, 1.0))
ADD = [
    *(add(s, _SCALES[0], (-5, 13, 4)) for s in MAPS),
    *(add((3, 5, 3), s, z) for s in _SCALES for z in ((-128, 127, 0), (127, -128, 13))),
    *(add((3, 5, 3), (0.02, 0.02, 0.02), (-5, 3, z), rail=r) for z in ZEROS for r in (-128, 127)),
    add((3, 5, 3), _SCALES[0], (1, 2, -128), lo=-128, hi=-70),
    add((3, 5, 3), _SCALES[0], (1, 2, 3), lo=3, hi=3, mask=False),
]


def rescale(
    shape: Shape, ratio: float, zeros: tuple[int, int], c0: int, c_y: int, **kw: Any
) -> Case:
    """T32: a clamp under any zero point; channels c0 and up of c_y."""
    lo, hi, mask = kw.get("lo", -128), kw.get("hi", 127), kw.get("mask", True)
    case = Case("rescale", (shape, ratio, zeros, c0, c_y, lo, hi, mask))
    mult, shift = (int(v) for v in arith.multiplier(ratio))
    case.params = {"mult": mult, "shift": shift, "lo": lo, "hi": hi, "c0": c0}
    y = (*shape[:2], c_y)
    case.put("x", "s8", case.int8(*shape), shape, zero_point=zeros[0])
    case.out("y", "s8", y, zero_point=zeros[1])
    if mask:
        case.out("mask", "bits", y)
    return case


RESCALE = [
    *(rescale(s, 0.8, (-5, 13), 0, s[2]) for s in MAPS),
    *(rescale((3, 5, 3), r, (-128, 4), 0, 3) for r in (1.0, 0.01, 1e-12, 3.5, 60.0)),
    *(rescale((3, 5, 3), 1.0, (z, z), 0, 3, lo=z, hi=127) for z in ZEROS),
    *(rescale((3, 5, 3), 0.7, (3, 5), c0, 11) for c0 in (0, 2, 8)),
    rescale((3, 5, 3), 0.7, (3, 5), 1, 5, mask=False),
]


def avgpool(spec: Any, zero: int, rail: int | None = None) -> Case:
    case = Case("avgpool", (spec, zero, rail))
    y = _window(case, spec)
    x = case.int8(*spec[0]) if rail is None else np.full(spec[0], rail, np.int8)
    case.put("x", "s8", x, spec[0], zero_point=zero)
    mult, shift = (int(v) for v in arith.multiplier(1 / (spec[1][0] * spec[1][1])))
    case.params |= {"mult": mult, "shift": shift}
    case.out("y", "s8", y, zero_point=zero)
    return case


def maxpool(spec: Any, index: bool = True, rail: int | None = None) -> Case:
    """With a rail all taps tie: the first one inside the map must win."""
    case = Case("maxpool", (spec, index, rail))
    y = _window(case, spec)
    x = case.int8(*spec[0]) if rail is None else np.full(spec[0], rail, np.int8)
    case.put("x", "s8", x, spec[0])
    case.out("y", "s8", y)
    if index:
        case.out("index", "u8", y)
    return case


AVGPOOL = [
    *(avgpool(w, -5) for w in WINDOWS),
    *(avgpool(WINDOWS[3], z, r) for z in ZEROS for r in (-128, 127)),
]
MAXPOOL = [
    *(maxpool(w) for w in WINDOWS),
    *(maxpool(w, rail=r) for w in WINDOWS for r in (-128, 127)),
    maxpool(WINDOWS[3], index=False),
]


def gather(shape: Shape, count: int) -> Case:
    case = Case("gather", (shape, count))
    chan = np.sort(case.rng.permutation(shape[2])[:count]).astype(np.uint16)
    case.put("x", "s8", case.int8(*shape), shape)
    case.put("chan", "u16", chan)
    case.out("y", "s8", (*shape[:2], count))
    return case


GATHER = [gather(s, n) for s in MAPS for n in {1, (s[2] + 1) // 2, s[2]}]


def pool_dx(
    op: str, spec: Any, predictor: int = 300, skip: int | None = None, masked: bool = True
) -> Case:
    """avgpool_dx or maxpool_dx."""
    case = Case(op, (spec, predictor, skip, masked))
    y = _window(case, spec)
    taps = spec[1][0] * spec[1][1]
    case.error("e_y", case.int8(*y, low=-127), -12)
    if op == "maxpool_dx":
        values = case.int8(*spec[0])
        case.put("index", "u8", _first_largest(case, values, y), y)
    else:
        mant, exp = (int(v) for v in arith.fixed(1 / taps))
        case.params |= {"mant": mant, "exp": exp}
    if skip is not None:
        case.error("skip", case.int8(*spec[0], low=-127), skip)
    if masked:
        case.mask(spec[0])
    case.error_out(spec[0], predictor)
    case.params["rng"] = 31
    return case


def _first_largest(case: Case, x: Any, y: Shape) -> Any:
    """Indices that a forward pass can give, by the definition, tap by tap."""
    p = case.params
    index = np.zeros(y, np.uint8)
    for oy, ox, c in np.ndindex(*y):
        best = None
        for ky, kx in np.ndindex(p["kh"], p["kw"]):
            iy, ix = oy * p["sh"] + ky - p["pt"], ox * p["sw"] + kx - p["pl"]
            inside = 0 <= iy < x.shape[0] and 0 <= ix < x.shape[1]
            if inside and (best is None or x[iy, ix, c] > best):
                best, index[oy, ox, c] = x[iy, ix, c], ky * p["kw"] + kx
    return index


def _pool_dx(op: str) -> list[Case]:
    return [
        *(pool_dx(op, w) for w in WINDOWS),
        *(pool_dx(op, w, predictor=p) for w in WINDOWS[2:5] for p in (-30000, -900, 2000, 30000)),
        *(pool_dx(op, w, skip=e) for w in WINDOWS[2:5] for e in (-60, -13, -11, 30)),
        pool_dx(op, WINDOWS[5], skip=-12, masked=False),
    ]


def error_sum(
    shape: Shape, exponents: tuple[int, ...], predictor: int = 300, c0: int = 0, masked: bool = True
) -> Case:
    """Input i is read from channel c0 * i on; one input is a masked copy."""
    case = Case("error_sum", (shape, exponents, predictor, c0, masked))
    case.params = {"c0": 0, "c1": 0, "c2": 0, "c3": 0, "rng": 37}
    for i, e in enumerate(exponents):
        wide = shape[2] + (c0 * i + 1 if c0 else 0)
        case.error(f"e{i}", case.int8(*shape[:2], wide, low=-127), e)
        case.params[f"c{i}"] = c0 * i
    if masked:
        case.mask(shape)
    case.error_out(shape, predictor, share=0 if len(exponents) == 1 else None)
    return case


ERROR_SUM = [
    *(error_sum(s, (-12, -10)) for s in MAPS),
    *(error_sum((3, 5, 3), e) for e in ((-12,), (-12, -9, -14), (-10, -40, -11, 30), (-12,) * 4)),
    *(error_sum((3, 5, 3), (-12, -11), p) for p in (-30000, -900, 1500, 30000)),
    *(error_sum((3, 5, 3), e, c0=2) for e in ((-12,), (-12, -10, -11))),
    error_sum((3, 5, 3), (-12,), masked=False),
    error_sum((3, 5, 3), (121, -126), masked=False),
]


def head(features: Shape, classes: int, scale: float = 0.02, size: float = 0.3) -> Case:
    case = Case("head", (features, classes, scale, size))
    case.put("x", "s8", case.int8(*features), features, zero_point=-7, scale=np.float32(scale))
    _classifier(case, int(np.prod(features)), classes, size)
    case.out("logits", "f32", (1, 1, classes))
    return case


def _classifier(case: Case, features: int, classes: int, size: float) -> None:
    w = case.rng.normal(0, size, (1, classes, features)).astype(np.float32)
    case.put("w", "f32", w, w.shape)
    case.put("b", "f32", case.rng.normal(0, size, classes).astype(np.float32))


def loss(classes: int, spread: float, label: int = 0, ties: bool = False) -> Case:
    """A spread of 100 makes some probabilities 0; 1e38 lets a difference be infinite."""
    case = Case("loss", (classes, spread, label, ties))
    logits = case.rng.normal(0, spread, classes).clip(-3e38, 3e38).astype(np.float32)
    if ties:
        logits[:] = 1.5
    case.put("logits", "f32", logits)
    case.out("df", "f32", (1, 1, classes))
    case.label = label
    return case


def head_dx(features: Shape, classes: int, size: float, masked: bool = True) -> Case:
    case = Case("head_dx", (features, classes, size, masked))
    count = int(np.prod(features))
    df = case.rng.normal(0, 1, classes)
    case.put("df", "f32", (df * size).astype(np.float32))
    w = case.rng.normal(0, 0.3, (1, classes, count)).astype(np.float32)
    case.put("w", "f32", w, w.shape)
    case.out("scratch", "f32", (1, 1, count))
    if masked:
        case.mask(features)
    case.error_out(features, 0)
    case.params = {"rng": 41}
    return case


def head_dw(features: Shape, classes: int, lr: float) -> Case:
    case = Case("head_dw", (features, classes, lr))
    case.put("x", "s8", case.int8(*features), features, zero_point=-7, scale=np.float32(0.03))
    case.put("df", "f32", case.rng.normal(0, 0.3, classes).astype(np.float32))
    _classifier(case, int(np.prod(features)), classes, 0.3)
    case.lr_head = lr
    return case


_FEATURES: tuple[Shape, ...] = ((1, 1, 1), (1, 1, 160), (3, 2, 5))
CASES: dict[str, list[Case]] = {
    "add": ADD,
    "rescale": RESCALE,
    "avgpool": AVGPOOL,
    "maxpool": MAXPOOL,
    "gather": GATHER,
    "avgpool_dx": _pool_dx("avgpool_dx"),
    "maxpool_dx": _pool_dx("maxpool_dx"),
    "error_sum": ERROR_SUM,
    "head": [
        *(head(f, c) for f in _FEATURES for c in (1, 10, 33)),
        *(head((1, 1, 7), 3, s, v) for s, v in ((1e-38, 1e-4), (1e30, 1e6))),  # tiny and huge
    ],
    "loss": [
        *(loss(c, s, c - 1) for c in (1, 2, 10, 257) for s in (0.0, 0.1, 3.0, 100.0, 1e38)),
        loss(10, 1.0, ties=True),
    ],
    "head_dx": [
        *(head_dx(f, c, 0.3) for f in _FEATURES for c in (2, 10)),
        # no error at all, below and just above the normal numbers, and large ones
        *(head_dx((1, 1, 40), 5, s) for s in (0.0, 1e-42, 4e-39, 2e-38, 1e-37, 1e-20, 1e30, 1e38)),
        head_dx((3, 2, 5), 5, 0.1, masked=False),
    ],
    "head_dw": [
        head_dw(f, c, lr) for f in _FEATURES for c in (1, 10) for lr in (0.0, 1e-45, 0.01, 1e30)
    ],
}
