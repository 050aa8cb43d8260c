"""Requests and responses over a line that damages bytes (SPEC-wire, sections 2 to 5).

Every wait and every number of copies is bounded: a call ends with the response or a LinkError.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mcutrain.errors import LinkError
from mcutrain.link import wire
from mcutrain.link.framing import Damaged, Deframer, Frame
from mcutrain.link.transport import Transport

Values = dict[str, wire.Value]


@dataclass(frozen=True)
class Patience:
    """How long to wait for a response: first_s, doubled each time, `waits` times; and how many
    copies of one request to send at most."""

    first_s: float = 1.0
    waits: int = 6
    copies: int = 12


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


@dataclass
class LinkCounts:
    """What went wrong on the line, as the host saw it."""

    resent: int = 0
    damaged: int = 0
    naks: int = 0
    waits: int = 0


class NoAnswerError(LinkError):
    """Nothing came for as long as patience lasts."""


def _no_answer(where: str, request: str, patience: Patience) -> NoAnswerError:
    total = patience.first_s * (2**patience.waits - 1)
    return NoAnswerError(
        f"the device does not answer {request}",
        where=where,
        why=f"nothing came within {total:.1f} s and {patience.waits} attempts",
        hint="check power, port and firmware; `mcutrain doctor` lists ports",
    )


class _Effort:
    """The waits and copies left for one request or one stretch of a transfer."""

    def __init__(self, patience: Patience, where: str, request: str) -> None:
        self._patience = patience
        self._where = where
        self._request = request
        self._copies = 0
        self._waits = 0

    @property
    def wait_s(self) -> float:
        return self._patience.first_s * float(2**self._waits)

    def copy(self) -> None:
        """One more copy goes out."""
        self._copies += 1
        if self._copies > self._patience.copies:
            raise LinkError(
                f"the line damages too much: {self._request} did not get through",
                where=self._where,
                why=f"{self._patience.copies} copies were damaged or their responses were",
                hint="check cable, ground and baud rate; `mcutrain doctor` tests the line",
            )

    def waited(self) -> None:
        """Nothing came for a while."""
        self._waits += 1
        if self._waits >= self._patience.waits:
            raise _no_answer(self._where, self._request, self._patience)


class Channel:
    """One session with one device.

    Args:
        transport: the line; closed by `close`.
        where: the user's name for the device, for messages.
        patience: how long to wait for each response.
        new_id: gives a session id; by chance, so that two programs differ.
    """

    def __init__(
        self,
        transport: Transport,
        where: str,
        patience: Patience | None = None,
        new_id: Callable[[], int] | None = None,
    ) -> None:
        self.where = where
        self.counts = LinkCounts()
        self._transport = transport
        self._patience = patience or Patience()
        self._hello_patience = patience or HELLO_PATIENCE
        self._new_id = new_id or (lambda: secrets.randbelow(0xFFFF) + 1)
        self._deframer = Deframer()
        self._arrived: deque[Frame | Damaged] = deque()
        self._session = 0
        self._seq = 0
        self._transfer = 0
        self._closed = False

    def open(self) -> Values:
        """Says HELLO with a new session id; returns what the device says of itself."""
        patience = self._hello_patience
        for attempt in range(patience.waits):
            # Another id each time: one that the device has already would make HELLO look stale.
            session = self._new_id()
            self._session = session if session != self._session else session % 0xFFFF + 1
            once = Patience(patience.first_s * 2**attempt, 1, patience.copies)
            try:
                return self.request(wire.HELLO, {}, once)
            except NoAnswerError:
                continue
        raise _no_answer(self.where, wire.HELLO.name, patience)

    def close(self) -> None:
        """Closes the line; a second call does nothing."""
        self._closed = True
        self._transport.close()

    def request(
        self,
        message: wire.Message,
        values: Mapping[str, wire.Value],
        patience: Patience | None = None,
    ) -> Values:
        """Sends a request until its response comes.

        Raises:
            DeviceRefusal: the device answered with an error.
            LinkError: no answer, a damaged line, or an answer that the protocol does not allow.
        """
        seq = self._next_seq()
        frame = Frame(message.type, self._session, seq, message.request.pack(values)).encode()
        effort = _Effort(patience or self._patience, self.where, message.name)
        while True:
            effort.copy()
            self._write(frame)
            answer = self._await(lambda f: f.session == self._session and f.seq == seq, effort)
            if answer is not None:
                return self._unpack(message, answer)
            self.counts.resent += 1

    def send(self, target: wire.Target, data: bytes) -> None:
        """Sends the whole of an image, sample or state as one transfer.

        Raises:
            DeviceRefusal, LinkError: as `request`.
        """
        self._transfer = (self._transfer + 1) & 0xFFFF
        _Transfer(self, self._patience, target, self._transfer, data).run()

    # For _Transfer, which shares the line with requests.

    def send_data(self, target: int, transfer: int, offset: int, data: bytes) -> int:
        """Sends one DATA frame and returns its seq."""
        seq = self._next_seq()
        values: Values = {"target": target, "transfer": transfer, "offset": offset, "data": data}
        payload = wire.DATA.request.pack(values)
        self._write(Frame(wire.DATA.type, self._session, seq, payload).encode())
        return seq

    def next_event(self, deadline: float) -> Frame | Damaged | None:
        """The next frame of this session or NAK, or damage; None if the time is up."""
        while True:
            while self._arrived:
                event = self._arrived.popleft()
                if isinstance(event, Damaged):
                    self.counts.damaged += 1
                    return event
                if event.type == wire.NAK:
                    self.counts.naks += 1
                    return event
                if event.session == self._session:
                    return event
            left = deadline - time.monotonic()
            data = self._transport.read(left) if left > 0 else b""
            if not data:
                return None
            self._arrived.extend(self._deframer.feed(data))

    def _await(self, wanted: Callable[[Frame], bool], effort: _Effort) -> Frame | None:
        """The wanted frame, or None if the request should be sent again."""
        deadline = time.monotonic() + effort.wait_s
        while True:
            event = self.next_event(deadline)
            if event is None:
                self.counts.waits += 1
                effort.waited()
                return None
            if isinstance(event, Damaged) or event.type == wire.NAK:
                return None
            if wanted(event):
                return event

    def _unpack(self, message: wire.Message, answer: Frame) -> Values:
        self.check_refusal(message.name, answer)
        why = f"type {answer.type:#04x} and {len(answer.payload)} bytes"
        if answer.version == wire.VERSION and answer.type == message.type | wire.RESPONSE:
            try:
                return message.response.unpack(answer.payload)
            except ValueError as error:
                why = str(error)
        raise LinkError(
            f"the device gave an answer to {message.name} that the protocol does not allow",
            where=self.where,
            why=why,
            hint="build and flash the firmware of this version of mcutrain",
        )

    def check_refusal(self, request: str, answer: Frame) -> None:
        """Raises DeviceRefusal if the answer is an error response."""
        if answer.type == wire.ERROR and len(answer.payload) == wire.ERROR_LAYOUT.fixed.size:
            code, a, b, c = wire.ERROR_LAYOUT.fixed.unpack(answer.payload)
            raise DeviceRefusal((code, a, b, c), self.where, request)

    def _next_seq(self) -> int:
        self._seq = (self._seq + 1) & 0xFFFF
        return self._seq

    def _write(self, data: bytes) -> None:
        if self._closed:
            raise LinkError("the connection is closed", where=self.where)
        self._transport.write(data)


class _Transfer:
    """Go-back-N: what is unacknowledged lies between `base` and `sent`."""

    def __init__(
        self, channel: Channel, patience: Patience, target: int, transfer: int, data: bytes
    ) -> None:
        self._channel = channel
        self._patience = patience
        self._target = target
        self._id = transfer
        self._data = data
        self._base = 0
        self._sent = 0
        self._seqs: set[int] = set()  # of this transfer, since the last step back
        self._effort = self._new_effort()

    def run(self) -> None:
        """Sends until all is acknowledged."""
        while self._base < len(self._data):
            self._fill_window()
            deadline = time.monotonic() + self._effort.wait_s
            event = self._channel.next_event(deadline)
            if event is None:
                self._channel.counts.waits += 1
                self._effort.waited()
                self._go_back(self._base)
            elif isinstance(event, Damaged):
                self._go_back(self._base)
            else:
                self._handle(event)

    def _new_effort(self) -> _Effort:
        name = wire.Target(self._target).name.lower()
        return _Effort(self._patience, self._channel.where, f"DATA ({name})")

    def _fill_window(self) -> None:
        while self._sent < len(self._data) and self._sent - self._base < self._window:
            chunk = self._data[self._sent : self._sent + wire.DATA_CHUNK]
            self._seqs.add(self._channel.send_data(self._target, self._id, self._sent, chunk))
            self._sent += len(chunk)

    @property
    def _window(self) -> int:
        return wire.WINDOW * wire.DATA_CHUNK

    def _handle(self, event: Frame) -> None:
        if event.type == wire.NAK:
            # The damaged frame came after the last good one.
            if ((event.seq + 1) & 0xFFFF) in self._seqs or event.session == 0:
                self._go_back(self._base)
            return
        if event.type == wire.ERROR and event.seq in self._seqs:
            self._channel.check_refusal("DATA", event)
        if event.type != wire.DATA.type | wire.RESPONSE:
            return
        answer = wire.DATA.response.unpack(event.payload)
        accepted, transfer, following = answer["accepted"], answer["transfer"], answer["next"]
        if transfer != self._id or not isinstance(following, int) or following > len(self._data):
            return
        if following > self._base:
            self._base = following
            self._sent = max(self._sent, following)
            self._effort = self._new_effort()
        if not accepted and event.seq in self._seqs:
            self._go_back(following)

    def _go_back(self, offset: int) -> None:
        self._effort.copy()
        self._channel.counts.resent += 1
        self._seqs.clear()
        self._base = self._sent = offset
