"""One training run in its folder: evaluation, steps, checkpoints, evaluation."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import mcutrain.data
from mcutrain.cli.common import progress
from mcutrain.cli.evaluate import check_state, run_evaluation
from mcutrain.cli.interrupt import Stopper
from mcutrain.cli.saturation import outside_input
from mcutrain.data import Dataset
from mcutrain.errors import InputError, InterruptedRunError, LinkError
from mcutrain.files import make_folder, write_atomic
from mcutrain.image.unpack import Image, unpack
from mcutrain.link import Device
from mcutrain.link.session import Session
from mcutrain.report.log import FORMAT, IMAGE, LOG, RUN, LogWriter, Run
from mcutrain.trainer import (
    CACHE_BYTES,
    CachedDevice,
    Checkpoint,
    Inputs,
    PrefixCache,
    Schedule,
    encoder,
    inputs_of,
    train,
)

SAVE_SECONDS = 10.0
_SMOOTH = 0.98


@dataclass(frozen=True)
class Settings:
    """What decides the result of a run; all of it is in run.json.

    Attributes:
        data, test: specs of the samples to train on and to evaluate with.
        seed: of the order of the samples and of the device's random bits.
        rate, steps, warmup, cosine, head_factor: see `mcutrain.trainer.Schedule`.
        learnt: samples with a smaller loss are not trained on.
    """

    data: str
    test: str | None
    rate: float
    steps: int
    warmup: float = 0.1
    cosine: bool = True
    head_factor: float = 1.0
    seed: int = 0
    learnt: float = 0.0

    def schedule(self) -> Schedule:
        """The learning rates."""
        return Schedule(self.rate, self.steps, self.warmup, self.cosine, self.head_factor)


class Work:
    """A run, from evaluation to evaluation; whatever ends it, the folder can be resumed.

    Args:
        image: the bytes of the image to train.
        settings: what to train on, and how.
        out: the run folder.
        device: the device's name, for run.json and messages.
        stopper: asked between steps whether to stop.
        quiet: draw no progress bar.
        name: the image's file, for errors; without, the one in the run folder.
        cached: on the host, keep what the frozen part of the network makes of each sample.
    """

    def __init__(
        self,
        image: bytes,
        settings: Settings,
        out: Path,
        device: str,
        stopper: Stopper,
        quiet: bool,
        name: str = "",
        cached: bool = True,
    ) -> None:
        self._bytes = image
        self._settings = settings
        self._schedule = settings.schedule()
        self._out = out
        self._device = device
        self._stopper = stopper
        self._quiet = quiet
        self._cached = cached and device == "host"
        self._info: dict[str, Any] = {"format": FORMAT, "settings": asdict(settings)}
        self._image = unpack(image, name or str(out / IMAGE))
        names = self._image.metadata["classes"]
        self._data = mcutrain.data.open(settings.data).labelled_as(names)
        self._encode = encoder(self._image, self._data)
        self._inputs = inputs_of(self._data, self._encode)
        self._test: tuple[Dataset, Inputs] | None = None
        # An image with a new classifier has no names: its classes are those of the data.
        self._info["classes"] = list(self._data.classes)
        self._info["samples"] = {"data": _identity(self._data)}
        self._info["outside_input"] = {"data": self._outside(self._data)}
        if settings.test is not None:
            test = mcutrain.data.open(settings.test).labelled_as(names)
            test = test.labelled_as(self._data.classes)
            self._info["samples"]["test"] = _identity(test)
            self._test = (test, inputs_of(test, encoder(self._image, test)))
            self._info["outside_input"]["test"] = self._outside(test)

    def start(self, session: Session) -> Mapping[str, Any]:
        """Run from the first step on; returns what run.json holds then."""
        opened = session.open(self._bytes)
        device = self._on(session)
        device.reset(self._settings.seed)
        checkpoint = Checkpoint(0, device.read_state())
        checkpoint.save(self._out)
        self._info["device"] = {"name": self._device} | asdict(opened)
        self._save_info()
        return self._go_on(device, checkpoint)

    def resume(self, session: Session, info: Mapping[str, Any]) -> Mapping[str, Any]:
        """Go on after the last checkpoint; `info` is the run.json of the earlier part."""
        checkpoint = checkpoint_of(self._out, self._image)
        if checkpoint.step > self._schedule.steps:
            raise InputError(
                "the checkpoint is from behind the end of the run",
                where=str(self._out),
                why=f"step {checkpoint.step} of {self._schedule.steps}",
                hint="start the run anew in another folder, without --resume",
            )
        self._check_samples(info)
        opened = session.open(self._bytes)
        device = self._on(session)
        device.write_state(checkpoint.state)
        self._info = {**info, "device": {"name": self._device} | asdict(opened)}
        return self._go_on(device, checkpoint)

    def _outside(self, data: Dataset) -> float:
        return outside_input(data, self._image.inputs[0].q, self._quiet)

    def _check_samples(self, info: Mapping[str, Any]) -> None:
        """Refuse samples that are not those that the run began with."""
        specs = {"data": self._settings.data, "test": self._settings.test}
        for name, now in self._info["samples"].items():
            then = info.get("samples", {}).get(name, now)
            if then != now:
                raise InputError(
                    "the samples are not those that the run began with",
                    where=str(specs[name]),
                    why=f"they are {now}, and were {then}",
                    hint="bring them back, or start a run with these in another folder",
                )

    def _on(self, session: Session) -> Device:
        """What the run takes place on; the samples are made ready for it."""
        if not self._cached:
            return session
        device = CachedDevice(session, self._bytes, str(self._out / IMAGE))
        self._inputs = PrefixCache(device.engine, self._data, CACHE_BYTES // 4 * 3)
        if self._test is not None:
            data = self._test[0]
            self._test = (data, PrefixCache(device.engine, data, CACHE_BYTES // 4))
        return device

    def _go_on(self, device: Device, checkpoint: Checkpoint) -> Mapping[str, Any]:
        try:
            self._evaluate(device, "before")
            self._train(device, checkpoint.step)
            self._evaluate(device, "after")
        except KeyboardInterrupt:  # a second Ctrl-C, while the device was being waited for
            raise self._stopped() from None
        except LinkError as error:
            error.hint = "; then ".join(h for h in (error.hint, self._command()) if h)
            raise
        self._info["stats"] = asdict(device.stats())
        self._save_info()
        return self._info

    def _evaluate(self, device: Device, name: str) -> None:
        if self._test is None or name in self._info:
            return
        data, inputs = self._test
        title = f"accuracy {name}"
        result = run_evaluation(
            device, data, inputs, title, self._quiet, lambda: self._stopper.wanted
        )
        if result is None:
            raise self._stopped()
        self._info[name] = result.to_dict()
        self._save_info()

    def _train(self, device: Device, start: int) -> None:
        schedule, settings = self._schedule, self._settings
        if isinstance(device, CachedDevice) and start < schedule.steps:
            sample, label = self._encode(self._data.sample(0)), int(self._data.y[0])
            device.check(sample, label, schedule.at(start))
        log = LogWriter(self._out / LOG, start)
        done, saved_at = start, time.monotonic()
        bar = _Bar()
        try:
            with progress(self._quiet) as display:
                task = display.add_task("training", total=schedule.steps, completed=start, note="")
                for record in train(
                    device,
                    self._data,
                    self._inputs,
                    schedule,
                    seed=settings.seed,
                    start=start,
                    learnt=settings.learnt,
                ):
                    log.write(record)
                    done = int(record["number"]) + 1
                    display.update(task, completed=done, note=bar.note(record))
                    if time.monotonic() - saved_at > SAVE_SECONDS or self._stopper.wanted:
                        Checkpoint(done, device.read_state()).save(self._out)
                        saved_at = time.monotonic()
                    if self._stopper.wanted:
                        raise self._stopped()
        finally:
            log.close()
        Checkpoint(done, device.read_state()).save(self._out)

    def _stopped(self) -> InterruptedRunError:
        return InterruptedRunError(
            "stopped",
            where=str(self._out),
            why="by the user; what was trained so far is saved",
            hint=self._command(),
        )

    def _command(self) -> str:
        """What goes on with this run."""
        words = ["mcutrain", "train", "--resume", "--out", str(self._out)]
        return shlex.join([*words, "--device", self._device])

    def _save_info(self) -> None:
        write_atomic(self._out / RUN, json.dumps(self._info, indent=2) + "\n")


def _identity(data: Dataset) -> dict[str, int]:
    return {"count": len(data), "crc32": data.crc32()}


def fresh_folder(out: Path, image: bytes, following: str | None = None) -> Path:
    """Make a run folder with the image in it; `following` is what goes on with one that is there.

    Raises:
        InputError: there is a run in it already, or it cannot be written.
    """
    if (out / RUN).exists():
        raise InputError(
            "there is a run in this folder already",
            where=str(out),
            hint="choose another --out, or go on with it: "
            + (following or shlex.join(["mcutrain", "train", "--resume", "--out", str(out)])),
        )
    write_atomic(make_folder(out) / IMAGE, image)
    return out


def settings_of(run: Run) -> Settings:
    """The settings of a run folder.

    Raises:
        InputError: another version of mcutrain wrote them, or a stream trained it.
    """
    given = run.info["settings"]
    numbers = (int, float)
    kinds: dict[str, Any] = {"data": str, "test": (str, type(None)), "cosine": bool}
    kinds |= {"steps": int, "seed": int}
    names = {field.name for field in fields(Settings)}
    wrong = sorted(
        name
        for name in names | set(given)
        if name not in names & set(given) or not isinstance(given[name], kinds.get(name, numbers))
    )
    if wrong:
        raise InputError(
            "the settings of the run cannot be read",
            where=str(run.folder / RUN),
            why=f"'{wrong[0]}' is {given.get(wrong[0], 'absent')!r}",
            hint="it is damaged, or another version of mcutrain wrote it: train anew",
        )
    return replace(Settings(**given), data=run.data)


def checkpoint_of(folder: Path, image: Image) -> Checkpoint:
    """The last checkpoint of a run folder, which must be one of the image.

    Raises:
        InputError: there is none, it is damaged, or of another image.
    """
    checkpoint = Checkpoint.load(folder)
    check_state(checkpoint.state, image, str(folder))
    return checkpoint


class _Bar:
    """Figures beside the progress bar: smoothed loss and accuracy, rate, samples a second."""

    def __init__(self) -> None:
        self._weight = self._loss = self._right = self._seconds = 0.0

    def note(self, record: Mapping[str, Any]) -> str:
        self._weight = _SMOOTH * self._weight + 1
        self._loss = _SMOOTH * self._loss + record["loss"]
        self._right = _SMOOTH * self._right + (record["predicted"] == record["label"])
        self._seconds = _SMOOTH * self._seconds + record["seconds"]
        speed = self._weight / self._seconds if self._seconds else 0.0
        return (
            f"loss {self._loss / self._weight:.3f}  right {self._right / self._weight:.0%}  "
            f"rate {record['rate']:.2g}  {speed:.1f}/s"
        )
