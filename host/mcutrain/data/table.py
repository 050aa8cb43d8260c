"""CSV tables: one sample a line, one column holds the label, the others the features."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from mcutrain.data.dataset import Dataset, make
from mcutrain.errors import InputError
from mcutrain.files import reason


def load(path: Path, label: str = "label", shape: tuple[int, int, int] | None = None) -> Dataset:
    """Samples from a CSV file whose first line names the columns.

    Args:
        path: UTF-8 text, comma-separated.
        label: name of the column with the class: whole numbers from 0, or names.
        shape: (H, W, C) of a sample; the features of a line fill it row by row, channels fastest.
            None makes it (1, 1, features).

    Raises:
        InputError: no such column, a line with another number of fields, a field that is no number.
    """
    header, lines = _read(path)
    if label not in header:
        raise InputError(
            f"there is no column '{label}'",
            where=str(path),
            why="the first line names " + _short(header),
            hint=f"csv:{path}?label=NAME",
        )
    column = header.index(label)
    labels = [line.pop(column).strip() for _, line in lines]
    x = np.array([_numbers(line, number, path) for number, line in lines], np.float64)
    if not x.shape[1]:
        raise InputError("the table has no column besides the label", where=str(path))
    shape = shape or (1, 1, x.shape[1])
    if int(np.prod(shape)) != x.shape[1]:
        raise InputError(
            f"{x.shape[1]} features do not fill a sample of {'x'.join(map(str, shape))}",
            where=str(path),
            hint="shape=HEIGHTxWIDTHxCHANNELS, for example 64x1x6: 64 steps of 6 sensor channels",
        )
    names: list[str] = []
    if all(text.isascii() and text.isdigit() and len(text) < 10 for text in labels):
        y = np.array([int(text) for text in labels], np.int64)
    else:
        names = sorted(set(labels))
        y = np.array([names.index(text) for text in labels], np.int64)
    return make(x.reshape(-1, *shape), y, str(path), names)


def _read(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Column names, and (line number, fields) of every line that is not empty."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            header = [name.strip() for name in next(reader, [])]
            lines = [(reader.line_num, row) for row in reader if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError("cannot read the CSV file", where=str(path), why=reason(error)) from error
    if not lines:
        raise InputError("the CSV file has no samples", where=str(path))
    for number, row in lines:
        if len(row) != len(header):
            raise InputError(
                f"a line has {len(row)} fields instead of {len(header)}",
                where=f"{path}, line {number}",
            )
    return header, lines


def _numbers(fields: list[str], number: int, path: Path) -> list[float]:
    try:
        return [float(field) for field in fields]
    except ValueError as error:
        raise InputError(
            "a feature is not a number", where=f"{path}, line {number}", why=str(error)
        ) from error


def _short(names: list[str]) -> str:
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
