"""Lines of numbers, as Arduino's data forwarder prints them and as CSV files hold them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mcutrain.errors import InputError
from mcutrain.sensors.block import Block, Counts

_BAD_AT_START = 50  # lines without a single good one
_OTHER_WIDTH = 20  # lines in a row


class LineParser:
    """Lines to readings; what is no reading is counted and left out.

    Values are separated by tab, semicolon, comma or blanks. A first line without any number names
    the columns. The label is the column of that name, or a last field that is no number.

    Args:
        name: of the source, for errors.
        columns: names or numbers (from 1) of the columns to take; empty: all but the label.
        label: name or number of the column with the label.
    """

    def __init__(self, name: str, columns: Sequence[str] = (), label: str = "label") -> None:
        self.counts = Counts()
        self._name = name
        self._columns = tuple(columns)
        self._label = label
        self._header: list[str] | None = None
        self._width: int | None = None
        self._streak = 0

    def parse(self, line: str) -> Block | None:
        """The reading of a line, None where it has none.

        Raises:
            InputError: no line so far is a reading, or the number of columns has changed for good.
        """
        text = line.strip()
        if not text or text.startswith("#"):
            return None
        fields = _split(text, None if self._header is None else len(self._header))
        if self._header is None and not self.counts.lines and _are_names(fields):
            self._header = fields
            return None
        self.counts.lines += 1
        if self._width is not None and len(fields) != self._width:
            self._other_width(len(fields))
            return None
        self._streak = 0
        return self._reading(fields)

    def _reading(self, fields: list[str]) -> Block | None:
        label_at = self._label_at(fields)
        label = fields[label_at] if label_at is not None else None
        chosen = [i for i in self._chosen(fields) if i != label_at]
        if not chosen or not all(_is_number(fields[i]) for i in chosen):
            self.counts.malformed += 1
            if self._width is None and self.counts.malformed >= _BAD_AT_START:
                raise InputError(
                    "these lines are no readings",
                    where=self._name,
                    why=f"none of {self.counts.malformed} lines holds numbers; the last is "
                    f"{', '.join(fields)[:60]!r}",
                    hint="print numbers separated by comma or tab, one reading a line; a wrong "
                    "baud rate looks like this, too",
                )
            return None
        self._width = len(fields)
        return Block(np.array([[float(fields[i]) for i in chosen]]), label or None)

    def _label_at(self, fields: list[str]) -> int | None:
        at = self._index(self._label)
        if at is not None and at < len(fields):
            return at
        last = len(fields) - 1
        return last if last and not self._columns and _is_word(fields[last]) else None

    def _chosen(self, fields: list[str]) -> list[int]:
        if not self._columns:
            return list(range(len(fields)))
        found = [self._index(column) for column in self._columns]
        wrong = [c for c, i in zip(self._columns, found, strict=True) if i is None]
        if wrong or any(i is not None and i >= len(fields) for i in found):
            there = ", ".join(self._header or [str(i + 1) for i in range(len(fields))])
            raise InputError(
                "there is no such column",
                where=self._name,
                why=f"asked for {', '.join(wrong or self._columns)}; there are {there}",
                hint="--columns takes names of the first line, or numbers from 1",
            )
        return [i for i in found if i is not None]

    def _index(self, column: str) -> int | None:
        if self._header is not None and column in self._header:
            return self._header.index(column)
        return int(column) - 1 if column.isascii() and column.isdigit() and column != "0" else None

    def _other_width(self, width: int) -> None:
        self.counts.columns += 1
        self._streak += 1
        if self._streak >= _OTHER_WIDTH:
            raise InputError(
                "the number of columns has changed",
                where=self._name,
                why=f"from {self._width} to {width}, for {self._streak} lines",
                hint="start again: the sensor sends other things now than at the start",
            )


def _are_names(fields: list[str]) -> bool:
    return len(fields) > 1 and not any(map(_is_number, fields))


def _split(text: str, width: int | None) -> list[str]:
    """The fields of a line; `width`: how many columns have a name."""
    for separator in ("\t", ";", ","):
        if separator in text:
            fields = text.split(separator)
            # A separator at the end of the line, as many sketches print it, makes no field, unless
            # a column of that place has a name: the label, of a reading that has none.
            if len(fields) != width:
                fields = text.rstrip(separator).split(separator)
            return [f.strip().strip('"') for f in fields]
    return text.split()


def _is_word(text: str) -> bool:
    """Whether it can be a label; what float() takes (nan, inf) is a reading that failed."""
    try:
        float(text)
    except ValueError:
        return bool(text)
    return False


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
