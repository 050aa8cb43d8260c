"""An int8 TFLite file into a quantised graph.

Quantise and dequantise at the borders, and a softmax at the end, are left out; the last fully
connected layer (or 1x1 convolution of a 1x1 map) becomes the float32 classifier. TFLite knows
tensors by name only, so a layer has the name of the tensor that it makes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from mcutrain.errors import UnsupportedError
from mcutrain.frontends.tflite_call import Importer
from mcutrain.frontends.tflite_file import FileModel, FileOperator, damage_named, read_tflite
from mcutrain.frontends.tflite_ops import (
    TRANSLATORS,
    conv2d_weights,
    linear_weights,
    translate,
)
from mcutrain.ir.graph import Graph

# Operators after the classifier that change neither which class wins nor what training needs.
TAIL = ("SOFTMAX", "LOG_SOFTMAX", "DEQUANTIZE", "QUANTIZE", "RESHAPE", "SQUEEZE")


def import_tflite(path: Path) -> Graph:
    """The quantised network of a TFLite file; its name is the file's.

    Raises:
        InputError: the file is missing or damaged.
        UnsupportedError: an operator or property without a counterpart; names the tensor.
    """
    model = read_tflite(path)
    with damage_named(path):
        return _graph(model, path)


def _graph(model: FileModel, path: Path) -> Graph:
    made_by = {output: op for op in model.operators for output in op.outputs}
    body = _reachable(model, made_by, model.outputs)
    _check_operators(model, body)
    if len(model.outputs) != 1:
        raise UnsupportedError(
            "a network must have one output, its logits",
            where=str(path),
            why="it has " + ", ".join(model.tensors[i].name for i in model.outputs),
        )
    head = _head(model, made_by)
    importer = Importer(model, path.name.removesuffix(path.suffix))
    for index in model.inputs:
        importer.add_input(index)
    for op in _reachable(model, made_by, _data_inputs(head)):
        translate(importer, op)
    return _classifier(importer, head)


def _data_inputs(op: FileOperator) -> tuple[int, ...]:
    """The inputs that can be activations; shapes, axes and weights are constants."""
    return op.inputs if op.name in ("ADD", "CONCATENATION") else op.inputs[:1]


def _reachable(
    model: FileModel, made_by: dict[int, FileOperator], wanted: tuple[int, ...]
) -> list[FileOperator]:
    """The operators that make these tensors, in the file's order, which is one they can run in."""
    todo, seen = list(wanted), set(model.inputs)
    found: set[int] = set()
    while todo:
        index = todo.pop()
        if index in seen or index not in made_by:
            continue
        seen.add(index)
        found.add(id(made_by[index]))
        todo.extend(_data_inputs(made_by[index]))
    return [op for op in model.operators if id(op) in found]


def _check_operators(model: FileModel, body: list[FileOperator]) -> None:
    unknown = [op for op in body if op.name not in TRANSLATORS and op.name not in TAIL]
    if not unknown:
        return
    counts = Counter(op.name for op in unknown)
    raise UnsupportedError(
        f"operator {unknown[0].name} is not supported",
        where=model.tensors[unknown[0].outputs[0]].name,
        why="the network uses " + ", ".join(f"{name} ({n}x)" for name, n in counts.items()),
        hint="supported: " + ", ".join(sorted({*TRANSLATORS, "SOFTMAX"})),
    )


def _tail(model: FileModel, made_by: dict[int, FileOperator]) -> Iterator[FileOperator | None]:
    """The operator that makes the output, the one before it, and so on; None at an input."""
    index = model.outputs[0]
    while index in made_by:
        yield made_by[index]
        index = made_by[index].inputs[0]
    yield None


def _head(model: FileModel, made_by: dict[int, FileOperator]) -> FileOperator:
    """The operator that becomes the classifier."""
    head = next(op for op in _tail(model, made_by) if op is None or op.name not in TAIL)
    if head is not None and head.name in _HEADS:
        return head
    raise UnsupportedError(
        "the network must end in a fully connected layer or a 1x1 convolution, the classifier",
        where=model.tensors[model.outputs[0]].name,
        why=f"it ends in {'nothing but its input' if head is None else head.name}",
    )


_HEADS = {"FULLY_CONNECTED": linear_weights, "CONV_2D": conv2d_weights}


def _classifier(importer: Importer, head: FileOperator) -> Graph:
    call = importer.call(head)
    if call.activation_function != "NONE":
        raise call.refuse(
            "the classifier must not have an activation function",
            why=f"it has {call.activation_function}, and its logits go into the loss",
        )
    x, weights = call.flat(0), _HEADS[head.name](call)
    return importer.builder.classifier(call.name, x, weights)
