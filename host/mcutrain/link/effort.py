"""How long and how often a request is tried, and the errors that end it."""

from __future__ import annotations

from dataclasses import dataclass

from mcutrain.errors import LinkError
from mcutrain.link import wire


@dataclass(frozen=True)
class Patience:
    """How long to wait for a response: first_s, doubled each time, `waits` times in a row; and how
    many copies of one request to send at most.

    A line that damages 3 bytes in a hundred lets one of 20 exchanges of 100 bytes through.
    """

    first_s: float = 1.0
    waits: int = 6
    copies: int = 200


HELLO_PATIENCE = Patience(first_s=0.5, waits=4)


class DeviceRefusal(LinkError):
    """An error response; `code` and the figures a, b, c are those of SPEC-wire."""

    def __init__(self, figures: tuple[int, int, int, int], where: str, request: str) -> None:
        code, self.a, self.b, self.c = figures
        self.code = code
        texts = {known.value: meaning for known, (_, _, meaning) in wire.ERRORS.items()}
        text = texts.get(code, f"error {code}")
        super().__init__(f"the device refused {request}: {text}", where=where)
        self.why = f"figures {self.a}, {self.b}, {self.c}"


class NoAnswerError(LinkError):
    """Nothing came for as long as patience lasts."""


class DamagedLineError(LinkError):
    """Something came each time, but never the response."""


def no_answer(where: str, request: str, patience: Patience) -> NoAnswerError:
    """The error after the last wait."""
    total = patience.first_s * (2**patience.waits - 1)
    return NoAnswerError(
        f"the device does not answer {request}",
        where=where,
        why=f"nothing came within {total:.1f} s and {patience.waits} attempts",
        hint="check power, port and firmware; `mcutrain doctor` lists ports",
    )


class Effort:
    """The waits and copies left for one request or one stretch of a transfer."""

    def __init__(self, patience: Patience, where: str, request: str) -> None:
        self._patience = patience
        self._where = where
        self._request = request
        self._copies = 0
        self._waits = 0

    @property
    def wait_s(self) -> float:
        """How long to wait this time."""
        return self._patience.first_s * float(2**self._waits)

    def copy(self) -> None:
        """One more copy goes out."""
        self._copies += 1
        if self._copies > self._patience.copies:
            raise DamagedLineError(
                f"the line damages too much: {self._request} did not get through",
                where=self._where,
                why=f"{self._patience.copies} copies were damaged or their responses were",
                hint="check cable, ground and baud rate; `mcutrain doctor` tests the line",
            )

    def heard(self) -> None:
        """Damage came, or a NAK: something is at the other end."""
        self._waits = 0

    def waited(self) -> None:
        """Nothing came for a while."""
        self._waits += 1
        if self._waits >= self._patience.waits:
            raise no_answer(self._where, self._request, self._patience)
