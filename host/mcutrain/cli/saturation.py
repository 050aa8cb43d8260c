"""Samples that are not in the units that a network was calibrated with: a warning."""

from __future__ import annotations

from mcutrain.cli.common import ERR
from mcutrain.data import Dataset
from mcutrain.ir.graph import QParams
from mcutrain.quantize.inputs import HIGHEST, LOWEST, Outside

_SAMPLES = 200  # looked at, from all over the data

# Calibration itself leaves little outside: where "mse" cuts a range, moving the end would cost as
# much as it gains, so that at most 1 / (6 * 255) of the numbers, 0.07 %, lie more than half a step
# beyond it. Other data of the same sensor have more: a range from one recording of an IMU leaves
# 3.3 % of all its recordings outside, and normal numbers that spread twice as wide as those of
# calibration, which end at four standard deviations, 4.6 %. In wrong units it is most of them:
# pixels from 0 to 255 for a network that takes 0 to 1 lie outside unless they are 0 or 1.
THRESHOLD = 0.05


def outside_input(data: Dataset, q: QParams | None, quiet: bool) -> float:
    """The share of the samples' numbers, 0 left out, that saturate on a network's input.

    Above `THRESHOLD` there is a warning on stderr, unless `quiet`.

    Args:
        data: samples of the input's shape.
        q: of the input; None of a network that is not quantised, which the caller refuses.
    """
    if q is None:
        return 0.0
    x, found = data.spread(_SAMPLES).array(), Outside()
    found.add(x, q)
    if not quiet:
        option = "range={:.2g},{:.2g}".format(*_ends(q))
        advice = _advice(data, x.min() >= 0 and x.max() <= 255, option)
        warn(data.name, found, q, f"The samples are from {x.min():.4g} to {x.max():.4g}; {advice}")
    return found.share


def warn(name: str, found: Outside, q: QParams, advice: str) -> None:
    """The warning of samples with that name, if more than `THRESHOLD` of their numbers saturate."""
    if found.share <= THRESHOLD:
        return
    lowest, highest = _ends(q)
    ERR.print(
        f"warning: {name}: {found.share:.0%} of the numbers in the samples (zeros not counted) "
        f"lie outside of what the network's input takes, {lowest:.2g} to {highest:.2g}, and "
        "saturate. " + advice,
        highlight=False,
        markup=False,
        soft_wrap=True,
    )


def _ends(q: QParams) -> tuple[float, float]:
    return (LOWEST - q.zero_point) * q.scale, (HIGHEST - q.zero_point) * q.scale


def _advice(data: Dataset, pixels: bool, option: str) -> str:
    if data.limits is not None:
        return f"{option} would put them where the input is"
    if pixels:
        return f"if they are pixels, 0 to 255, {data.name}{_joint(data.name)}{option} is right"
    return "give them in the units that the network was calibrated with"


def _joint(name: str) -> str:
    return "&" if "?" in name else "?"
