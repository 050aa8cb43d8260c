"""What the executor's answers (kernels_c/include/mct_status.h) mean to a user.

The host engine and the link to a device share these texts: both run the same executor.
"""

from __future__ import annotations

from dataclasses import dataclass

from mcutrain.errors import ImageError, InputError, InternalError, McutrainError, UsageError
from mcutrain.image import format as fmt
from mcutrain.image.unpack import Image
from mcutrain.ir.instructions import INSTRUCTIONS


class DivergedError(InputError):
    """Training ran away: a logit or an error is infinite or not a number."""


class ImageRefusedError(ImageError):
    """The executor will not run an image, or will not take a state.

    Attributes:
        status: the executor's code (mct_status).
        index: field, tensor or instruction at fault, by the status.
        detail: slot, parameter, channel or other tensor at fault, by the status.
    """

    def __init__(
        self, status: Status, index: int, detail: int, where: str | None, hint: str
    ) -> None:
        why = f"{status.name} ({status.code}), index {index}, detail {detail}"
        super().__init__(status.text, where=where, why=why, hint=hint)
        self.status = status.code
        self.index = index
        self.detail = detail


@dataclass(frozen=True)
class Status:
    """One code: `place` says what `index` and `detail` of a refusal count."""

    code: int
    name: str
    text: str
    place: str = ""


_REPACK = "make the image again: mcutrain pack"
_SLOT, _PARAM, _CHANNEL = "instruction slot", "instruction param", "instruction channel"

STATUSES: dict[int, Status] = {
    s.code: s
    for s in (
        Status(-1, "MCT_ERR_NOT_FINITE", "training diverged: a logit or an error is not finite"),
        Status(-10, "MCT_ERR_ALIGNMENT", "the image or its memory is not 4-byte aligned"),
        Status(-11, "MCT_ERR_MEMORY", "the memory is too small for the image's state and arena"),
        Status(-12, "MCT_ERR_LABEL", "the label is not one of the image's classes"),
        Status(-13, "MCT_ERR_RATE", "a learning rate or loss limit is negative or not finite"),
        Status(-14, "MCT_ERR_NO_TRAINING", "the image holds a forward pass only"),
        Status(-15, "MCT_ERR_SAMPLE", "the sample is not complete, or too long"),
        Status(-16, "MCT_ERR_CANARY", "a kernel wrote beside a buffer", "instruction tensor"),
        Status(-20, "MCT_ERR_SIZE", "the image was cut or extended", "bytes"),
        Status(-21, "MCT_ERR_MAGIC", "this is not an image"),
        Status(-22, "MCT_ERR_VERSION", "the image has another format version"),
        Status(-23, "MCT_ERR_CRC", "the image is damaged: its CRC does not match"),
        Status(-24, "MCT_ERR_HEADER", "a field of the image's header cannot be", "header"),
        Status(-25, "MCT_ERR_TENSOR", "a tensor has a place or shape that cannot be", "tensor"),
        Status(-26, "MCT_ERR_STATE", "two tensors of the state share bytes", "tensor tensor"),
        Status(-27, "MCT_ERR_OP", "an instruction is of an unknown kind", "instruction"),
        Status(-28, "MCT_ERR_UNUSED", "an unused field of an instruction is set", "instruction"),
        Status(-29, "MCT_ERR_SLOT", "an operand is absent or of a wrong type", _SLOT),
        Status(-30, "MCT_ERR_SHAPE", "the shapes of an instruction do not agree", _SLOT),
        Status(-31, "MCT_ERR_PARAMETER", "a parameter is out of range", _PARAM),
        Status(-32, "MCT_ERR_TABLE", "a constant in a table is out of range", _SLOT),
        Status(-33, "MCT_ERR_WEIGHT", "a weight is -128", _SLOT),
        Status(-34, "MCT_ERR_BOUND", "a bias or weights could overflow an accumulator", _CHANNEL),
        Status(-35, "MCT_ERR_OVERLAP", "operands share memory that may not", _SLOT),
        Status(-36, "MCT_ERR_UNWRITTEN", "an operand is read whose bytes nothing wrote", _SLOT),
        Status(-37, "MCT_ERR_ORDER", "an instruction stands where it cannot", "instruction"),
        Status(-38, "MCT_ERR_SEGMENT", "a segment reads rows that are not there", "instruction"),
    )
}


def status_error(
    code: int, index: int = 0, detail: int = 0, image: Image | None = None, where: str = "image"
) -> McutrainError:
    """The error to raise for a status that is not 0.

    Args:
        code: the status.
        index: the refusal's place (mct_image_error).
        detail: as well.
        image: names layers and tensors, where the image could be read.
        where: the image's file name.
    """
    status = STATUSES.get(code)
    if status is None:
        return InternalError(f"the executor answered {code}, which is no status", where=where)
    if code == -1:
        return DivergedError(status.text, where=where, hint="train with a smaller --rate")
    if code in (-12, -13, -14):
        hints = {
            -12: "see its classes: mcutrain inspect",
            -13: "give --rate and --learnt numbers >= 0",
            -14: "choose what trains (mcutrain plan), then: mcutrain pack",
        }
        return UsageError(status.text, where=where, hint=hints[code])
    if code in (-10, -11):
        return InternalError(status.text, where=where)
    place = _place(status, index, detail, image)
    if code == -16:
        return InternalError(status.text, where=f"{where}{place}")
    return ImageRefusedError(status, index, detail, f"{where}{place}", _REPACK)


def _place(status: Status, index: int, detail: int, image: Image | None) -> str:
    kind, _, more = status.place.partition(" ")
    if kind == "header":
        fields = [f.name for f in fmt.HEADER.fields if fmt.HEADER.offset(f.name) == index]
        return f", header field {fields[0]}" if fields else ""
    if kind == "tensor":
        second = f" and {_tensor(detail, image)}" if more else ""
        return f", tensor {_tensor(index, image)}{second}"
    if kind == "instruction":
        return f", {_instruction(index, image)}{_part(more, index, detail, image)}"
    return ""


def _tensor(index: int, image: Image | None) -> str:
    known = image is not None and index < len(image.tensors)
    return image.tensors[index].name if image is not None and known else str(index)


def _instruction(index: int, image: Image | None) -> str:
    if image is None or index >= len(image.program):
        return f"instruction {index}"
    instr = image.program[index]
    return f"layer {instr.layer} ({instr.op}, instruction {index})"


def _part(kind: str, index: int, detail: int, image: Image | None) -> str:
    if kind == "channel":
        return f", channel {detail}"
    if kind == "tensor":
        return f", buffer of {_tensor(detail, image)}"
    if not kind or image is None or index >= len(image.program):
        return ""
    spec = INSTRUCTIONS[image.program[index].op]
    names = [s.name for s in spec.slots] if kind == "slot" else list(spec.params)
    label = "operand" if kind == "slot" else "parameter"
    return f", {label} {names[detail]}" if detail < len(names) else ""
