"""The pickled int8 networks of "On-Device Training Under 256KB Memory": MCUNet and MobileNetV2.

The file is a zip with one pickle of dictionaries, numbers and numpy arrays. Nothing in it is
executed: the few numpy names that such a pickle needs stand for harmless classes of this module,
and any other name is refused.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mcutrain.errors import InputError, UnsupportedError
from mcutrain.files import reason
from mcutrain.frontends.int8_layers import FULL_RANGE, Int8Builder, Int8Weights, int8_weights
from mcutrain.ir.graph import Array, Graph, QParams

MAX_PICKLE_BYTES = 256 << 20
SIZE = 128  # both networks were made for 128 x 128 pixels; the file does not hold the input's depth

_NUMBER_TYPES = ("i1", "u1", "i2", "i4", "i8", "f4", "f8")


class _Dtype:
    """What a pickle gets for numpy.dtype: a number type, no objects and no fields."""

    def __init__(self, code: str, *_flags: bool) -> None:
        if code not in _NUMBER_TYPES:
            raise pickle.UnpicklingError(f"arrays of type {code!r} are not admitted")
        self.dtype = np.dtype(code)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = state[1]
        if order not in ("|", "<", ">", "="):
            raise pickle.UnpicklingError(f"byte order {order!r} is not admitted")
        self.dtype = self.dtype.newbyteorder(order)


class _Array:
    """What a pickle gets for numpy.ndarray: bytes under a shape."""

    value: Array

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _version, shape, dtype, fortran, data = state
        if not isinstance(dtype, _Dtype) or not isinstance(data, bytes):
            raise pickle.UnpicklingError("an array holds something else than numbers")
        flat = np.frombuffer(data, dtype.dtype)
        self.value = np.reshape(flat, shape, "F") if fortran else flat.reshape(shape)


class _Function:
    """A function that a pickle can call, but neither replace nor give attributes."""

    def __init__(self, run: Callable[..., Any]) -> None:
        self._run = run

    def __call__(self, *args: Any) -> Any:
        return self._run(*args)

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError("it changes a function")


def _reconstruct(kind: type, _shape: tuple[int, ...], _code: object) -> _Array:
    if kind is not _Array:
        raise pickle.UnpicklingError("only numpy.ndarray may be reconstructed")
    return _Array()


def _encode(text: str, codec: str) -> bytes:
    if codec != "latin1" or not isinstance(text, str):
        raise pickle.UnpicklingError("only latin1 text may stand for bytes")
    return text.encode("latin1")


_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("numpy.core.multiarray", "_reconstruct"): _Function(_reconstruct),
    ("numpy._core.multiarray", "_reconstruct"): _Function(_reconstruct),
    ("_codecs", "encode"): _Function(_encode),
}


class _Unpickler(pickle.Unpickler):
    """Knows the names in `_ADMITTED` and no other; no persistent objects."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ADMITTED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for '{module}.{name}'") from None

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError(f"it asks for a stored object ({str(pid)[:40]})")


def import_published(path: Path) -> Graph:
    """The quantised network of a published pickle; its name is the file's.

    Raises:
        InputError: the file is damaged, or asks for anything but numbers.
        UnsupportedError: a layer that the IR has no operator for; names the layer.
    """
    content = _unpickled(path)
    try:
        return _Importer(path.stem, content).graph()
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise InputError(
            "the pickle does not hold such a network",
            where=str(path),
            why=f"{type(error).__name__}: {error}",
        ) from error


def _unpickled(path: Path) -> Any:
    try:
        with zipfile.ZipFile(path) as file:
            member = next(m for m in file.infolist() if m.filename.endswith("data.pkl"))
            if member.file_size > MAX_PICKLE_BYTES:
                raise InputError("the pickle is too large", where=str(path))
            data = file.read(member)
    except (OSError, zipfile.BadZipFile, StopIteration, NotImplementedError) as error:
        raise InputError(
            "the file is not a zip with a pickle in it", where=str(path), why=reason(error) or None
        ) from error
    try:
        return _arrays(_Unpickler(io.BytesIO(data)).load())
    except Exception as error:  # damaged pickles raise whatever their bytes happen to mean
        raise InputError(
            "refused to load the pickle",
            where=str(path),
            why=str(error) or type(error).__name__,
            hint="only dictionaries, numbers and numpy arrays are admitted; nothing was executed",
        ) from error


def _arrays(content: Any) -> Any:
    """The same with arrays for their stand-ins; nested dictionaries and lists only."""
    if isinstance(content, _Array):
        return content.value
    if isinstance(content, dict):
        return {key: _arrays(value) for key, value in content.items()}
    return [_arrays(value) for value in content] if isinstance(content, list) else content


class _Importer:
    """Layers are called as in the published update schemes' code: b7.pointwise1."""

    def __init__(self, name: str, content: Any) -> None:
        self.content = content
        self.builder = Int8Builder(name)

    def graph(self) -> Graph:
        """The whole network."""
        content, first = self.content, self.content["first_conv"]
        q = _q(first["params"], "x")
        size = int(first.get("in_shape", SIZE))
        x = self.builder.input("input", (size, size, int(first["in_channel"])), q)
        x = self.conv("first_conv", x, first)
        for i, block in enumerate(content["blocks"]):
            x = self.block(f"b{i}", x, block)
        if content.get("feature_mix") is not None:
            x = self.conv("feature_mix", x, content["feature_mix"])
        x = self.builder.global_pool("avgpool", x)
        head = content["classifier"]
        self.builder.check_source("classifier", x, _q(head["params"], "x"))
        return self.builder.classifier("classifier", x, _weights("classifier", head))

    def block(self, name: str, x: str, block: Mapping[str, Any]) -> str:
        """An inverted residual block."""
        if block.get("se") is not None:
            raise UnsupportedError("squeeze-and-excitation is not supported", where=name)
        y = x
        for part in ("pointwise1", "depthwise", "pointwise2"):
            if block[part] is not None:
                y = self.conv(f"{name}.{part}", y, block[part])
        residual = block["residual"]
        if residual is None:
            return y
        if "weight" in residual["params"]:
            raise UnsupportedError("a residual with weights is not supported", where=name)
        self.builder.check_source(f"{name}.add", x, _q(residual["params"], "x"))
        q = _q(residual["params"], "y")
        return self.builder.emit("add", f"{name}.add", (x, y), q, FULL_RANGE)

    def conv(self, name: str, x: str, layer: Mapping[str, Any]) -> str:
        """A convolution with the padding (k - 1) // 2."""
        self.builder.check_source(name, x, _q(layer["params"], "x"))
        kernel, stride = _pair(layer["kernel_size"]), _pair(layer["stride"])
        top, left = (kernel[0] - 1) // 2, (kernel[1] - 1) // 2
        groups = int(layer["groups"])
        attrs = {"stride": stride, "pad": (top, left, top, left), "groups": groups, **FULL_RANGE}
        params = _weights(name, layer).params()
        return self.builder.emit("conv2d", name, (x,), _q(layer["params"], "y"), attrs, params)


def _weights(name: str, layer: Mapping[str, Any]) -> Int8Weights:
    params = layer["params"]
    ohwi = params["weight"].transpose(0, 2, 3, 1)
    return int8_weights(ohwi, params["bias"], params["w_scales"], name)


def _pair(value: Any) -> tuple[int, int]:
    return (int(value[0]), int(value[1])) if isinstance(value, tuple) else (int(value), int(value))


def _q(params: Mapping[str, Any], tensor: str) -> QParams:
    return QParams(float(params[f"{tensor}_scale"]), int(params[f"{tensor}_zero"]))
