"""Plots of a run as SVG texts (extra `report`)."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mcutrain.errors import ToolchainError
from mcutrain.ir.graph import Array
from mcutrain.ir.program import aligned

Records = Sequence[Mapping[str, Any]]

INK, GRID, BLUE, ORANGE = "#1f2933", "#e4e7eb", "#2563eb", "#ea580c"
# Kinds of buffers by the end of their names; the last row is everything else.
KINDS = (
    ("error", (".error", ".part", ".skip", ".sum"), "#f97316"),
    ("mask, pool index", (".mask", ".index"), "#a855f7"),
    ("saved for a weight gradient", (".saved",), "#10b981"),
    ("classifier", (".df", ".scratch"), "#eab308"),
    ("activation", (), "#60a5fa"),
)
_POINTS = 600  # of a curve; more cannot be seen
# Room that a name needs: share of the map's height, share of its width a letter.
_LABEL_HEIGHT, _LABEL_WIDTH = 0.022, 0.0061
STATE_KIND, STATE_COLOR = "state", "#cbd2d9"
_STYLE: dict[Any, Any] = {  # keys are matplotlib's own literal type
    "svg.fonttype": "none",
    "svg.hashsalt": "mcutrain",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": "#9aa5b1",
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": GRID,
    "xtick.color": INK,
    "ytick.color": INK,
}


class Canvas:
    """Makes one figure and gives its SVG text.

    Raises:
        ToolchainError: matplotlib is not installed.
    """

    def __init__(self, width: float, height: float) -> None:
        try:
            import matplotlib as mpl
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ToolchainError(
                "the report needs matplotlib", hint="pip install 'mcutrain[report]'"
            ) from error
        self._mpl = mpl
        with mpl.rc_context(_STYLE):
            self.figure: Any = Figure(figsize=(width, height), layout="constrained")
            self.axes: Any = self.figure.subplots()

    def svg(self) -> str:
        """The figure, without the XML header, so that it can stand in HTML."""
        text = io.StringIO()
        with self._mpl.rc_context(_STYLE):
            self.figure.savefig(
                text, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
            )
        return text.getvalue().partition("<svg")[1] + text.getvalue().partition("<svg")[2]


def smoothed(values: Array, window: int) -> Array:
    """Mean over the last `window` values, fewer at the start; float64."""
    total = np.cumsum(np.concatenate([[0.0], values.astype(np.float64)]))
    end = np.arange(1, len(values) + 1)
    begin = np.maximum(end - window, 0)
    return np.asarray((total[end] - total[begin]) / (end - begin))


def curve(
    records: Records,
    name: str,
    values: Array,
    unit: str,
    *,
    window: int,
    color: str = BLUE,
    raw: bool = False,
) -> str:
    """Moving mean of a quantity over the training steps; with `raw`, the quantity behind it."""
    canvas = Canvas(4.6, 2.5)
    axes = canvas.axes
    numbers = np.array([r["number"] for r in records])
    mean = smoothed(values, window)
    shown = np.unique(np.linspace(0, len(values) - 1, min(len(values), _POINTS)).astype(int))
    if raw:
        axes.plot(numbers[shown], values[shown], color=color, alpha=0.22, linewidth=0.7)
    axes.plot(numbers[shown], mean[shown], color=color, linewidth=1.8)
    axes.set_title(name + (f", mean over {window} steps" if window > 1 else ""), loc="left")
    axes.set_xlabel("step")
    axes.set_ylabel(unit)
    axes.set_ylim(bottom=0)
    return canvas.svg()


def learning_curves(records: Records) -> list[str]:
    """Loss, running accuracy, learning rate and saturated errors over the steps."""

    def values(name: str) -> Array:
        return np.array([r[name] for r in records], np.float64)

    right = 100 * (values("predicted") == values("label"))
    short, long = max(1, len(records) // 20), max(1, len(records) // 10)
    return [
        curve(records, "Loss", values("loss"), "cross-entropy", window=short, raw=True),
        curve(records, "Right before the update", right, "%", window=long),
        curve(records, "Learning rate", values("rate"), "rate", window=1, color=ORANGE),
        curve(
            records,
            "Saturated errors",
            values("saturated"),
            "elements a step",
            window=short,
            color=ORANGE,
            raw=True,
        ),
    ]


def kind_of(buffer: str) -> tuple[str, str]:
    """Kind and colour of a buffer by its name."""
    for kind, ends, color in KINDS:
        if not ends or any(end in buffer for end in ends):
            return kind, color
    raise AssertionError("the last kind takes every buffer")


def memory_map(buffers: Sequence[Mapping[str, Any]], state: int, forward: int, total: int) -> str:
    """The pool over the schedule: one rectangle a buffer, instructions along x, bytes along y.

    Args:
        buffers: name, bytes, offset, first, last; as in an image's metadata.
        state: bytes of the state, below the arena.
        forward, total: instructions of the forward pass, and of all.
    """
    canvas = Canvas(9.6, 4.8)
    axes = canvas.axes
    base = aligned(state)
    top = base + max(b["offset"] + b["bytes"] for b in buffers)
    seen = {STATE_KIND: STATE_COLOR}
    extent = (total, top)
    _block(canvas, "state", (-1, 0, total + 1, state), extent)
    for b in buffers:
        kind, color = kind_of(b["name"])
        seen[kind] = color
        place = (b["first"], base + b["offset"], b["last"] - b["first"] + 1, b["bytes"])
        _block(canvas, b["name"], place, extent, color)
    axes.axvline(forward, color=INK, linewidth=1, linestyle="--")
    for text, side, shift in (("forward", "right", -1), ("backward", "left", 1)):
        axes.text(forward + shift * total * 0.005, top * 1.01, text, fontsize=8, ha=side)
    axes.set_xlim(-1, total)
    axes.set_ylim(0, top * 1.06)
    axes.set_xlabel("instruction")
    axes.set_ylabel("offset, bytes")
    axes.grid(visible=False)
    handles = [_patch(color, kind) for kind, color in seen.items()]
    canvas.figure.legend(handles=handles, loc="outside lower center", ncols=6, frameon=False)
    return canvas.svg()


def _patch(color: str, label: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(color=color, label=label)


def _block(
    canvas: Canvas,
    name: str,
    place: tuple[int, int, int, int],
    extent: tuple[int, int],
    color: str = STATE_COLOR,
) -> None:
    """A rectangle (x, y, width, height), with its name where there is room for it."""
    (x, y, width, height), (total, top) = place, extent
    canvas.axes.bar(
        x, height, width, y, align="edge", color=color, edgecolor="white", linewidth=0.6
    )
    if height > _LABEL_HEIGHT * top and width > _LABEL_WIDTH * len(name) * total:
        middle = (x + width / 2, y + height / 2)
        canvas.axes.text(*middle, name, ha="center", va="center", fontsize=6.5, clip_on=True)


def confusion(matrix: Sequence[Sequence[int]], names: Sequence[str], title: str) -> str:
    """Share of each class (row) that was taken for each class (column)."""
    canvas = Canvas(4.6, 4.2)
    counts = np.array(matrix, np.float64)
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes = canvas.axes
    axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
    axes.grid(visible=False)
    places = range(len(counts))
    few = len(counts) <= 20
    if few:
        axes.set_xticks(places, names, rotation=60, ha="right", fontsize=7)
        axes.set_yticks(places, names, fontsize=7)
        for row, column in np.ndindex(*share.shape):
            if share[row, column] >= 0.005:
                ink = "white" if share[row, column] > 0.55 else INK
                text = f"{share[row, column] * 100:.0f}"
                axes.text(column, row, text, ha="center", va="center", fontsize=7, color=ink)
    axes.set_title(title, loc="left")
    axes.set_xlabel("predicted")
    axes.set_ylabel("true class")
    for side in axes.spines.values():
        side.set_visible(False)
    return canvas.svg()
