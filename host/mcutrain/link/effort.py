"""How long and how often a request is tried, and the errors that end it."""

from __future__ import annotations

from dataclasses import dataclass

from mcutrain.errors import LinkError
from mcutrain.link import wire

_SHOWN = 60  # characters of what came instead of an answer
_KEPT = 120  # bytes of it; blanks are left out


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


class FirstWords:
    """What a line says until HELLO is answered: the first bytes at each rate.

    Attributes:
        frames: whether something came that ended as a frame does.
    """

    def __init__(self) -> None:
        self.frames = False
        self._at: dict[int | None, bytes] = {}

    def note(self, baud: int | None, data: bytes, frames: bool) -> None:
        """Adds what came."""
        self._at[baud] = (self._at.get(baud, b"") + data)[:_KEPT]
        self.frames = self.frames or frames

    def __bool__(self) -> bool:
        return bool(self._at)

    def __str__(self) -> str:
        """Text, if any is; else bytes in hexadecimal."""
        for heard in self._at.values():
            text = " ".join(heard.decode("ascii", "replace").replace("\0", " ").split())
            if text and text.isascii() and text.isprintable():
                return f"the text {text[:_SHOWN]!r}"
        first = next(iter(self._at.values()), b"")
        return f"the bytes {first[: _SHOWN // 3].hex(' ')}"

    def error(self, where: str) -> NoAnswerError:
        """After the last wait, where bytes came but never a frame."""
        return NoAnswerError(
            "the port sends something, but does not speak mcutrain's protocol",
            where=where,
            why=f"no frame came, but {self}",
            hint="another program runs on the board (mcutrain flash writes the firmware), or it is "
            "another port than the board's (mcutrain doctor lists them)",
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
