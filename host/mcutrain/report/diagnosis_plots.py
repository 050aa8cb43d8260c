"""Plots of a diagnosis as SVG texts (extra `report`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mcutrain.report.diagnosis import LARGEST, SMALLEST, VARIANTS, Diagnosis
from mcutrain.report.plots import BLUE, INK, ORANGE, Canvas

_LABELS = dict(
    zip(
        VARIANTS,
        ("fp32", "int8", "int8, quantization-aware scaling"),
        strict=True,
    )
)
_COLORS = dict(zip(VARIANTS, (INK, ORANGE, BLUE), strict=True))
_MOST_NAMES = 60
_ZERO = -100  # lower exponents are those of errors that are all zero


def figures(found: Diagnosis) -> list[str]:
    """All of them, wide ones."""
    drawn = [_ratios(found)] if found.norms else []
    if found.errors:
        drawn += [_exponents(found), _rails(found)]
    return drawn + ([_updates(found)] if found.updates.any() else [])


def _ratios(found: Diagnosis) -> str:
    """The figure of the publication: how far gradients are from the size of what they change."""
    canvas = Canvas(9.6, 3.6)
    axes = canvas.axes
    places = np.arange(len(found.norms))
    for variant in VARIANTS:
        values = [n.ratios[variant] for n in found.norms]
        style = "--" if variant == "fp32" else "-"
        axes.plot(places, values, style, color=_COLORS[variant], label=_LABELS[variant], marker=".")
    axes.set_yscale("log")
    axes.set_ylabel("||W|| / ||G||")
    axes.set_title("Trained weights and biases against their gradients", loc="left")
    _name(axes.set_xticks, [n.name for n in found.norms], rotation=70, ha="right")
    canvas.figure.legend(loc="outside lower center", ncols=len(VARIANTS), frameon=False)
    return canvas.svg()


def _exponents(found: Diagnosis) -> str:
    canvas = Canvas(9.6, 3.0)
    axes = canvas.axes
    count = len(found.errors)
    shown = np.where(found.exponents > _ZERO, found.exponents, np.nan)
    for index in range(count):
        color = _shade(index, count)
        axes.plot(found.steps, shown[:, index], color=color, linewidth=1.0)
    axes.plot([], [], color=_shade(0, count), label=found.errors[0])
    axes.plot([], [], color=_shade(count - 1, count), label=found.errors[-1])
    axes.set_title("Exponents of the errors, from the first layer to the last", loc="left")
    axes.set_xlabel("step")
    axes.set_ylabel("E (an error is q * 2^E)")
    axes.legend(frameon=False)
    return canvas.svg()


def _rails(found: Diagnosis) -> str:
    canvas = Canvas(9.6, 3.0)
    axes = canvas.axes
    share = 1e6 * found.rails.mean(axis=0)
    axes.bar(np.arange(len(share)), share, color=ORANGE)
    axes.set_title("Elements of the errors at -127 or 127", loc="left")
    axes.set_ylabel("of 10^6, mean over the steps")
    _name(axes.set_xticks, list(found.errors), rotation=70, ha="right")
    return canvas.svg()


def _updates(found: Diagnosis) -> str:
    """A column a step, a row a power of two; the lowest row are weights that stayed."""
    canvas = Canvas(9.6, 3.2)
    axes = canvas.axes
    image = axes.imshow(
        100 * found.updates.T,
        origin="lower",
        aspect="auto",
        cmap="Blues",
        vmin=0,
        vmax=max(1.0, 100 * found.updates[:, 1:].max()),  # most weights stay: a row of its own
    )
    powers = [f"2^{k}" for k in range(SMALLEST, LARGEST)]
    axes.set_yticks(range(found.updates.shape[1]), ["none", *powers, f">= 2^{LARGEST}"])
    shown = np.unique(np.linspace(0, len(found.steps) - 1, min(9, len(found.steps))).astype(int))
    axes.set_xticks(shown, [str(found.steps[i]) for i in shown])
    axes.set_xlabel("step")
    axes.set_ylabel("size in LSB, from")
    axes.set_title("Updates of the trained weights, % of them", loc="left")
    axes.grid(visible=False)
    canvas.figure.colorbar(image, ax=axes, extend="max")
    return canvas.svg()


def _name(set_ticks: Any, names: list[str], **options: Any) -> None:
    """Names on an axis, as many as can be read."""
    every = -(-len(names) // _MOST_NAMES)
    set_ticks(range(0, len(names), every), names[::every], fontsize=6.5, **options)


def _shade(index: int, count: int) -> Any:
    """From light to dark blue."""
    light, dark = np.array([0.75, 0.85, 0.98]), np.array([0.08, 0.2, 0.5])
    return tuple(light + (dark - light) * index / max(1, count - 1))
