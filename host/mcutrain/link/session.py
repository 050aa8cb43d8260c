"""A device at the other end of a line, with the methods that the trainer uses."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from types import TracebackType
from typing import Self, TypeVar, cast

from mcutrain.errors import FitError, ImageError, InputError, LinkError, UsageError
from mcutrain.image.unpack import Image, unpack
from mcutrain.link import speed, transfer, wire
from mcutrain.link.ahead import Ahead
from mcutrain.link.channel import Channel, Values
from mcutrain.link.device import (
    DeviceInfo,
    ImageInfo,
    Prediction,
    SavedState,
    Stats,
    StepResult,
)
from mcutrain.link.effort import DeviceRefusal, Patience
from mcutrain.link.refusals import explain, no_place
from mcutrain.link.transport import Transport
from mcutrain.link.values import bits, device_info, numbers, step_result

_IMAGE_ALIGN = 16  # of an image in SRAM

T = TypeVar("T")


class Session:
    """One session with a device; satisfies `Device`.

    Args:
        transport: the line.
        where: the user's name for the device, for messages.
        patience: how long to wait for each response.
        new_id: gives a session id of 1 to 65535, by chance if absent.
        baud: the rate to agree on, `speed.FASTEST`, or None: the one at which the device answers.

    Raises:
        LinkError: nothing answers, or not by this protocol.
    """

    def __init__(
        self,
        transport: Transport,
        where: str,
        patience: Patience | None = None,
        new_id: Callable[[], int] | None = None,
        baud: int | None = None,
    ) -> None:
        self._where = where
        self._channel = Channel(transport, where, patience, new_id)
        self._image: ImageInfo | None = None
        self._parsed: Image | None = None  # names layers in messages
        self._step = 0
        self._ahead = Ahead(self._channel)
        self._following: bytes | None = None
        try:
            self.info = self.hello()
            if baud is not None:
                speed.raise_speed(self._channel, baud)
        except BaseException:
            transport.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the line; the device keeps what it has. A second call does nothing."""
        speed.lower_speed(self._channel)
        self._channel.close()

    @property
    def baud(self) -> int | None:
        """The rate of the line; None where it has none."""
        return self._channel.baud

    def hello(self) -> DeviceInfo:
        """Opens the session anew and asks the device what it is.

        Raises:
            LinkError: as the class.
        """
        with self._explained():
            values = self._channel.open()
        self.info = device_info(values, self._image)
        self._step = self.info.step
        return self.info

    # The image.

    def open(self, image: bytes) -> DeviceInfo:
        """Loads an image and puts its initial state in place.

        It goes to SRAM where it fits beside state and arena, else to the flash partition, unless
        it lies there already.

        Raises:
            ImageError: it is no image, or the executor refuses it.
            FitError: it fits neither way.
            LinkError: as every method.
        """
        self._parsed = unpack(image)
        header = self._parsed.header
        block = -(-int(header["state_bytes"]) // 4) * 4 + int(header["arena_bytes"])
        in_sram = (self.info.pool_bytes - len(image)) & ~(_IMAGE_ALIGN - 1)
        if block <= in_sram:
            self.upload(image, wire.Place.SRAM)
            return self.open_loaded(wire.Place.SRAM, image)
        if self._is_in_flash(image):
            return self.info
        self._upload_to_flash(image, block)
        return self.open_loaded(wire.Place.FLASH, image)

    def upload(self, image: bytes, place: wire.Place) -> None:
        """Sends an image to a place, without opening it.

        Raises:
            FitError: the place is too small.
        """
        self._image = None
        self._request(wire.IMAGE_BEGIN, place=int(place), size=len(image))
        with self._explained():
            transfer.send(self._channel, wire.Target.IMAGE, image)

    def open_loaded(self, place: wire.Place, image: bytes | None = None) -> DeviceInfo:
        """Opens what is in place already; of the flash partition, `image` need not be known.

        Raises:
            ImageError: it is refused, or is not `image`.
            FitError: state and arena do not fit into the pool.
        """
        self._image = None
        size, crc = (len(image), zlib.crc32(image)) if image is not None else (0, 0)
        values = self._request(wire.IMAGE_OPEN, place=int(place), size=size, crc=crc)
        return self._opened(values, step=0)

    def attach(self) -> DeviceInfo:
        """Goes on with the image that the device has open, trained state and all.

        Raises:
            LinkError: it has none.
        """
        return self._opened(self._request(wire.IMAGE_INFO), self._step)

    def reset(self, seed: int | None = None) -> None:
        """Back to the image's initial state, with another seed of the random bits if given."""
        self._request(wire.RESET, set_seed=int(seed is not None), seed=(seed or 0) & 0xFFFFFFFF)
        self._step = 0

    # Samples and runs.

    def train_step(
        self, sample: bytes, label: int, lr: float, lr_head: float, learnt: float = 0.0
    ) -> StepResult:
        """One step; see `Device`."""
        following, self._following = self._following, None
        if not self._ahead.useful(sample, following):
            return self._run_with(sample, lambda: self.step(label, lr, lr_head, learnt=learnt))
        values = self._step_values(label, (lr, lr_head, learnt), 0)
        with self._explained():
            return self._stepped(self._ahead.step(sample, values, following))

    def announce(self, sample: bytes) -> None:
        """Says which sample will come after the next step: it may be sent while that one runs."""
        if len(sample) == self._opened_image().sample_bytes:
            self._following = sample

    def predict(self, sample: bytes) -> Prediction:
        """One forward pass; see `Device`."""
        return self._run_with(sample, self.evaluate)

    def set_sample(self, sample: bytes, acknowledged: bool = True) -> None:
        """Puts a sample into the inputs for the next run.

        Args:
            sample: the bytes of all inputs, one after the other.
            acknowledged: as of `transfer.send`.

        Raises:
            InputError: it has another size than the inputs.
        """
        wanted = self._opened_image().sample_bytes
        if len(sample) != wanted:
            raise InputError(
                "the sample does not have the size of the network's input",
                where=self._where,
                why=f"{len(sample)} bytes given, {wanted} wanted",
            )
        with self._explained():
            transfer.send(self._channel, wire.Target.SAMPLE, sample, acknowledged)

    def sample_from_memory(self, offset: int) -> None:
        """Takes the sample from `offset` of the flash partition, where an emulator put it."""
        self._request(wire.SAMPLE_MEMORY, offset=offset)

    def step(
        self, label: int, lr: float, lr_head: float, flags: int = 0, learnt: float = 0.0
    ) -> StepResult:
        """One training step with the sample in place; flags say what to record meanwhile.

        Raises:
            UsageError: the label or a rate cannot be.
            DivergedError: a logit is not finite; nothing has changed.
            FitError: no room for the records.
        """
        values = self._step_values(label, (lr, lr_head, learnt), int(flags))
        return self._stepped(self._request(wire.STEP, **values))

    def _step_values(self, label: int, rates: tuple[float, float, float], flags: int) -> Values:
        classes = self._opened_image().classes
        if not 0 <= label < classes:
            raise UsageError(
                f"label {label} is not a class of the network",
                where=self._where,
                why=f"it has the classes 0 to {classes - 1}",
            )
        names = ("lr", "lr_head", "learnt")
        return {"label": label, "flags": flags, **dict(zip(names, map(bits, rates), strict=True))}

    def _stepped(self, values: Values) -> StepResult:
        result = step_result(values)
        self._step = result.step
        return result

    def evaluate(self, flags: wire.RunFlag | int = 0) -> Prediction:
        """One forward pass with the sample in place."""
        classes = self._opened_image().classes
        if classes * 4 > self._channel.frame.bytes:  # a response of that size may not get through
            flags |= wire.RunFlag.NO_LOGITS
        values = self._request(wire.EVAL, flags=int(flags))
        fields = numbers(values)
        raw = cast(bytes, values["logits"])
        if not raw:
            raw = self._read(wire.Source.LOGITS, classes * 4)
        logits = struct.unpack(f"<{classes}f", raw)
        return Prediction(fields["predicted"], logits, fields["ticks"])

    def ticks(self, instructions: int) -> tuple[int, ...]:
        """Counter ticks of each instruction of the last run with RunFlag.PROFILE."""
        raw = self._read(wire.Source.PROFILE, instructions * 4)
        return struct.unpack(f"<{instructions}I", raw)

    def trace(self, instructions: int) -> tuple[int, ...]:
        """CRC-32 of what each instruction wrote in the last run with RunFlag.TRACE."""
        raw = self._read(wire.Source.TRACE, instructions * 4)
        return struct.unpack(f"<{instructions}I", raw)

    # State and statistics.

    def read_state(self) -> bytes:
        """Everything that is kept between steps."""
        return self._read(wire.Source.STATE, self._opened_image().state_bytes)

    def write_state(self, state: bytes) -> None:
        """Replaces it; see `Device`."""
        wanted = self._opened_image().state_bytes
        if len(state) != wanted:
            raise InputError(
                "the state is of another image",
                where=self._where,
                why=f"{len(state)} bytes given, {wanted} wanted",
            )
        with self._explained():
            transfer.send(self._channel, wire.Target.STATE, state)

    def save(self) -> SavedState:
        """Keeps the state in the device's flash, whatever power does.

        Raises:
            LinkError: the device has no such flash, or cannot write it.
            FitError: the state is larger than a slot.
        """
        return SavedState(**numbers(self._request(wire.SAVE)))

    def load_saved(self) -> SavedState:
        """Goes on from the saved state of the open image.

        Raises:
            LinkError: there is none.
        """
        saved = SavedState(**numbers(self._request(wire.LOAD)))
        self._step = saved.step
        return saved

    def stats(self) -> Stats:
        """Counters and high-water marks of the device, counts of the host."""
        counts = {f"host_{name}": value for name, value in asdict(self._channel.counts).items()}
        return Stats(**numbers(self._request(wire.STATS)), **counts)

    def reboot(self) -> DeviceInfo:
        """Resets the device and opens a session with it; it has no image then."""
        self._image = None
        baud = self._channel.baud
        try:
            self._channel.request(wire.REBOOT, {})
        except DeviceRefusal as refusal:
            # Its response was lost, and the copy met a device that had just started.
            if refusal.code != wire.ErrorCode.NO_SESSION:
                raise explain(refusal) from None
        self._channel.set_baud(self._channel.start_baud)
        info = self.hello()
        if baud is not None:
            speed.raise_speed(self._channel, baud)
        return info

    # How.

    def _run_with(self, sample: bytes, run: Callable[[], T]) -> T:
        """Sends the request for a run right behind the sample: the device is never waited for."""
        self.set_sample(sample, acknowledged=False)
        try:
            return run()
        except DeviceRefusal as refusal:
            # Refused is not carried out, so that it may be asked for again.
            if refusal.code != wire.ErrorCode.INCOMPLETE:
                raise
        self.set_sample(sample)
        return run()

    def _is_in_flash(self, image: bytes) -> bool:
        if len(image) > self.info.flash_bytes:
            return False
        try:
            self.open_loaded(wire.Place.FLASH, image)
        except ImageError:
            return False
        return True

    def _upload_to_flash(self, image: bytes, block: int) -> None:
        try:
            self.upload(image, wire.Place.FLASH)
        except (DeviceRefusal, FitError) as error:
            if isinstance(error, DeviceRefusal) and error.code != wire.ErrorCode.FLASH:
                raise
            raise no_place(self._where, block, len(image), self.info) from None

    def _opened(self, values: Values, step: int) -> DeviceInfo:
        self._image = ImageInfo(
            model_hash=cast(bytes, values["model_hash"]).hex(), **numbers(values)
        )
        self._step = step
        self.info = replace(self.info, image=self._image, image_crc=self._image.crc, step=step)
        return self.info

    def _opened_image(self) -> ImageInfo:
        if self._image is None:
            raise LinkError("no image is open on the device", where=self._where)
        return self._image

    def _read(self, source: wire.Source, length: int) -> bytes:
        with self._explained():
            return transfer.read(self._channel, source, length)

    def _request(self, message: wire.Message, **values: wire.Value) -> Values:
        with self._explained():
            return self._channel.request(message, values)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except DeviceRefusal as refusal:
            if refusal.code != wire.ErrorCode.NO_SESSION:
                raise explain(refusal, self._parsed) from None
            raise self._restarted() from None

    def _restarted(self) -> LinkError:
        """The device has forgotten the session: it was reset. Asks it why."""
        step, self._image = self._step, None
        why = "power, reset button or watchdog"
        try:
            fault = self.hello().fault
        except LinkError:
            fault = None
        if fault is not None:
            why = f"CPU fault at {fault.pc:#010x} (lr {fault.lr:#010x}, CFSR {fault.cfsr:#010x}, "
            why += f"address {fault.address:#010x})"
        return LinkError(
            f"the device restarted at step {step}",
            where=self._where,
            why=why,
            hint="load the image again and write back the state that was read last",
        )
