"""The rate of the line: found when a session opens, raised by agreement (SPEC-wire, section 9)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from mcutrain.errors import LinkError
from mcutrain.link import wire
from mcutrain.link.channel import RATES, Channel, Values
from mcutrain.link.effort import DamagedLineError, DeviceRefusal, NoAnswerError, Patience

FASTEST = 0  # for `raise_speed`: as fast as the device and the line can
# Fewer characters than a device allows to a rate on trial.
_TRIAL = Patience(first_s=0.1, waits=3, copies=4)
_FAILED = (NoAnswerError, DamagedLineError)


def raise_speed(channel: Channel, wanted: int) -> int | None:
    """Agrees with the device on another rate, and falls back where it does not work.

    Args:
        channel: an open session.
        wanted: bits a second, or FASTEST.

    Returns:
        The rate of the line then; None for a line that has none.

    Raises:
        LinkError: the device cannot make the wanted rate, or it does not work on this line; the
            session goes on at the rate that it had.
    """
    if channel.baud is None or channel.baud == wanted:
        return channel.baud
    why = ""
    for baud in _candidates(wanted):
        if baud == channel.baud:
            return baud
        try:
            if _tried(channel, baud):
                return baud
            why = f"no frame gets through at {baud:,} baud"
        except DeviceRefusal as refusal:
            if refusal.code not in (wire.ErrorCode.BAUD, wire.ErrorCode.UNKNOWN_TYPE):
                raise
            why = f"the device's UART cannot make {baud:,} baud within 2 %"
            if refusal.code == wire.ErrorCode.UNKNOWN_TYPE:
                why = "its firmware is too old to change its rate"
    if wanted == FASTEST:
        return channel.baud
    raise LinkError(
        f"the line cannot work at {wanted:,} baud",
        where=channel.where,
        why=f"{why}; it works at {channel.baud:,}",
        hint="leave --baud away, or use --baud max for the highest rate that works",
    )


def lower_speed(channel: Channel) -> None:
    """Leaves the device at the rate that it starts with, where the next program looks first."""
    if channel.baud is None or channel.baud == channel.start_baud:
        return
    try:
        channel.request(wire.SPEED, {"baud": 0, "keep": 1}, _TRIAL)
    except LinkError:
        return  # the next session finds it at its rate


def _candidates(wanted: int) -> Iterator[int]:
    if wanted != FASTEST:
        yield wanted
    else:
        yield from RATES


def _tried(channel: Channel, baud: int) -> bool:
    before = channel.baud
    assert before is not None
    trial: Values = {"baud": baud, "keep": 0}
    # Its response may be lost, and the device have changed its rate.
    with contextlib.suppress(*_FAILED):
        channel.request(wire.SPEED, trial, _TRIAL)
    try:
        channel.set_baud(baud)
        channel.request(wire.SPEED, trial, _TRIAL)
        channel.request(wire.SPEED, {"baud": baud, "keep": 1}, _TRIAL)
        return True
    except LinkError:
        channel.end_trial(before)
    try:
        channel.request(wire.STATS, {}, _TRIAL)
        return False
    except _FAILED:
        # It was told to keep the rate, and only its answer was lost.
        channel.set_baud(baud)
        channel.request(wire.STATS, {})
        return True
