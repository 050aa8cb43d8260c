"""Test vectors of docs/SPEC-arithmetic.md: `python -m mcutrain.ir.vectors [FILE]`.

Writes tests/golden/arithmetic.json: for every rule a list of {"in": [...], "out": [...]}. Integers
are plain, binary64 inputs are hexadecimal text, binary32 numbers are their bit patterns. Inputs are
the corners of each rule and some pseudo-random ones (from the specification's own generator).
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mcutrain.ir import arith

GOLDEN = Path("tests/golden/arithmetic.json")
Row = dict[str, list[Any]]


def _draw(rule: str, count: int, lo: int, hi: int) -> list[int]:
    """`count` integers in [lo, hi], by rule name: the same on every machine and numpy version."""
    key = arith.random_key(0, 0, sum(rule.encode()))
    parts = arith.random_bits(key, np.arange(4 * count)).reshape(count, 4).tolist()
    return [lo + sum(p << 16 * i for i, p in enumerate(four)) % (hi - lo + 1) for four in parts]


def _bits(values: Iterable[float]) -> list[int]:
    return [arith.float_bits(v) for v in values]


def _float(bits: int) -> np.float32:
    return np.uint32(bits).view(np.float32)


def _rows(inputs: Iterable[tuple[Any, ...]], rule: Callable[..., Any]) -> list[Row]:
    rows: list[Row] = []
    for arguments in inputs:
        out = rule(*arguments)
        rows.append(
            {
                "in": [a.hex() if isinstance(a, float) else a for a in arguments],
                "out": [int(o) for o in out] if isinstance(out, tuple) else [int(out)],
            }
        )
    return rows


def _reals() -> list[tuple[float]]:
    corners = [0.0, 2.0**-40, 0.25, 0.3, 0.49999999999, 0.5, 0.75, 1 - 2.0**-53, 1.0, 3.5, 16383.9]
    return [(v,) for v in corners] + [(n / 2.0**45,) for n in _draw("reals", 20, 1, 2**48)]


def _multiplier(m: float) -> tuple[Any, Any]:
    mult, shift = arith.multiplier(m)
    return mult[()], shift[()]


def _fixed(v: float) -> tuple[Any, Any]:
    mant, e = arith.fixed(v)
    return mant[()], e[()]


def _requantize_inputs() -> Iterator[tuple[int, ...]]:
    yield from ((-5, 2**31 - 1, 0, 3), (5, 2**30, 0, 0), (6, 2**30, 0, 0), (-6, 2**30, 0, 0))
    yield from ((2**31 - 1, 2**31 - 1, 0, 127), (-(2**31) + 1, 2**31 - 1, 0, -128))
    yield from ((65535, 2**31 - 1, 15, 0), (-65535, 2**30, 15, -5), (7, 0, 0, 4), (-1, 1, 0, 0))
    mult = _draw("mult", 24, 0, 2**31 - 1)
    for i, acc in enumerate(_draw("acc", 24, -(2**31) + 1, 2**31 - 1)):
        yield (acc >> i % 16, mult[i], i % 16, i * 11 - 128)


def _step(d: int, mc: int, ec: int, lr_bits: int, e_y: int, bits: int, r: int) -> tuple[Any]:
    rate = arith.rate(_float(lr_bits))
    return (arith.update_step(d, mc, ec, rate, e_y, bits, r)[()],)


def _step_inputs() -> Iterator[tuple[int, ...]]:
    lr, one = arith.float_bits(0.1 / 256), arith.float_bits(1.0)
    for d in (0, 1, -1, 127, -32640, 2**31 - 1, -(2**31) + 1):
        for e_y in (-40, -12, 0, 30):
            yield (d, 1610612736, 24, lr, e_y, 8, 0x9E37)
    for e in (-96, -62, -31, -30, 0, 1, 2, 16, 17, 62, 63, 64, 96):  # every branch of the shift
        yield (-77777, 2**31 - 1, e, one, 0, 0, 0xFFFF)
        yield (-77777, 2**31 - 1, e, one, 0, 0, 0)
        yield (12345, 2**30, e, one, 0, 4, 1)
    for lr_bits in (0, 1, 0x7FFFFF, 0x800000, 0x7F7FFFFF):  # zero, subnormal, smallest, largest
        yield (1000, 2**30, 30, lr_bits, -100, 8, 0x8000)


def _log_inputs() -> list[tuple[int]]:
    values = [1.0, 1.0000001, 1.4142135, 1.4142137, 1.5, 2.0, 3.0, 10.0, 999.5, 65535.0]
    return [(b,) for b in _bits(values + [1 + n / 256 for n in _draw("log", 20, 0, 2**16)])]


def _exp_inputs() -> list[tuple[int]]:
    values = [0.0, -1e-30, -0.3465, -0.3466, -1.0, -2.5, -79.99, -80.0, -80.00001, -1000.0]
    values += [-float(n) / 2**20 for n in _draw("exp", 20, 0, 80 * 2**20)]
    return [(b,) for b in [*_bits(values), arith.float_bits(-np.inf)]]


def _exponents() -> Iterator[tuple[int, ...]]:
    """(l_top, predictor) pairs."""
    yield from ((0, 0), (-32256, 0), (32767, 32767), (-32256, -32768), (1448, 0), (1447, 0))
    yield from zip(_draw("l_top", 16, -8000, 2000), _draw("p", 16, -3000, 3000), strict=True)


def _predictors() -> Iterator[tuple[int, ...]]:
    """(predictor, e, amax, l_top)."""
    yield from ((5, -9, 0, -900), (0, -9, 256, -900), (0, -9, 127, -900), (3000, -9, 64, -900))
    yield from (
        (0, 300, 256, -32256),
        (0, -300, 1, 32767),
        (-517, -12, 1, -1000),
        (-553, -12, 1, 0),
    )


def _constant_vectors() -> dict[str, list[Row]]:
    """Rules that make constants: only the host computes them."""
    scales = [(0.02, 0.03, 0.025), (1.0, 1.0, 1.0), (1e-9, 0.5, 0.25), (0.9, 0.8, 1e-5)]
    taps = [(1,), (520,), (521,), (576,), (4608,), (133144,)]
    return {
        "multiplier": _rows(_reals(), _multiplier),
        "fixed": _rows(_reals(), _fixed),
        "add_constants": _rows(scales, arith.add_constants),
        "error_fraction": _rows(taps, arith.error_fraction),
    }


def _integer_vectors() -> dict[str, list[Row]]:
    draws = [(h,) for h in (0, 1, 0xDEADBEEF, *_draw("mix", 12, 0, 2**32 - 1))]
    keys = [(0, 0, 1), (7, 9, 3), (2**32 - 1, 65536, 500)]
    groups = itertools.product((0, 2**30, 1610612736, 2**31 - 1), (0, 1, 2, 16, 30, 31, 32))
    aligned = itertools.product((-127, -1, 0, 1, 127), (-40, -31, -3, 0, 1, 32, 54, 60))
    return {
        "requantize": _rows(_requantize_inputs(), lambda *a: arith.requantize(*a)[()]),
        "mix32": _rows(draws, arith.mix32),
        "random": _rows(((*key, i) for key in keys for i in range(6)), _random),
        "lb": _rows(((a,) for a in range(1, 257)), arith.lb),
        "predicted_exponent": _rows(_exponents(), arith.predicted_exponent),
        "next_predictor": _rows(_predictors(), arith.next_predictor),
        "group_multiplier": _rows(
            groups, lambda m, n: arith.group_multiplier(np.array(m), np.array(n))[()]
        ),
        "align": _rows(aligned, lambda q, d: arith.align(np.array(q), d)[()]),
        "step": _rows(_step_inputs(), _step),
    }


def _random(seed: int, step: int, ident: int, index: int) -> Any:
    return arith.random_bits(arith.random_key(seed, step, ident), index)[()]


def _float_vectors() -> dict[str, list[Row]]:
    tops = [0.0, 1e-40, 2.0**-126, 1e-30, 0.5, 0.75, 1.0, 1.9999999, 3e38]
    rates = [0.0, 1e-45, 1.1754942e-38, 2.0**-126, 0.1 / 256, 0.2 / 256, 1.0, 3.4028235e38]
    return {
        "top_exponent": _rows(
            zip(_bits(tops), strict=True), lambda b: arith.top_exponent(_float(b))
        ),
        "rate": _rows(zip(_bits(rates), strict=True), lambda b: arith.rate(_float(b))),
        "exp": _rows(_exp_inputs(), lambda b: arith.float_bits(float(arith.exp_f32(_float(b))))),
        "log": _rows(_log_inputs(), lambda b: arith.float_bits(arith.log_f32(_float(b)))),
    }


def vectors() -> dict[str, list[Row]]:
    """Every rule's vectors; the arguments are those of the rule's function in `arith`, or in C."""
    return _constant_vectors() | _integer_vectors() | _float_vectors()


def text() -> str:
    """The file: one vector a line."""
    rules = []
    for name, rows in vectors().items():
        lines = ",\n".join("  " + json.dumps(row) for row in rows)
        rules.append(f' "{name}": [\n{lines}\n ]')
    return "{\n" + ",\n".join(rules) + "\n}\n"


def main(path: Path = GOLDEN) -> None:
    """Write the file, under a temporary name first."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text())
    temporary.replace(path)


if __name__ == "__main__":
    main(*(Path(name) for name in sys.argv[1:2]))
