"""Training steps during which the next sample is under way (SPEC-wire, section 6).

The device keeps what it receives while it computes: as many frames as may be under way anyhow.
"""

from __future__ import annotations

import time

from mcutrain.link import wire
from mcutrain.link.channel import Channel, Values
from mcutrain.link.effort import DeviceRefusal
from mcutrain.link.framing import Damaged
from mcutrain.link.transfer import Transfer, read, send

_RESULT_BYTES = 4 + wire.STEP.response.fixed.size


class Ahead:
    """Steps on a line whose time counts."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._sample = b""  # that is under way already
        self._transfer: Transfer | None = None
        self._took_s = 0.0  # the last step

    def useful(self, sample: bytes, following: bytes | None) -> bool:
        """Whether `step` gains anything, on a line so good that starting anew will be rare."""
        if self._channel.baud is None or self._channel.frame.bytes != wire.DATA_CHUNK:
            return False
        under_way = self._transfer is not None and self._sample == sample
        return under_way or following is not None

    def step(self, sample: bytes, values: Values, following: bytes | None) -> Values:
        """One step; begins to send the sample of the step after it.

        Args:
            sample: for this step.
            values: of the request STEP.
            following: the sample that will come next, if that is known.

        Raises:
            DeviceRefusal, LinkError: as `Channel.request`.
        """
        transfer, self._transfer = self._transfer, None
        if transfer is None or self._sample != sample:
            transfer = Transfer(self._channel, wire.Target.SAMPLE, sample)
        transfer.run(acknowledged=False)
        flags = int(values["flags"]) | (wire.RunFlag.RECEIVE if following else 0)
        began = time.monotonic()
        asked = self._channel.post(wire.STEP, values | {"flags": flags})
        answer = self._answer(asked[1], transfer, following)
        self._took_s = time.monotonic() - began
        return answer or self._lost(asked, sample, values)

    def _answer(self, seq: int, transfer: Transfer, following: bytes | None) -> Values | None:
        """The response, None if anything but that and the expected comes."""
        deadline = time.monotonic() + self._channel.patience.first_s + 2 * self._took_s
        while True:
            # Not earlier: so many frames as may be under way fill the device's memory.
            if following and transfer.done and self._transfer is None:
                self._sample = following
                self._transfer = Transfer(self._channel, wire.Target.SAMPLE, following)
                self._transfer.fill_window()
            event = self._channel.next_event(deadline)
            if event is None or isinstance(event, Damaged) or event.type == wire.NAK:
                return None
            if event.seq != seq:
                transfer.handle(event)
                continue
            try:
                return self._channel.unpack(wire.STEP, event)
            except DeviceRefusal as refusal:
                if refusal.code != wire.ErrorCode.INCOMPLETE:
                    raise
                return None

    def _lost(self, asked: tuple[int, int], sample: bytes, values: Values) -> Values:
        """The request or its response was lost, and the next sample may be in the place of this."""
        self._transfer = None
        self._channel.counts.resent += 1
        self._channel.frame.lost()
        kept = read(self._channel, wire.Source.RESULT, _RESULT_BYTES)
        if (int.from_bytes(kept[:2], "little"), int.from_bytes(kept[2:4], "little")) == asked:
            return wire.STEP.response.unpack(kept[4:])
        # It was not carried out, and it never will be: later requests have been.
        send(self._channel, wire.Target.SAMPLE, sample)
        return self._channel.request(wire.STEP, values)
