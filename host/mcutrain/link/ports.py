"""Serial ports by what is plugged in: the only board, a USB id, or the name of the port."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from serial.tools import list_ports

from mcutrain.errors import LinkError, UsageError

AUTO = "auto"
NO_DTR = "?dtr=off"  # behind any name
_USB = "usb:"


@dataclass(frozen=True)
class UsbId:
    """What a port keeps when it comes back under another name. serial "": any, or none."""

    vid: int
    pid: int
    serial: str = ""

    def __str__(self) -> str:
        tail = f":{self.serial}" if self.serial else ""
        return f"{_USB}{self.vid:04x}:{self.pid:04x}{tail}"

    def matches(self, other: UsbId) -> bool:
        """Whether a port with the id `other` is meant."""
        same = (self.vid, self.pid) == (other.vid, other.pid)
        return same and self.serial in ("", other.serial)


@dataclass(frozen=True)
class Port:
    """A port that is there. name: what to open; text: for people."""

    name: str
    usb: UsbId | None
    text: str

    def __str__(self) -> str:
        return f"{self.usb} ({self.name}, {self.text})" if self.usb else self.name


def ports() -> list[Port]:
    """All serial ports, by name."""
    found = []
    for info in sorted(list_ports.comports(), key=lambda p: str(p.device)):
        usb = None
        if info.vid is not None and info.pid is not None:
            usb = UsbId(info.vid, info.pid, info.serial_number or "")
        found.append(Port(info.device, usb, info.description or "no description"))
    return found


def is_port(name: str) -> bool:
    """Whether `name` can mean a serial port, there or not."""
    plain = name.removesuffix(NO_DTR)
    return plain == AUTO or plain.startswith((_USB, "/", "COM")) or "://" in plain


def find_port(name: str) -> Port:
    """The port that a name means: `auto`, `usb:VID:PID[:SERIAL]` (hexadecimal), or the port's own.

    Raises:
        UsageError: the name is malformed, or several ports fit it.
        LinkError: none fits.
    """
    if name == AUTO:
        return _only(name, [p for p in ports() if p.usb is not None])
    if name.startswith(_USB):
        wanted = _parse(name)
        return _only(name, [p for p in ports() if p.usb and wanted.matches(p.usb)])
    real = os.path.realpath(name)  # /dev/serial/by-id/... are links
    for port in ports():
        if name == port.name or real == port.name:
            return port
    return Port(name, None, "")


def find_again(usb: UsbId) -> str | None:
    """The name under which a port is there now, None while it is not."""
    names = [p.name for p in ports() if p.usb and usb.matches(p.usb)]
    return names[0] if len(names) == 1 else None


def holders(port: str) -> str | None:
    """The other programs that have a port open, as far as this user may know (Linux only)."""
    found = sorted(set(_holders(os.path.realpath(port))))
    return ", ".join(f"{name} (process {pid})" for pid, name in found) or None


def _parse(name: str) -> UsbId:
    vid, _, rest = name.removeprefix(_USB).partition(":")
    pid, _, serial = rest.partition(":")
    try:
        return UsbId(int(vid, 16), int(pid, 16), serial)
    except ValueError:
        raise UsageError(
            "this does not name a USB port",
            where=name,
            why="vendor and product are hexadecimal numbers",
            hint="for example usb:0483:374b, or usb:0483:374b:SERIAL",
        ) from None


def _only(name: str, found: list[Port]) -> Port:
    if len(found) == 1:
        return found[0]
    if not found:
        there = ", ".join(map(str, ports())) or "none"
        raise LinkError(
            "no such board is connected",
            where=name,
            why=f"ports here: {there}",
            hint="connect the board; mcutrain doctor lists the ports",
        )
    raise UsageError(
        "more than one board is connected" if name == AUTO else "more than one port fits",
        where=name,
        why="there are " + ", ".join(map(str, found)),
        hint=f"name one: --device {found[0].usb}",
    )


def _holders(port: str) -> Iterator[tuple[int, str]]:
    for process in Path("/proc").glob("[0-9]*"):
        if int(process.name) == os.getpid():
            continue
        try:
            opened = [str(fd.readlink()) for fd in (process / "fd").iterdir()]
            if port in opened:
                yield int(process.name), (process / "comm").read_text().strip()
        except OSError:
            continue  # it ended, or is another user's
