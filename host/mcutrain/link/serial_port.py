"""A serial port as a transport, which may vanish and come back under another name."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable

import serial

from mcutrain.errors import LinkError
from mcutrain.files import reason
from mcutrain.link.channel import START_BAUD
from mcutrain.link.ports import NO_DTR, UsbId, find_again, find_port, holders, ports

_WRITE_TIMEOUT_S = 10.0
_RETURN_S = 10.0  # in which a board that was unplugged or reset may come back
_LOOK_S = 0.2


class SerialPort:
    """An open port, for this program alone.

    A USB port that vanishes (a board that resets its own USB, a loose plug) is looked for by its
    vendor, product and serial number, under whatever name it has then.

    Args:
        name: as of `find_port`, or a URL of pyserial such as socket://127.0.0.1:5000. With ?dtr=off
            behind it the line DTR stays low: it resets some boards, and others send only while it
            is high.
        baud: the rate to start with.
        return_s: how long to wait for a port that vanished.

    Raises:
        UsageError: the name does not mean one port.
        LinkError: (from any method) no such port, in use, not permitted, or gone for good.
    """

    def __init__(self, name: str, baud: int = START_BAUD, *, return_s: float = _RETURN_S) -> None:
        self._name = name.removesuffix(NO_DTR)
        self._dtr = not name.endswith(NO_DTR)
        self._baud = baud
        self._return_s = return_s
        self._usb: UsbId | None = None
        self.port = self._name
        if "://" not in self._name:
            port = find_port(self._name)
            self.port, self._usb = port.name, port.usb
        try:
            self._serial = self._open()
        except (OSError, ValueError) as error:  # SerialException is an OSError
            raise _cannot_open(self.port, error) from None

    def write(self, data: bytes) -> None:
        """Sends all of `data`."""
        self._surely(lambda: self._write(data))

    def read(self, timeout_s: float) -> bytes:
        """What has arrived, waiting at most `timeout_s` for the first byte."""
        return self._surely(lambda: self._read(timeout_s)) or b""

    def set_baud(self, baud: int) -> None:
        """Goes on at another rate, once what was written is out."""
        before = self._baud
        self._baud = baud
        try:
            self._surely(self._apply_baud)
        except ValueError as error:
            self._baud = before
            raise LinkError(
                f"the port cannot work at {baud} baud",
                where=self._name,
                why=str(error),
                hint="choose another --baud",
            ) from None

    def close(self) -> None:
        """Lets go of the port; a second call does nothing."""
        self._serial.close()

    def _open(self) -> serial.Serial:
        line: serial.Serial = serial.serial_for_url(
            self.port,
            do_not_open=True,
            baudrate=self._baud,
            timeout=0,
            write_timeout=_WRITE_TIMEOUT_S,
        )
        if "://" not in self.port:
            line.exclusive = True
        line.dtr = self._dtr
        line.open()
        return line

    def _write(self, data: bytes) -> None:
        try:
            self._serial.write(data)
        except serial.SerialTimeoutException:
            raise LinkError(
                "the port takes no data",
                where=self._name,
                why=f"nothing went out for {_WRITE_TIMEOUT_S:.0f} s",
                hint="switch flow control off; check the cable",
            ) from None

    def _read(self, timeout_s: float) -> bytes:
        self._serial.timeout = timeout_s
        first: bytes = self._serial.read(1)
        waiting = self._serial.in_waiting if first else 0
        rest: bytes = self._serial.read(waiting) if waiting else b""
        return first + rest

    def _apply_baud(self) -> None:
        self._serial.flush()
        self._serial.baudrate = self._baud

    def _surely(self, act: Callable[[], bytes | None]) -> bytes | None:
        """Acts; should the port vanish, waits for it once and lets the protocol send again."""
        try:
            return act()
        except OSError as error:
            if not self._came_back():
                raise self._gone(error) from None
        return b""

    def _came_back(self) -> bool:
        if self._usb is None:
            return False
        self._serial.close()
        deadline = time.monotonic() + self._return_s
        while time.monotonic() < deadline:
            time.sleep(_LOOK_S)
            name = find_again(self._usb)
            if name is None:
                continue
            self.port = name
            try:
                self._serial = self._open()
            except (OSError, ValueError):
                continue  # it is there before its permissions are
            return True
        return False

    def _gone(self, error: OSError) -> LinkError:
        waited = f"; waited {self._return_s:.0f} s for {self._usb}" if self._usb else ""
        return LinkError(
            "the port is gone",
            where=self.port,
            why=f"{reason(error)}{waited}",
            hint="plug the board in again; `mcutrain doctor` lists ports",
        )


def _cannot_open(port: str, error: OSError | ValueError) -> LinkError:
    code = getattr(error, "errno", None)
    # pyserial puts the system's error into its own text, number and all.
    why = os.strerror(code) if code else str(error)
    if code == errno.ENOENT:
        there = ", ".join(p.name for p in ports()) or "none"
        return LinkError(
            "there is no such port",
            where=port,
            why=f"ports here: {there}",
            hint="connect the board; mcutrain doctor lists the ports",
        )
    if code in (errno.EBUSY, errno.EAGAIN) or "lock" in str(error):
        return LinkError(
            "the port is in use",
            where=port,
            why=f"{holders(port) or 'another program'} has it open",
            hint="close serial monitors and other runs of mcutrain, then try again",
        )
    if code in (errno.EACCES, errno.EPERM):
        return LinkError(
            "no permission to open the port",
            where=port,
            why=why,
            hint="add yourself to the group that owns it (often dialout), then log in again",
        )
    return LinkError(
        "the port cannot be opened",
        where=port,
        why=why,
        hint="mcutrain doctor lists the ports",
    )
