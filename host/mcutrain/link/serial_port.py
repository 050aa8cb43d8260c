"""A serial port as a transport. The rate is given, never guessed."""

from __future__ import annotations

import errno

import serial
from serial.tools import list_ports

from mcutrain.errors import LinkError

_WRITE_TIMEOUT_S = 10.0


class SerialPort:
    """An open port, for this program alone.

    Args:
        port: its name, or a URL of pyserial such as socket://127.0.0.1:5000.
        baud: the rate that the firmware was built with.

    Raises:
        LinkError: (from any method) no such port, in use, not permitted, or unplugged.
    """

    def __init__(self, port: str, baud: int) -> None:
        self._port = port
        try:
            self._serial = serial.serial_for_url(
                port, do_not_open=True, baudrate=baud, timeout=0, write_timeout=_WRITE_TIMEOUT_S
            )
            if "://" not in port:
                self._serial.exclusive = True
            self._serial.open()
        except (OSError, ValueError) as error:  # SerialException is an OSError
            raise _cannot_open(port, error) from None

    def write(self, data: bytes) -> None:
        """Sends all of `data`."""
        try:
            self._serial.write(data)
        except serial.SerialTimeoutException:
            raise LinkError(
                "the port takes no data",
                where=self._port,
                why=f"nothing went out for {_WRITE_TIMEOUT_S:.0f} s",
                hint="switch flow control off; check the cable",
            ) from None
        except OSError as error:
            raise self._gone(error) from None

    def read(self, timeout_s: float) -> bytes:
        """What has arrived, waiting at most `timeout_s` for the first byte."""
        try:
            self._serial.timeout = timeout_s
            first: bytes = self._serial.read(1)
            waiting = self._serial.in_waiting if first else 0
            rest: bytes = self._serial.read(waiting) if waiting else b""
        except OSError as error:
            raise self._gone(error) from None
        return first + rest

    def set_baud(self, baud: int) -> None:
        """Goes on at another rate, once what was written is out."""
        try:
            self._serial.flush()
            self._serial.baudrate = baud
        except (OSError, ValueError) as error:
            raise LinkError(
                f"the port cannot work at {baud} baud",
                where=self._port,
                why=str(error),
                hint="choose another --baud",
            ) from None

    def close(self) -> None:
        """Lets go of the port; a second call does nothing."""
        self._serial.close()

    def _gone(self, error: OSError) -> LinkError:
        return LinkError(
            "the port is gone",
            where=self._port,
            why=str(error),
            hint="plug the board in again; `mcutrain doctor` lists ports",
        )


def _cannot_open(port: str, error: OSError | ValueError) -> LinkError:
    code = getattr(error, "errno", None)
    if code == errno.ENOENT:
        there = ", ".join(sorted(p.device for p in list_ports.comports())) or "none"
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
            why="another program has it open",
            hint="close serial monitors and other runs of mcutrain, then try again",
        )
    if code in (errno.EACCES, errno.EPERM):
        return LinkError(
            "no permission to open the port",
            where=port,
            why=str(error),
            hint="add yourself to the group that owns it (often dialout), then log in again",
        )
    return LinkError(
        "the port cannot be opened",
        where=port,
        why=str(error),
        hint="mcutrain doctor lists the ports",
    )
