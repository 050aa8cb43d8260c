"""What the trainer needs of a device, and the records it gets back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class Counter:
    """The device's counter: events = ticks * num / den.

    kind: "emulated" (instructions of an emulator), "cycles" (of the CPU) or "ticks" (of a timer).
    """

    kind: str
    num: int
    den: int

    def events(self, ticks: int) -> int:
        """Instructions or cycles of that many ticks, rounded to nearest."""
        return (ticks * self.num + self.den // 2) // self.den


@dataclass(frozen=True)
class Fault:
    """The CPU fault that caused the last reset."""

    pc: int
    lr: int
    cfsr: int
    address: int


@dataclass(frozen=True)
class ImageInfo:
    """The open image; sizes are in bytes, `model_hash` in hex.

    place: 0 SRAM, 1 flash partition. free_bytes: of the pool, beside image, state and arena.
    """

    place: int
    size: int
    crc: int
    model_hash: str
    state_bytes: int
    arena_bytes: int
    sample_bytes: int
    classes: int
    forward: int
    instructions: int
    free_bytes: int


@dataclass(frozen=True)
class DeviceInfo:
    """What the device says of itself; sizes are in bytes.

    build: the firmware's build id, 16 hex digits. step: training steps of the state, 0 without
    image. image_crc: of the open image's header, None without one. image: None until opened by
    this session.
    """

    board: str
    build: str
    format_version: int
    pool_bytes: int
    flash_bytes: int
    stack_bytes: int
    app_bytes: int
    counter: Counter
    step: int
    image_crc: int | None
    fault: Fault | None
    image: ImageInfo | None = None


@dataclass(frozen=True)
class StepResult:
    """One training step. step: steps of the state, this one included. loss: of the sample before
    the update, loss_bits its binary32 pattern. skipped: instructions of the backward pass that had
    nothing to do (the sample is learnt, or all errors that they read are 0). ticks are
    those of DeviceInfo.counter."""

    step: int
    loss: float
    loss_bits: int
    predicted: int
    saturated: int
    clamped: int
    skipped: int
    ticks_forward: int
    ticks_backward: int

    @property
    def ticks(self) -> int:
        """Counter ticks of the whole step."""
        return self.ticks_forward + self.ticks_backward


@dataclass(frozen=True)
class SavedState:
    """A state in the device's flash. step: its training steps; state_bytes: its size.

    erasures_0, erasures_1: how often the two slots of flash were erased so far.
    """

    step: int
    state_bytes: int
    erasures_0: int
    erasures_1: int


@dataclass(frozen=True)
class Prediction:
    """One evaluation. logits: exact binary32 values, one a class."""

    predicted: int
    logits: tuple[float, ...]
    ticks: int


@dataclass(frozen=True)
class Stats:
    """Counters since the device started and high-water marks, as in SPEC-wire (STATS); the last
    four are the host's own counts of this session."""

    stack_bytes: int
    stack_used: int
    pool_bytes: int
    pool_planned: int
    pool_used: int
    guard_bytes: int
    guard_changed: int
    steps: int
    evals: int
    saturated: int
    clamped: int
    skipped: int
    learnt: int
    frames: int
    damaged: int
    stale: int
    resent: int
    rx_overruns: int
    rx_stalls: int
    host_resent: int = 0
    host_damaged: int = 0
    host_naks: int = 0
    host_waits: int = 0


class Device(Protocol):
    """Something that runs an image: a board, an emulated one, or the host.

    Every method may raise LinkError where the device is remote.
    """

    def open(self, image: bytes) -> DeviceInfo:
        """Loads an image and puts its initial state in place.

        Raises:
            ImageError: the executor refuses the image.
            FitError: it needs more memory than there is.
        """
        ...

    def train_step(
        self, sample: bytes, label: int, lr: float, lr_head: float, learnt: float = 0.0
    ) -> StepResult:
        """One step at these rates. sample: the bytes of all inputs, one after the other.

        A sample with a loss below `learnt` changes nothing but the count of steps.

        Raises:
            InputError: the sample has another size, or (DivergedError) a logit is not finite; the
                state is what it was before.
            UsageError: label, a rate or `learnt` cannot be.
        """
        ...

    def predict(self, sample: bytes) -> Prediction:
        """One forward pass; the state stays.

        Raises:
            InputError: as `train_step`.
        """
        ...

    def read_state(self) -> bytes:
        """Everything that is kept between steps."""
        ...

    def write_state(self, state: bytes) -> None:
        """Replaces it.

        Raises:
            InputError: it has another size.
            ImageError: the executor refuses it; the initial state is in its place.
        """
        ...

    def reset(self, seed: int | None = None) -> None:
        """Back to the image's initial state, with another seed of the random bits if given."""
        ...

    def stats(self) -> Stats:
        """Counters and high-water marks."""
        ...

    def close(self) -> None:
        """Lets go of the device; a second call does nothing."""
        ...


@runtime_checkable
class LooksAhead(Protocol):
    """A device to which the next sample can be sent while it computes."""

    def announce(self, sample: bytes) -> None:
        """Says which sample will come after the next step."""
        ...
