"""An image back to the program that it was packed from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from mcutrain.image.unpack import Image, ImageTensor
from mcutrain.ir.graph import Array
from mcutrain.ir.instructions import INSTRUCTIONS
from mcutrain.ir.program import ARENA, NUMPY, STATE, Instr, Program, Value


def program_of(image: Image) -> Program:
    """The program of a verified image; values that nothing touches are left out.

    An image does not say which tensors are views of others. But in the arena each read finds what
    the last write left in the same bytes, as the verifier made sure: a tensor that is read and that
    nothing writes is a view of that one.
    """
    views = _arena_views(image) | _state_views(image)
    names = [t.name for t in image.tensors]
    touched = {i for instr in image.program for i in instr.operands.values()}
    touched |= {names.index(t.name) for t in image.inputs} | {int(image.header["logits"])}
    values = {
        tensor.name: _value(image, tensor, None if index not in views else names[views[index]])
        for index, tensor in enumerate(image.tensors)
        if index in touched or tensor.space == STATE
    }
    instrs = tuple(
        Instr(i.op, i.layer, {slot: names[t] for slot, t in i.operands.items()}, i.params)
        for i in image.program
    )
    metadata = image.metadata
    return Program(
        str(metadata["network"]["name"]),
        values,
        instrs,
        int(image.header["forward"]),
        tuple(t.name for t in image.inputs),
        names[image.header["logits"]],
        int(image.header["errors"]),
        {
            "network": metadata["network"]["name"],
            "classes": metadata["classes"],
            "plan": metadata["plan"],
        },
    )


def _value(image: Image, tensor: ImageTensor, view_of: str | None) -> Value:
    rows = None
    if tensor.is_ring:
        rows = tensor.nbytes // (tensor.shape[1] * tensor.shape[2])
    return Value(
        tensor.name,
        tensor.shape,
        tensor.dtype,
        tensor.space,
        tensor.zero_point,
        tensor.scale,
        None if view_of else _data(image, tensor),
        view_of,
        tensor.error,
        rows,
    )


def _data(image: Image, tensor: ImageTensor) -> Array | None:
    if tensor.space == ARENA:
        return None
    section = image.initial_state if tensor.space == STATE else image.constants
    found = section[tensor.offset : tensor.offset + tensor.nbytes]
    return np.frombuffer(found, NUMPY[tensor.dtype])


def _arena_views(image: Image) -> dict[int, int]:
    """Index of the tensor whose bytes it shares, for each tensor that is read but never written."""
    at: dict[int, int] = {}
    names = [t.name for t in image.tensors]
    written = {names.index(t.name) for t in image.inputs}
    for index in written:
        at[image.tensors[index].offset] = index
    made = written | {t for i in image.program for t in _operands(i.op, i.operands, written=True)}
    views: dict[int, int] = {}
    for instr in image.program:
        for index in _operands(instr.op, instr.operands, written=False):
            tensor = image.tensors[index]
            if tensor.space == ARENA and index not in made:
                views.setdefault(index, at[tensor.offset])
        for index in _operands(instr.op, instr.operands, written=True):
            if image.tensors[index].space == ARENA:
                at[image.tensors[index].offset] = index
    return views


def _operands(op: str, operands: Mapping[str, int], *, written: bool) -> Iterator[int]:
    for slot in INSTRUCTIONS[op].slots:
        if slot.name in operands and (slot.written if written else slot.read):
            yield operands[slot.name]


def _state_views(image: Image) -> dict[int, int]:
    """State tensors share all of their bytes or none: the first one owns them."""
    owner: dict[int, int] = {}
    views: dict[int, int] = {}
    for index, tensor in enumerate(image.tensors):
        if tensor.space == STATE and owner.setdefault(tensor.offset, index) != index:
            views[index] = owner[tensor.offset]
    return views
