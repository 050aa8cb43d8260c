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
from mcutrain.link.effort import (
    HELLO_PATIENCE,
    DamagedLineError,
    DeviceRefusal,
    Effort,
    FirstWords,
    NoAnswerError,
    Patience,
    no_answer,
)
from mcutrain.link.frame_size import FrameSize
from mcutrain.link.framing import Damaged, Deframer, Frame
from mcutrain.link.transport import RatedTransport, Transport

START_BAUD = 115_200  # of every firmware here
RATES = (2_000_000, 1_500_000, 1_000_000, 921_600, 460_800, 230_400)  # that are tried, in order
_OTHER_RATE = Patience(first_s=0.2, waits=1, copies=3)
_PADDING = bytes(256)  # borders only; more characters than a device allows to a rate on trial

Values = dict[str, wire.Value]


@dataclass
class LinkCounts:
    """What went wrong on the line, as the host saw it."""

    resent: int = 0
    damaged: int = 0
    naks: int = 0
    waits: int = 0


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
        self.frame = FrameSize()
        self._transport = transport
        self._line = transport if isinstance(transport, RatedTransport) else None
        self.start_baud = START_BAUD
        self.baud = START_BAUD if self._line else None
        self.patience = patience or Patience()
        self._hello_patience = patience or HELLO_PATIENCE
        self._new_id = new_id or (lambda: secrets.randbelow(0xFFFF) + 1)
        self._deframer = Deframer()
        self._arrived: deque[Frame | Damaged] = deque()
        self._session = 0
        self._seq = 0
        self._transfer = 0
        self._closed = False
        self._heard: FirstWords | None = None  # until HELLO is answered

    def open(self) -> Values:
        """Says HELLO with a new session id; returns what the device says of itself."""
        self._heard = FirstWords()
        try:
            return self._opened(self._heard)
        finally:
            self._heard = None

    def _opened(self, heard: FirstWords) -> Values:
        patience = self._hello_patience
        damaged: DamagedLineError | None = None
        searched = False
        for attempt in range(patience.waits):
            once = Patience(patience.first_s * 2**attempt, 1, patience.copies)
            try:
                return self._hello(self.baud, once)
            except DamagedLineError as error:
                damaged = error
            except NoAnswerError:
                pass
            if not searched and (damaged is not None or attempt == 1):
                searched = True
                found = self._hello_at_other_rates()
                if found is not None:
                    return found
            if damaged is not None and attempt >= 1:
                raise self._unreadable(damaged, heard)
        if heard and not heard.frames:
            raise heard.error(self.where)
        raise no_answer(self.where, wire.HELLO.name, patience)

    def _hello(self, baud: int | None, patience: Patience) -> Values:
        if baud is not None and baud != self.baud:
            self.set_baud(baud)
        # Another id each time: one that the device has already would make HELLO look stale.
        session = self._new_id()
        self._session = session if session != self._session else session % 0xFFFF + 1
        return self.request(wire.HELLO, {}, patience)

    def _hello_at_other_rates(self) -> Values | None:
        """A program that ended without a word has left the device at a higher rate, say."""
        start = self.baud
        for baud in (START_BAUD, *RATES) if start is not None else ():
            if baud == start:
                continue
            try:
                return self._hello(baud, _OTHER_RATE)
            except (NoAnswerError, DamagedLineError):
                continue
        if start is not None:
            self.set_baud(start)
        return None

    def _unreadable(self, error: DamagedLineError, heard: FirstWords) -> DamagedLineError:
        if self.baud is not None:
            rates = ", ".join(f"{baud:,}" for baud in (START_BAUD, *RATES))
            error.why = (
                f"bytes come, but no frames, at any of these rates: {rates} baud; "
                f"the first were {heard}"
            )
            error.hint = (
                "check that this is the board's port and that the board runs mcutrain's firmware; "
                "then cable and ground"
            )
        return error

    def set_baud(self, baud: int) -> None:
        """Goes on at another rate; what the line holds of the old one is dropped."""
        if self._line is not None and baud != self.baud:
            self._line.set_baud(baud)
            self.baud = baud
            self._deframer = Deframer()
            self._arrived.clear()

    def end_trial(self, baud: int) -> None:
        """Back to a rate; makes the device end a trial of another one."""
        self.set_baud(baud)
        self._write(_PADDING)

    def fall_back(self) -> bool:
        """Back to the rate that devices start with; False if it is that one already."""
        if self.baud is None or self.baud == self.start_baud:
            return False
        self.end_trial(self.start_baud)
        return True

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
        seq, frame = self._frame(message, values)
        try:
            return self._exchange(message, frame, seq, patience or self.patience)
        except (NoAnswerError, DamagedLineError):
            # The device may have been reset, which puts it back to that rate.
            if patience is not None or not self.fall_back():
                raise
        return self._exchange(message, frame, seq, self.patience)

    def _frame(self, message: wire.Message, values: Mapping[str, wire.Value]) -> tuple[int, bytes]:
        seq = self._next_seq()
        payload = message.request.pack(values)
        return seq, Frame(message.type, self._session, seq, payload).encode()

    def post(self, message: wire.Message, values: Mapping[str, wire.Value]) -> tuple[int, int]:
        """Sends a request once, and does not wait; returns session and seq of its response."""
        seq, frame = self._frame(message, values)
        self._write(frame)
        return self._session, seq

    def _exchange(
        self, message: wire.Message, frame: bytes, seq: int, patience: Patience
    ) -> Values:
        effort = Effort(patience, self.where, message.name)
        while True:
            effort.copy()
            self._write(frame)
            answer = self._await(lambda f: f.session == self._session and f.seq == seq, effort)
            if answer is not None:
                return self.unpack(message, answer)
            self.counts.resent += 1
            self.frame.lost()

    # For transfers, which share the line with requests.

    def next_transfer(self) -> int:
        """An id of a transfer."""
        self._transfer = (self._transfer + 1) & 0xFFFF
        return self._transfer

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
            found = self._deframer.feed(data)
            if self._heard is not None:
                self._heard.note(self.baud, data, bool(found))
            self._arrived.extend(found)

    def _await(self, wanted: Callable[[Frame], bool], effort: Effort) -> Frame | None:
        """The wanted frame, or None if the request should be sent again."""
        deadline = time.monotonic() + effort.wait_s
        while True:
            event = self.next_event(deadline)
            if event is None:
                self.counts.waits += 1
                effort.waited()
                return None
            if isinstance(event, Damaged) or event.type == wire.NAK:
                effort.heard()
                return None
            if wanted(event):
                return event

    def unpack(self, message: wire.Message, answer: Frame) -> Values:
        """The fields of a response.

        Raises:
            DeviceRefusal, LinkError: as `request`.
        """
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
