"""Bulk data in both directions, in frames as large as the line bears (SPEC-wire, section 5)."""

from __future__ import annotations

import time

from mcutrain.errors import LinkError
from mcutrain.link import wire
from mcutrain.link.channel import Channel, Values
from mcutrain.link.effort import DamagedLineError, Effort, NoAnswerError, Patience
from mcutrain.link.framing import Damaged, Frame

# So many copies of a READ, then a shorter one takes its place: another request may be another size.
_READ_COPIES = 3


def send(channel: Channel, target: wire.Target, data: bytes, acknowledged: bool = True) -> None:
    """Sends the whole of an image, sample or state as one transfer.

    Args:
        channel: an open session.
        target: what it is.
        data: its bytes.
        acknowledged: wait until all of it is in place; else the last frames may still be under way,
            or lost: the next request that needs them gets INCOMPLETE then.

    Raises:
        DeviceRefusal, LinkError: as `Channel.request`.
    """
    Transfer(channel, target, data).run(acknowledged)


def read(channel: Channel, source: wire.Source, length: int) -> bytes:
    """Reads `length` bytes of a source, from its start.

    Raises:
        DeviceRefusal, LinkError: as `Channel.request`.
    """
    data = b""
    while len(data) < length:
        part = min(channel.frame.bytes, length - len(data))
        smallest = part <= wire.MIN_CHUNK
        full = channel.patience
        patience = None if smallest else Patience(full.first_s, full.waits, _READ_COPIES)
        values: Values = {"source": int(source), "offset": len(data), "length": part}
        try:
            answer = channel.request(wire.READ, values, patience)["data"]
        except DamagedLineError:
            if smallest:
                raise
            continue
        if not isinstance(answer, bytes) or len(answer) != part:
            raise LinkError(
                "the device gave another number of bytes than asked for", where=channel.where
            )
        channel.frame.arrived()
        data += answer
    return data


class Transfer:
    """One transfer, go-back-N: what is unacknowledged lies between `base` and `sent`."""

    def __init__(self, channel: Channel, target: wire.Target, data: bytes) -> None:
        self._channel = channel
        self._target = target
        self._id = channel.next_transfer()
        self._data = data
        self._base = 0
        self._sent = 0
        self._window = wire.WINDOW  # frames
        self._ends: dict[int, int] = {}  # seq: end of its bytes; since the last step back
        self._effort = self._new_effort()

    def run(self, acknowledged: bool) -> None:
        """Sends until all is acknowledged, or sent."""
        try:
            self._run(acknowledged)
        except (NoAnswerError, DamagedLineError):
            if not self._channel.fall_back():
                raise
            self._effort = self._new_effort()
            self._go_back(self._base)
            self._run(acknowledged)

    def _run(self, acknowledged: bool) -> None:
        while self._base < len(self._data):
            self.fill_window()
            if not acknowledged and self._sent == len(self._data):
                return
            event = self._channel.next_event(time.monotonic() + self._effort.wait_s)
            if event is None:
                self._channel.counts.waits += 1
                self._effort.waited()
                self._go_back(self._base)
            elif isinstance(event, Damaged):
                self._effort.heard()
                self._go_back(self._base)
            else:
                self.handle(event)

    def _new_effort(self) -> Effort:
        return Effort(
            self._channel.patience, self._channel.where, f"DATA ({self._target.name.lower()})"
        )

    @property
    def done(self) -> bool:
        """All is acknowledged."""
        return self._base == len(self._data)

    def fill_window(self) -> None:
        """Sends what may be under way."""
        size = self._channel.frame.bytes
        while self._sent < len(self._data) and self._sent - self._base < self._window * size:
            chunk = self._data[self._sent : self._sent + size]
            seq = self._channel.send_data(self._target, self._id, self._sent, chunk)
            self._sent += len(chunk)
            self._ends[seq] = self._sent

    def handle(self, event: Frame) -> None:
        """An answer to one of its frames, or a NAK; others are ignored."""
        if event.type == wire.NAK:
            self._effort.heard()
            # The damaged frame came after the last good one.
            if ((event.seq + 1) & 0xFFFF) in self._ends or event.session == 0:
                self._go_back(self._base)
            return
        if event.type == wire.ERROR and event.seq in self._ends:
            self._channel.check_refusal("DATA", event)
        if event.type != wire.DATA.type | wire.RESPONSE:
            return
        answer = wire.DATA.response.unpack(event.payload)
        transfer, following = answer["transfer"], answer["next"]
        if transfer != self._id or not isinstance(following, int) or following > len(self._data):
            return
        if following > self._base:
            self._base = following
            self._window = min(wire.WINDOW, self._window + 1)
            self._sent = max(self._sent, following)
            self._effort = self._new_effort()
            self._channel.frame.arrived()
        # Not accepted, or accepted before with fewer bytes than its copy has.
        if following < self._ends.get(event.seq, 0):
            self._go_back(following)

    def _go_back(self, offset: int) -> None:
        self._effort.copy()
        self._channel.counts.resent += 1
        self._channel.frame.lost()
        self._ends.clear()
        # Damage cannot be told from damage to answers that are still to come: with more than one
        # frame under way, a bad line would be sent more and more copies.
        self._window = 1
        self._base = self._sent = offset
