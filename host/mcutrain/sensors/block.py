"""What every source of readings gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Block:
    """Readings one after the other, all with the same label.

    Attributes:
        values: (readings, channels); no rows mean that nothing came for a moment.
        label: None where there is none.
        first: another recording begins here: no window may reach across.
    """

    values: Values
    label: str | None = None
    first: bool = False


@dataclass
class Counts:
    """Lines of text that were read, and those that were left out.

    Attributes:
        lines: all but empty ones, comments and column names.
        malformed: with something that is no number.
        columns: with another number of columns than the first ones.
    """

    lines: int = 0
    malformed: int = 0
    columns: int = 0


class Source(Protocol):
    """Something that readings come from.

    Attributes:
        name: for messages.
    """

    name: str

    @property
    def counts(self) -> Counts:
        """What was left out so far."""
        ...

    def blocks(self) -> Iterator[Block]:
        """The readings, in order.

        Raises:
            InputError: a file cannot be read, or holds no readings.
            LinkError: a port is silent or gone.
        """
        ...

    def close(self) -> None:
        """Lets go of a port; a second call does nothing."""
        ...
