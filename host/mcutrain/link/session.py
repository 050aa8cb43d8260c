"""A device at the other end of a line, with the methods that the trainer uses."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from types import TracebackType
from typing import Self, cast

from mcutrain.errors import FitError, ImageError, InputError, LinkError, UsageError
from mcutrain.image.unpack import Image, unpack
from mcutrain.link import transfer, wire
from mcutrain.link.channel import Channel, Values
from mcutrain.link.device import (
    Counter,
    DeviceInfo,
    Fault,
    ImageInfo,
    Prediction,
    SavedState,
    Stats,
    StepResult,
)
from mcutrain.link.effort import DeviceRefusal, Patience
from mcutrain.link.refusals import explain
from mcutrain.link.transport import Transport

_COUNTER_KINDS = {0: "emulated", 1: "cycles", 2: "ticks"}
_IMAGE_ALIGN = 16  # of an image in SRAM


def _numbers(values: Mapping[str, wire.Value]) -> dict[str, int]:
    return {name: value for name, value in values.items() if isinstance(value, int)}


def _bits(value: float) -> int:
    try:
        packed = struct.pack("<f", value)
    except OverflowError:
        packed = struct.pack("<f", math.inf)
    return int.from_bytes(packed, "little")


class Session:
    """One session with a device; satisfies `Device`.

    Args:
        transport: the line.
        where: the user's name for the device, for messages.
        patience: how long to wait for each response.
        new_id: gives a session id of 1 to 65535, by chance if absent.

    Raises:
        LinkError: nothing answers, or not by this protocol.
    """

    def __init__(
        self,
        transport: Transport,
        where: str,
        patience: Patience | None = None,
        new_id: Callable[[], int] | None = None,
    ) -> None:
        self._where = where
        self._channel = Channel(transport, where, patience, new_id)
        self._image: ImageInfo | None = None
        self._parsed: Image | None = None  # names layers in messages
        self._step = 0
        try:
            self.info = self.hello()
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
        self._channel.close()

    def hello(self) -> DeviceInfo:
        """Opens the session anew and asks the device what it is.

        Raises:
            LinkError: as the class.
        """
        with self._explained():
            values = self._channel.open()
        numbers = _numbers(values)
        fault = Fault(*(numbers[f"fault_{name}"] for name in ("pc", "lr", "cfsr", "address")))
        self._step = numbers["step"]
        self.info = DeviceInfo(
            board=cast(str, values["board"]),
            build=cast(bytes, values["build"]).hex(),
            format_version=numbers["format_version"],
            pool_bytes=numbers["pool_bytes"],
            flash_bytes=numbers["flash_bytes"],
            stack_bytes=numbers["stack_bytes"],
            app_bytes=numbers["app_bytes"],
            counter=Counter(
                _COUNTER_KINDS.get(numbers["counter_kind"], "ticks"),
                numbers["counter_num"],
                numbers["counter_den"],
            ),
            step=self._step,
            image_crc=numbers["image_crc"] if numbers["image_open"] else None,
            fault=fault if fault.pc else None,
            image=self._image,
        )
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

    def train_step(self, sample: bytes, label: int, lr: float, lr_head: float) -> StepResult:
        """One step; see `Device`."""
        self.set_sample(sample)
        return self.step(label, lr, lr_head)

    def predict(self, sample: bytes) -> Prediction:
        """One forward pass; see `Device`."""
        self.set_sample(sample)
        return self.evaluate()

    def set_sample(self, sample: bytes) -> None:
        """Puts a sample into the inputs for the next run.

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
            transfer.send(self._channel, wire.Target.SAMPLE, sample)

    def sample_from_memory(self, offset: int) -> None:
        """Takes the sample from `offset` of the flash partition, where an emulator put it."""
        self._request(wire.SAMPLE_MEMORY, offset=offset)

    def step(
        self, label: int, lr: float, lr_head: float, flags: wire.RunFlag | int = 0
    ) -> StepResult:
        """One training step with the sample in place; flags say what to record meanwhile.

        Raises:
            UsageError: the label or a rate cannot be.
            DivergedError: a logit is not finite; nothing has changed.
            FitError: no room for the records.
        """
        classes = self._opened_image().classes
        if not 0 <= label < classes:
            raise UsageError(
                f"label {label} is not a class of the network",
                where=self._where,
                why=f"it has the classes 0 to {classes - 1}",
            )
        numbers = _numbers(
            self._request(
                wire.STEP, label=label, lr=_bits(lr), lr_head=_bits(lr_head), flags=int(flags)
            )
        )
        self._step = numbers["step"]
        loss_bits = numbers.pop("loss")
        loss = struct.unpack("<f", struct.pack("<I", loss_bits))[0]
        return StepResult(loss=loss, loss_bits=loss_bits, **numbers)

    def evaluate(self, flags: wire.RunFlag | int = 0) -> Prediction:
        """One forward pass with the sample in place."""
        classes = self._opened_image().classes
        if classes * 4 > self._channel.frame.bytes:  # a response of that size may not get through
            flags |= wire.RunFlag.NO_LOGITS
        values = self._request(wire.EVAL, flags=int(flags))
        numbers = _numbers(values)
        raw = cast(bytes, values["logits"])
        if not raw:
            raw = self._read(wire.Source.LOGITS, classes * 4)
        logits = struct.unpack(f"<{classes}f", raw)
        return Prediction(numbers["predicted"], logits, numbers["ticks"])

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
        return SavedState(**_numbers(self._request(wire.SAVE)))

    def load_saved(self) -> SavedState:
        """Goes on from the saved state of the open image.

        Raises:
            LinkError: there is none.
        """
        saved = SavedState(**_numbers(self._request(wire.LOAD)))
        self._step = saved.step
        return saved

    def stats(self) -> Stats:
        """Counters and high-water marks of the device, counts of the host."""
        counts = {f"host_{name}": value for name, value in asdict(self._channel.counts).items()}
        return Stats(**_numbers(self._request(wire.STATS)), **counts)

    def reboot(self) -> DeviceInfo:
        """Resets the device and opens a session with it; it has no image then."""
        self._image = None
        try:
            self._channel.request(wire.REBOOT, {})
        except DeviceRefusal as refusal:
            # Its response was lost, and the copy met a device that had just started.
            if refusal.code != wire.ErrorCode.NO_SESSION:
                raise explain(refusal) from None
        return self.hello()

    # How.

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
            raise FitError(
                "the image does not fit into the device's SRAM, and its flash cannot take it",
                where=self._where,
                why=f"state and arena need {block} bytes, the image {len(image)}; the pool has "
                f"{self.info.pool_bytes}, the flash partition {self.info.flash_bytes} (or cannot "
                "be written)",
                hint="choose a smaller network or update scheme: `mcutrain plan` shows what fits",
            ) from None

    def _opened(self, values: Values, step: int) -> DeviceInfo:
        numbers = _numbers(values)
        self._image = ImageInfo(model_hash=cast(bytes, values["model_hash"]).hex(), **numbers)
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
