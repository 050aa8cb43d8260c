"""Every error a user can meet: one class a kind, each with its own exit code.

A message says what went wrong, where (the user's layer, file or port name), why, and what to do
next. `EXIT_CODES` is the one table of exit codes; the command line's help and docs follow it.
"""

from __future__ import annotations

from typing import ClassVar

EXIT_CODES: dict[int, str] = {
    0: "success",
    2: "usage: an unknown option, a missing argument, or options that exclude each other",
    3: "input: a network, data or plan file is missing, damaged, or holds what is not supported",
    4: "fit: the network does not fit into the given SRAM or flash",
    5: "link: the device, emulator or port does not answer, or answers wrongly",
    6: "toolchain: a program or Python package that this command needs is not installed",
    7: "image: the device or the host engine refused the image",
    8: "interrupted: stopped by the user; what was saved before stays valid",
    70: "internal: a defect of mcutrain",
}


class McutrainError(Exception):
    """An error with everything a user needs to act on it.

    Args:
        message: what went wrong, in one sentence without a full stop.
        where: the user's own name for the place: a layer, file, port or option.
        why: the reason, with the figures that show it.
        hint: the next command or change that helps.
    """

    exit_code: ClassVar[int] = 70

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        why: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.why = why
        self.hint = hint

    @property
    def kind(self) -> str:
        """The short name of this error's exit code, e.g. "input"."""
        return EXIT_CODES[self.exit_code].partition(":")[0]

    def __str__(self) -> str:
        lines = [self.message]
        for label, text in (("where", self.where), ("why", self.why), ("next", self.hint)):
            if text is not None:
                lines.append(f"  {label + ':':<7}{text}")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, str | int | None]:
        """The same content for `--json`."""
        return {
            "error": self.kind,
            "message": self.message,
            "where": self.where,
            "why": self.why,
            "hint": self.hint,
            "exit_code": self.exit_code,
        }


class UsageError(McutrainError):
    """The command line or an API call asks for something contradictory or unknown."""

    exit_code = 2


class InputError(McutrainError):
    """A file or value from the user is missing, damaged or out of range."""

    exit_code = 3


class UnsupportedError(InputError):
    """The network is readable but uses something that mcutrain cannot quantise or train."""


class FitError(McutrainError):
    """The network, plan or image needs more SRAM or flash than there is."""

    exit_code = 4


class LinkError(McutrainError):
    """The device does not answer in time, or what it sends is not what the protocol allows."""

    exit_code = 5


class ToolchainError(McutrainError):
    """A compiler, emulator, flasher or optional Python package is missing or failed."""

    exit_code = 6


class ImageError(McutrainError):
    """An image is damaged, of another version, or was refused by the executor."""

    exit_code = 7


class InterruptedRunError(McutrainError):
    """The user stopped a run."""

    exit_code = 8


class InternalError(McutrainError):
    """mcutrain broke one of its own rules; never the user's fault."""

    exit_code = 70
