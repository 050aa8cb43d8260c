"""A run as one HTML file that needs nothing else: figures, plots, tables."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mcutrain import __version__
from mcutrain.image.unpack import Image, unpack
from mcutrain.ir.macs import DW, DX, FORWARD, REST, macs, phase
from mcutrain.ir.program import Instr, Program, Value
from mcutrain.report import plots
from mcutrain.report.diagnosis import Diagnosis
from mcutrain.report.diagnosis_plots import figures
from mcutrain.report.log import Run

PHASES = (FORWARD, DX, DW, REST)
_PHASE_COLORS = {FORWARD: "#60a5fa", DX: "#f97316", DW: "#10b981"}

_STYLE = """
:root { color-scheme: light; --ink: #1f2933; --soft: #616e7c; --line: #e4e7eb; --blue: #2563eb; }
* { box-sizing: border-box; }
body { margin: 0; background: #f5f7fa; color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 28px 20px 60px; }
h1, p { overflow-wrap: anywhere; }
h1 { font-size: 26px; margin: 0; } h2 { font-size: 18px; margin: 0 0 12px; }
p.sub { color: var(--soft); margin: 4px 0 20px; }
section { background: #fff; border: 1px solid var(--line); border-radius: 10px; padding: 18px 20px;
  margin-top: 18px; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(215px, 1fr)); gap: 12px; }
.card { background: #fff; border: 1px solid var(--line); border-radius: 10px; padding: 12px 16px; }
.card b { display: block; font-size: 21px; line-height: 1.3; color: var(--blue); }
.card span { color: var(--soft); font-size: 13px; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(420px, 100%), 1fr));
  gap: 8px 20px; }
