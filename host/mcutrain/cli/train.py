"""`mcutrain train`: an image, samples and a device become a trained state and a run folder."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

import mcutrain.data
from mcutrain.cli.common import (
    ERR,
    MAX_SEED,
    OUT,
    Baud,
    DeviceName,
    Json,
    open_with_image,
    read_bytes,
    real,
    show,
    table,
)
from mcutrain.cli.interrupt import Stopper
from mcutrain.cli.work import Settings, Work, fresh_folder, settings_of
from mcutrain.errors import UsageError
from mcutrain.files import locked, make_folder
from mcutrain.link.wire import Place
from mcutrain.report.log import IMAGE, Run
from mcutrain.trainer import MAX_STEPS

Steps = Annotated[
    int | None,
    typer.Option(min=0, max=MAX_STEPS, help="Training steps, one sample each."),
]
HeadFactor = Annotated[float, real("The classifier's rate is this many times as high.")]
Seed = Annotated[
    int, typer.Option(min=0, max=MAX_SEED, help="Seed of the order and of the random bits.")
]
Learnt = Annotated[
    float,
    real("Do not train on samples that have a smaller loss already."),
]
Cache = Annotated[
    bool,
    typer.Option(
        "--cache/--no-cache",
        help="On the host, keep what frozen layers make of each sample: faster, same bytes.",
    ),
]


def run(
    image: Annotated[
        Path | None, typer.Argument(help="The image to train; not with --resume.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="The run folder to write.")] = Path("run"),
    data: Annotated[
        str | None, typer.Option(help="Samples, for example fashion-mnist:train?count=100.")
    ] = None,
    test: Annotated[
        str | None, typer.Option(help="Samples to evaluate before and after training.")
    ] = None,
    device: DeviceName = "host",
    baud: Baud = None,
    rate: Annotated[float, real("Highest learning rate.")] = 0.01,
    steps: Steps = None,
    epochs: Annotated[int, typer.Option(min=0, help="Passes over the data, if no --steps.")] = 1,
    warmup: Annotated[float, real("Share of steps in which the rate rises.", most=1)] = 0.1,
    constant: Annotated[
        bool, typer.Option("--constant", help="Keep the rate after it has risen (no cosine).")
    ] = False,
    head_factor: HeadFactor = 1.0,
    seed: Seed = 0,
    learnt: Learnt = 0.0,
    cache: Cache = True,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in --out, with its settings.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Train on a device, sample by sample, and evaluate before and after.

    The run folder holds run.json (settings, results), log.jsonl (one line a step), the image and
    the last trained state. Ctrl-C stops between two steps (exit code 8); a run that is resumed
    ends with the same bytes as one that was not interrupted, on whatever device.

    Example: mcutrain train demo.mcti --data fashion-mnist:train?count=1000
    --test fashion-mnist:test?count=300 --device qemu:netduinoplus2 --out run
    """
    if resume:
        if any(given is not None for given in (image, data, test, steps)):
            raise UsageError(
                "--resume takes image, data and settings from the run folder",
                hint=shlex.join(
                    ["mcutrain", "train", "--resume", "--out", str(out), "--device", device]
                ),
            )
        info = _resume(out, device, baud, as_json, cache)
    else:
        if image is None or data is None:
            raise UsageError("training needs an image and --data", hint="mcutrain train --help")
        content = read_bytes(image, "image")
        count = steps if steps is not None else epochs * len(mcutrain.data.open(data))
        settings = Settings(
            data, test, rate, count, warmup, not constant, head_factor, seed, learnt
        )
        info = _start(content, str(image), settings, out, device, baud, as_json, cache)
    show(as_json, info, lambda: _draw(info, out))


def _start(
    image: bytes,
    name: str,
    settings: Settings,
    out: Path,
    device: str,
    baud: int | None,
    quiet: bool,
    cached: bool,
) -> Mapping[str, Any]:
    with Stopper() as stopper:
        work = Work(image, settings, out, device, stopper, quiet, name, cached)
        with locked(make_folder(out)):
            fresh_folder(out, image)
            with open_with_image(device, out / IMAGE, baud) as session:
                return work.start(session)


def _resume(
    out: Path, device: str, baud: int | None, quiet: bool, cached: bool
) -> Mapping[str, Any]:
    # What is no folder, `Run.load` refuses.
    with Stopper() as stopper, locked(out) if out.is_dir() else nullcontext():
        before = Run.load(out)
        settings = settings_of(before)
        work = Work(before.image, settings, out, device, stopper, quiet, cached=cached)
        with open_with_image(device, out / IMAGE, baud) as session:
            return work.resume(session, before.info)


def _draw(info: Mapping[str, Any], out: Path) -> None:
    stats, settings = info["stats"], info["settings"]
    with_image = info["device"]["image"]["place"] == Place.SRAM
    grid = table(f"run {escape(str(out))}", "what", " value")
    for name in ("before", "after"):
        if name in info:
            grid.add_row(f"accuracy {name}", f"{info[name]['accuracy']:.1%}")
    grid.add_row("steps", f"{settings['steps']:,}")
    pool = "SRAM: pool, image included" if with_image else "SRAM: pool"
    for label, name in (
        (f"{pool}, planned", "pool_planned"),
        (f"{pool}, used", "pool_used"),
        # The host engine has no stack of its own to measure.
        *([("SRAM: stack, used", "stack_used")] if stats["stack_bytes"] else []),
        ("values that saturated", "saturated"),
        ("samples learnt already", "learnt"),
        ("frames damaged on the link", "damaged"),
    ):
        grid.add_row(label, f"{stats[name]:,}")
    OUT.print(grid)
    if "after" not in info:
        ERR.print("accuracy was not measured: --test DATA does that", highlight=False)
    elif sum(any(row) for row in info["after"]["confusion"]) == 1 < len(info["after"]["confusion"]):
        ERR.print(
            "all samples of --test are of one class, which says little: files are often sorted "
            "by class, and seed=1 before count=N shuffles them",
            highlight=False,
        )
    following = shlex.join(["mcutrain", "report", str(out), "-o", "report.html"])
    ERR.print(f"next: {following}", highlight=False, markup=False, soft_wrap=True)
