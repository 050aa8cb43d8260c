"""Training and evaluation on windows that come in one by one."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from mcutrain.errors import InputError
from mcutrain.image.unpack import Image
from mcutrain.ir.graph import QParams
from mcutrain.link import Device
from mcutrain.quantize.inputs import Outside, to_int8
from mcutrain.sensors import Window

_RECENT = 50  # windows


class Format:
    """What a network makes of a window: its length, its bytes, and the class of its label.

    Attributes:
        classes: their names, in order.
        outside: how many numbers of the windows so far saturated.

    Args:
        image: the network.
        classes: names of its classes, in order; empty: those that the image knows.

    Raises:
        InputError: the network has several inputs, or fewer classes than there are names.
    """

    def __init__(self, image: Image, classes: Sequence[str] = ()) -> None:
        count = int(image.header["classes"])
        if len(image.inputs) != 1:
            raise InputError(
                "a stream cannot feed a network with several inputs",
                where=str(image.metadata.get("name", "image")),
                why="its inputs are " + ", ".join(t.name for t in image.inputs),
            )
        if len(classes) > count:
            raise InputError(
                "there are more names than classes",
                where="--classes",
                why=f"{len(classes)} names, the network has {count} classes",
                hint="pack with --classes N gives it a classifier with more",
            )
        if len(set(classes)) < len(classes):
            raise InputError(
                "a name stands for two classes", where="--classes", why=", ".join(classes)
            )
        self._input = image.inputs[0]
        self.outside = Outside()
        self._size = int(np.prod(self._input.shape))
        self.classes = list(classes) or [str(c) for c in image.metadata["classes"]]
        self.classes += [str(i) for i in range(len(self.classes), count)]

    @property
    def q(self) -> QParams:
        """Of the network's input."""
        return self._input.q

    def length(self, channels: int) -> int:
        """Readings of a window, for a sensor with so many channels.

        Raises:
            InputError: they do not fill the input.
        """
        height, width, deep = self._input.shape
        whole = (deep, width * deep, self._size)  # an element, a row, or all of the input
        flat = height * width == 1 and self._size % channels == 0
        if channels not in whole and not flat:
            raise InputError(
                "the sensor's channels do not fill the network's input",
                where=self._input.name,
                why=f"it takes {self._size} numbers, shape {self._input.shape} (height, width, "
                f"channels); a reading has {channels}",
                hint="--columns chooses columns, and leaves out a time stamp",
            )
        return self._size // channels

    def encode(self, window: Window) -> bytes:
        """The bytes of the input: readings in order, the channels of each side by side."""
        values = window.values.astype(np.float32).reshape(self._input.shape)
        self.outside.add(values, self.q)
        return to_int8(values, self.q, self._input.name).tobytes()

    def number(self, label: str) -> int:
        """The class with that name or number.

        Raises:
            InputError: there is none.
        """
        if label in self.classes:
            return self.classes.index(label)
        if label.isascii() and label.isdigit() and int(label) < len(self.classes):
            return int(label)
        raise InputError(
            f"'{label}' is no class of the network",
            where="label",
            why="its classes are " + ", ".join(self.classes),
            hint="--classes A,B,C names them, in order",
        )


@dataclass
class Tally:
    """What came of the windows so far; a prediction is made before its window is learned.

    Attributes:
        trained: windows that were learned.
        predictions: how often each class was predicted.
        confusion: (classes, classes), [label, predicted].
    """

    classes: int
    trained: int = 0
    predictions: Any = None
    confusion: Any = None
    recent: deque[bool] = field(default_factory=lambda: deque(maxlen=_RECENT))

    def __post_init__(self) -> None:
        self.predictions = np.zeros(self.classes, np.int64)
        self.confusion = np.zeros((self.classes, self.classes), np.int64)

    def add(self, label: int | None, predicted: int) -> None:
        """One more prediction."""
        self.predictions[predicted] += 1
        if label is not None:
            self.confusion[label, predicted] += 1
            self.recent.append(label == predicted)

    @property
    def predicted(self) -> int:
        """All windows."""
        return int(self.predictions.sum())

    @property
    def labelled(self) -> int:
        """Windows with a label."""
        return int(self.confusion.sum())

    @property
    def accuracy(self) -> float | None:
        """Share of right predictions, of all windows with a label; None without any."""
        return float(np.trace(self.confusion)) / self.labelled if self.labelled else None

    @property
    def recent_accuracy(self) -> float | None:
        """The same of the last 50."""
        return sum(self.recent) / len(self.recent) if self.recent else None

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "windows": self.predicted,
            "trained": self.trained,
            "labelled": self.labelled,
            "accuracy": self.accuracy,
            "recent_accuracy": self.recent_accuracy,
            "predictions": self.predictions.tolist(),
            "confusion": self.confusion.tolist(),
        }


def live(
    device: Device,
    windows: Iterable[Window | None],
    form: Format,
    rates: tuple[float, float] | None,
    tally: Tally,
) -> Iterator[dict[str, Any]]:
    """Learns or predicts windows as they come.

    Args:
        device: an open device.
        windows: in order; None where nothing came for a moment.
        form: of the network.
        rates: of the layers and of the classifier; None: nothing is learned.
        tally: is kept up to date.

    Yields:
        A record of each window, or an empty one for None.
    """
    for window in windows:
        if window is None:
            yield {}
            continue
        label = None if window.label is None else form.number(window.label)
        began = time.monotonic()
        result: dict[str, Any]
        if label is not None and rates is not None:
            result = asdict(device.train_step(form.encode(window), label, *rates))
            result |= {"number": tally.trained, "rate": rates[0]}
            tally.trained += 1
        else:
            prediction = device.predict(form.encode(window))
            result = {"predicted": prediction.predicted, "ticks": prediction.ticks}
        tally.add(label, int(result["predicted"]))
        seconds = round(time.monotonic() - began, 6)
        kind = "step" if "number" in result else "prediction"
        yield {"kind": kind, "label": label, "seconds": seconds, **result}