svg { width: 100%; height: auto; display: block; }
.wide { overflow-x: auto; } .wide svg { min-width: 760px; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: 3px 10px 3px 0; text-align: left; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th { color: var(--soft); font-weight: 600; } td.n, th.n { text-align: right; }
td.bar { min-width: 150px; width: 100%; } td.bar div { display: flex; }
td.bar i { display: block; height: 10px; }
p.note { color: var(--soft); font-size: 13.5px; margin: 10px 0 0; }
footer { color: var(--soft); font-size: 12.5px; margin-top: 22px; }
"""


def render(
    run: Run, bench: Mapping[str, Any] | None = None, diagnosis: Diagnosis | None = None
) -> str:
    """The page of a run.

    Args:
        run: a run folder, of a run that is not finished, too.
        bench: what `mcutrain bench --json` printed for the same image: adds instructions.
        diagnosis: of the same run: adds gradients, exponents, rails and updates.

    Raises:
        ToolchainError: matplotlib is not installed.
    """
    image = unpack(run.image, str(run.folder))
    info, name = run.info, str(image.metadata["network"].get("name"))
    device = info.get("device", {})
    sections = [
        f"<h1>{_text(name)} learns on {_text(device.get('name', 'a device'))}</h1>",
        f'<p class="sub">{_text(_subtitle(info, device))}</p>',
        _cards(run, image),
        _learning(run),
        _diagnosis(diagnosis),
        _section("SRAM over one training step", _map(image)),
        _confusions(info, [str(c) for c in image.metadata["classes"]]),
        _section("Layers", _layers(image, bench)),
        _section("What trains", f"<p>{_text(describe_plan(image.metadata['plan']))}</p>"),
        _section("Memory", _memory(info, image)),
        _section("The run", _settings(info)),
        f"<footer>mcutrain {_text(__version__)}; image {image.header['crc']:08x}, "
        f"network {image.header['model_hash'].hex()}</footer>",
    ]
    body = "\n".join(s for s in sections if s)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(name)}: a training run</title><style>{_STYLE}</style></head>"
        f"<body><main>\n{body}\n</main></body></html>\n"
    )


def _text(value: object) -> str:
    return html.escape(str(value))


def _section(title: str, content: str) -> str:
    return f"<section><h2>{_text(title)}</h2>\n{content}</section>" if content else ""


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns whose name starts with a space hold numbers; cells of type Raw are HTML already."""
    kinds = [' class="n"' if c.startswith(" ") else "" for c in columns]
    head = "".join(f"<th{k}>{_text(c.strip())}</th>" for k, c in zip(kinds, columns, strict=True))
    lines = []
    for row in rows:
        cells = zip(kinds, row, strict=True)
        lines.append(
            "".join(c if isinstance(c, Raw) else f"<td{k}>{_text(_cell(c))}</td>" for k, c in cells)
        )
    body = "".join(f"<tr>{line}</tr>\n" for line in lines)
    return f'<div class="wide"><table><tr>{head}</tr>\n{body}</table></div>'


class Raw(str):
    """A table cell that is HTML already."""


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _subtitle(info: Mapping[str, Any], device: Mapping[str, Any]) -> str:
    settings = info["settings"]
    parts = [f"board {device['board']}" if "board" in device else ""]
    build = str(device.get("build", "")).strip("0")  # the host's own app has none
    parts.append(f"firmware {device['build']}" if build else "")
    parts.append(f"trained on {settings['data']}")
    if settings.get("test"):
        parts.append(f"evaluated on {settings['test']}")
    return "; ".join(p for p in parts if p)


def _cards(run: Run, image: Image) -> str:
    info, cards = run.info, []
    if "before" in info and "after" in info:
        before, after = info["before"]["accuracy"], info["after"]["accuracy"]
        cards.append((f"{before:.1%} → {after:.1%}", "held-out accuracy before and after"))
    for label, value in info.get("comparison", {}).items():
        cards.append((f"{value:.1%}", str(label)))
    cards.append((f"{len(run.steps):,}", "training steps, one sample each"))
    cards.append((f"{image.pool_bytes / 1024:.1f} KiB", "SRAM for state and arena"))
    if run.steps:
        speed = len(run.steps) / max(sum(r["seconds"] for r in run.steps), 1e-9)
        cards.append((f"{speed:.1f}/s", "samples trained a second, transfer included"))
        counter = info.get("device", {}).get("counter", {})
        if counter.get("kind") in ("emulated", "cycles"):
            ticks = np.mean([r["ticks_forward"] + r["ticks_backward"] for r in run.steps])
            events = float(ticks) * counter["num"] / counter["den"]
            unit = "instructions" if counter["kind"] == "emulated" else "cycles"
            cards.append((f"{events / 1e6:.2f} M", f"{unit} a training step"))
    inner = "".join(
        f'<div class="card"><b>{_text(v)}</b><span>{_text(t)}</span></div>' for v, t in cards
    )
    return f'<div class="cards">{inner}</div>'


def _learning(run: Run) -> str:
    if not run.steps:
        return ""
    figures = "".join(f"<div>{svg}</div>" for svg in plots.learning_curves(run.steps))
    return _section("Learning", f'<div class="plots">{figures}</div>')


def _diagnosis(found: Diagnosis | None) -> str:
    if found is None:
        return ""
    svgs = "".join(f'<div class="wide">{svg}</div>' for svg in figures(found))
    note = (
        f"From {len(found.steps)} steps of the run, repeated on the host engine. Where the lines "
        "of ||W|| / ||G|| lie together, one learning rate suits all layers, as in fp32."
    )
    return _section("int8 arithmetic", f'{svgs}<p class="note">{_text(note)}</p>')


def _map(image: Image) -> str:
    buffers = image.metadata["memory"]
    if not buffers:
        return ""
    state, arena = image.header["state_bytes"], image.header["arena_bytes"]
    note = (
        f"Below, the {state:,} bytes of state that are kept between steps: weights, fractions, "
        f"biases, classifier. Above, the {arena:,} bytes of the arena: buffers that are alive at "
        "the same instruction never share a byte."
    )
    svg = plots.memory_map(buffers, state, image.header["forward"], len(image.program))
    return f'<div class="wide">{svg}</div><p class="note">{_text(note)}</p>'


def _confusions(info: Mapping[str, Any], names: list[str]) -> str:
    found = [(k, info[k]) for k in ("before", "after") if k in info]
    figures = "".join(
        "<div>"
        + plots.confusion(e["confusion"], names, f"{k}: {e['accuracy']:.1%}, in %")
        + "</div>"
        for k, e in found
    )
    return _section("Classes", f'<div class="plots">{figures}</div>' if figures else "")


def program_of(image: Image) -> Program:
    """The program of an image, as far as the accounting needs it: shapes, no contents."""
    values = {
        t.name: Value(t.name, t.shape, t.dtype, t.space, t.zero_point, t.scale, error=t.error)
        for t in image.tensors
    }
    instrs = tuple(
        Instr(i.op, i.layer, {s: image.tensors[t].name for s, t in i.operands.items()}, i.params)
        for i in image.program
    )
    logits = image.tensors[image.header["logits"]].name
    inputs = tuple(t.name for t in image.inputs)
    errors = image.header["errors"]
    return Program("", values, instrs, image.header["forward"], inputs, logits, errors)


def _layers(image: Image, bench: Mapping[str, Any] | None) -> str:
    """One row a layer; the bar is made of instructions if they are known, else of MACs."""
    program = program_of(image)
    work: dict[str, dict[str, int]] = {}
    for instr in program.instrs:
        row = work.setdefault(instr.layer, dict.fromkeys(PHASES, 0))
        row[phase(instr)] += macs(program, instr)
    spent: dict[str, dict[str, int]] = {}
    for measured in (bench or {}).get("layers", []):
        phases = spent.setdefault(measured["layer"], dict.fromkeys(PHASES, 0))
        phases[measured["phase"]] += measured["instructions"]
    shown = spent if spent.keys() == work.keys() else {}
    sizes = shown or work
    most = max((sum(row.values()) for row in sizes.values()), default=0) or 1
    heads = [p.partition(" ")[0] for p in PHASES[:3]]
    columns = ["layer", *(f" MACs {p}" for p in heads)]
    columns += [*(f" instr. {p}" for p in heads), " MAC/instr."] if shown else []
    rows = []
    for layer, counts in work.items():
        cells: list[object] = [layer, *(counts[p] or None for p in PHASES[:3])]
        if shown:
            used = shown[layer]
            cells += [used[p] or None for p in PHASES[:3]]
            total, all_used = sum(counts.values()), sum(used.values())
            cells.append(f"{total / all_used:.3f}" if total and all_used else None)
        rows.append([*cells, _bar(sizes[layer], most)])
    what = "instructions" if shown else "MACs"
    legend = ", ".join(f'<span style="color:{c}">■</span> {p}' for p, c in _PHASE_COLORS.items())
    return _table([*columns, ""], rows) + f'<p class="note">Bars: {what}; {legend}</p>'


def _bar(row: Mapping[str, int], most: int) -> Raw:
    parts = (
        f'<i style="width:{100 * row[p] / most:.2f}%;background:{c}"></i>'
        for p, c in _PHASE_COLORS.items()
    )
    return Raw(f'<td class="bar"><div>{"".join(parts)}</div></td>')


def describe_plan(plan: Mapping[str, Any]) -> str:
    """What trains, in one line."""
    weights = [
        f"{name} ({len(c)} channel{'s' * (len(c) != 1)})"
        for name, c in plan.get("weights", {}).items()
    ]
    bits = plan.get("fraction_bits")
    parts = [
        f"biases of {', '.join(plan['biases'])}" if plan.get("biases") else "",
        f"weights of {', '.join(weights)}, with {bits} fraction bits" if weights else "",
        "the classifier" if plan.get("head") else "",
    ]
    return "; ".join(p for p in parts if p) or "nothing"


def _memory(info: Mapping[str, Any], image: Image) -> str:
    if "memory" in info:
        rows = [[r["what"], r["planned"], r["linked"], r["high_water"]] for r in info["memory"]]
        return _table(["bytes", " planned", " linked", " high-water mark"], rows)
    stats = info.get("stats")
    if not stats:
        return ""
    columns = ("planned", "bytes", "used")
    rows = [
        ["state and arena", image.pool_bytes, None, None],
        ["pool (an image in SRAM included)", *(stats[f"pool_{k}"] for k in columns)],
    ]
    if stats["stack_bytes"]:  # the host engine has none of its own
        rows.append(["stack", None, stats["stack_bytes"], stats["stack_used"]])
    return _table(["bytes", " planned", " there", " high-water mark"], rows)


def _settings(info: Mapping[str, Any]) -> str:
    rows = [[k.replace("_", " "), str(v)] for k, v in info["settings"].items()]
    for name in ("saturated", "clamped", "damaged", "resent", "guard_changed"):
        if name in info.get("stats", {}):
            rows.append([name.replace("_", " "), info["stats"][name]])
    return _table(["what", "value"], rows)
