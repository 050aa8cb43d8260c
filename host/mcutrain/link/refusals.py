"""A device's error response as the error that tells the user what to do."""

from __future__ import annotations

from mcutrain.errors import FitError, ImageError, LinkError, McutrainError
from mcutrain.image.status import status_error
from mcutrain.image.unpack import Image
from mcutrain.link.device import DeviceInfo
from mcutrain.link.effort import DeviceRefusal
from mcutrain.link.wire import ErrorCode

_STORE_REASONS: dict[int, str] = {
    ErrorCode.NO_STORE: "this board has no flash for trained states",
    ErrorCode.NOTHING_SAVED: "no state of the open image is saved on the device",
}
_STORE_HINT = "`mcutrain train` keeps the state in its run folder, and --resume goes on from there"
_STATUS_CODES = (ErrorCode.IMAGE_REFUSED, ErrorCode.STATE_REFUSED, ErrorCode.RUN_FAILED)


def explain(refusal: DeviceRefusal, image: Image | None = None) -> McutrainError:
    """The user's error for an error response; the response itself where the user can do nothing.

    Args:
        refusal: the error response.
        image: names layers and tensors, where it is known.
    """
    where, a, b = refusal.where or "device", refusal.a, refusal.b
    if refusal.code in _STATUS_CODES:
        status = a - (1 << 32) if a >= 1 << 31 else a
        return status_error(status, b, refusal.c, image, where)
    if refusal.code == ErrorCode.IMAGE_CRC:
        return ImageError(
            "the image on the device is not the one that was sent",
            where=where,
            why=f"CRC {b:#010x} there, {a:#010x} here",
            hint="write it into the board's flash partition again",
        )
    if refusal.code == ErrorCode.NO_ROOM:
        return FitError(
            "the device has too little memory for this",
            where=where,
            why=f"{a} bytes needed, {b} available",
            hint="choose a smaller update scheme: `mcutrain plan` shows what fits",
        )
    if refusal.code in _STORE_REASONS:
        return LinkError(_STORE_REASONS[refusal.code], where=where, hint=_STORE_HINT)
    if refusal.code == ErrorCode.OTHER_SESSION:
        return LinkError(
            "another program uses this device",
            where=where,
            why="it has opened a session since",
            hint="end the other program, then start again",
        )
    if refusal.code == ErrorCode.VERSION:
        return LinkError(
            "the firmware speaks another version of the protocol",
            where=where,
            why=f"version {a} there, {b} here",
            hint="build and flash the firmware of this version of mcutrain",
        )
    return refusal


def no_place(where: str, block: int, image: int, info: DeviceInfo) -> FitError:
    """The error for an image of so many bytes that goes neither into SRAM nor into flash."""
    return FitError(
        "the image does not fit into the device's SRAM, and its flash cannot take it",
        where=where,
        why=f"state and arena need {block} bytes, the image {image}; the pool has "
        f"{info.pool_bytes}, the flash partition {info.flash_bytes} (or cannot be written)",
        hint="choose a smaller network or update scheme: `mcutrain plan` shows what fits",
    )
