"""Run an image on the host: the C executor of the firmware, in a watched block of memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from types import ModuleType, TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.engine.build import load
from mcutrain.engine.memory import GuardedMemory
from mcutrain.engine.packed import PackedWeights
from mcutrain.errors import InputError
from mcutrain.image.format import NONE
from mcutrain.image.status import status_error
from mcutrain.image.unpack import Image, unpack
from mcutrain.ir.instructions import INSTRUCTIONS
from mcutrain.ir.program import aligned

Array = npt.NDArray[Any]
Sample = Array | Sequence[Array] | bytes


class HookEvent(IntEnum):
    """When a hook is called: around each run of an instruction (a row of it, in a segment), and
    once when it is done.
    """

    BEFORE = 0
    AFTER = 1
    DONE = 2


Hook = Callable[[int, HookEvent], None]

PAINT = 0xA5
_NUMPY = {"s8": "i1", "u8": "u1", "s16": "<i2", "u16": "<u2", "s32": "<i4", "u32": "<u4"}
_NUMPY |= {"f32": "<f4", "bits": "u1", "nibbles": "u1"}


@dataclass(frozen=True)
class StepResult:
    """What a training step tells.

    Attributes:
        loss: cross-entropy of the sample before the update.
        loss_bits: the same as the pattern of a binary32.
        predicted: class with the largest logit before the update.
        saturated: error elements that met a rail in this step.
        clamped: weights that met a rail in this step.
        skipped: instructions of the backward pass that had nothing to do: the sample is learnt, or
            all errors that they read are 0.
        step: steps since the state was made, this one included.
    """

    loss: float
    loss_bits: int
    predicted: int
    saturated: int
    clamped: int
    skipped: int
    step: int


def verify(image: bytes, where: str = "image") -> Image:
    """Check an image as a device would before it runs it.

    Raises:
        DamagedImageError: it was cut, extended or changed, or is no image.
        ImageVersionError: it is of another format version.
        ImageRefusedError: the executor refuses it; names the layer.
    """
    return Engine(image, where=where).image


@cache
def _library() -> ModuleType:
    """The compiled module, with its hook connected to the engine that the context names."""
    module = load()

    def call(context: Any, _engine: Any, instruction: int, event: int) -> None:
        engine: Engine = module.ffi.from_handle(context)
        if engine._hook is not None and engine._hook_failure is None:
            engine._hook(instruction, HookEvent(event))

    def keep(_kind: object, failure: BaseException, trace: TracebackType) -> None:
        """C cannot be unwound: raised after the run. Ctrl-C may come at any line of `call`."""
        engine: Engine = module.ffi.from_handle(trace.tb_frame.f_locals["context"])
        engine._hook_failure = failure

    module.ffi.def_extern(name="mcutrain_hook", onerror=keep)(call)
    return module


def _held(module: ModuleType, image: bytes) -> GuardedMemory:
    memory = GuardedMemory(module, len(image))
    memory.bytes[:] = np.frombuffer(image, np.uint8)
    return memory


class Engine:
    """An open image: forward passes and training steps, bit for bit as on a device.

    Args:
        image: the bytes of an image file.
        extra_memory: bytes behind the arena, painted like it: what a device would have left.
        where: the file's name, for messages.

    Raises:
        ImageError: as `verify`.
        ToolchainError: the engine is not built yet and cannot be.
    """

    def __init__(self, image: bytes, extra_memory: int = 0, where: str = "image") -> None:
        self._module = _library()
        self._where = where
        self.image = unpack(image, where)
        self._hook: Hook | None = None
        self._hook_failure: BaseException | None = None
        self._input_bytes = [t.count for t in self.image.inputs]
        self._image_memory = _held(self._module, image)
        self._memory = GuardedMemory(self._module, self.image.pool_bytes + extra_memory)
        self._mark = 0
        self._paint = PAINT
        self._memory.bytes[:] = PAINT
        self._engine = self._module.ffi.new("mct_engine *")
        self._handle = self._module.ffi.new_handle(self)
        status = self._module.lib.mct_engine_open(
            self._engine,
            self._image_memory.pointer,
            len(image),
            self._memory.pointer,
            self._memory.bytes.size,
        )
        self._check(status)
        self._packed = PackedWeights(self._module, self.image)
        self._engine.packed = self._packed.pointer

    # ---- running ----

    def forward(self, sample: Sample) -> npt.NDArray[np.float32]:
        """The logits (classes) of a sample: int8 of the input's shape, one array an input.

        Raises:
            InputError: the sample has not the image's size.
            DivergedError: a logit is not finite.
        """
        self._put(sample)
        return self._forward()

    def forward_pieces(self, pieces: Iterable[Array]) -> npt.NDArray[np.float32]:
        """The logits of a sample that comes in pieces (int8), as over a link."""
        self._module.lib.mct_engine_restart(self._engine)
        for piece in pieces:
            self._write(np.ascontiguousarray(piece).tobytes())
        return self._forward()

    def run_first(self, sample: Sample, count: int) -> None:
        """The first `count` instructions of the forward pass; `tensor` shows what they made."""
        self._put(sample)
        self._check(self._module.lib.mcutrain_run_first(self._engine, count))

    def _forward(self) -> npt.NDArray[np.float32]:
        predicted = self._module.ffi.new("uint32_t *")
        self._check(self._module.lib.mct_engine_forward(self._engine, predicted))
        logits = self._module.lib.mct_engine_logits(self._engine)
        size = 4 * int(self.image.header["classes"])
        return np.frombuffer(self._module.ffi.buffer(logits, size), "<f4").copy()

    def train(
        self,
        sample: Sample,
        label: int,
        lr: float,
        lr_head: float | None = None,
        learnt: float = 0.0,
    ) -> StepResult:
        """One step of stochastic gradient descent. On an error the state stays as it was.

        Args:
            sample: as for `forward`.
            label: class of the sample, from 0.
            lr: learning rate of convolutions; rounded to binary32.
            lr_head: learning rate of the classifier; `lr` where it is not given.
            learnt: a sample with a smaller loss than this (binary32) changes nothing.

        Raises:
            InputError: the sample has not the image's size.
            UsageError: label, a rate or `learnt` out of range, or the image trains nothing.
            DivergedError: a logit or an error is not finite.
        """
        self._put(sample)
        result = self._module.ffi.new("mct_step_result *")
        lr_head = lr if lr_head is None else lr_head
        self._engine.learnt = learnt
        label = label if 0 <= label < 2**32 else 2**32 - 1
        self._check(
            self._module.lib.mct_engine_train(self._engine, label, lr, lr_head, result),
        )
        loss = float(np.array([result.loss_bits], np.uint32).view(np.float32)[0])
        return StepResult(
            loss,
            result.loss_bits,
            result.predicted,
            result.saturated,
            result.clamped,
            result.skipped,
            result.step,
        )

    def train_timed(
        self, sample: Sample, label: int, lr: float, lr_head: float, learnt: float = 0.0
    ) -> tuple[StepResult, int, int]:
        """As `train`, with the nanoseconds of the forward and of the backward pass."""
        ffi, lib = self._module.ffi, self._module.lib
        turned = ffi.new("uint32_t *")
        self._engine.hook_context = turned
        self._engine.hook = ffi.addressof(lib, "mcutrain_note_backward")
        began = int(lib.mcutrain_clock())
        try:
            result = self.train(sample, label, lr, lr_head, learnt)
        finally:
            ended = int(lib.mcutrain_clock())
            self._engine.hook = ffi.NULL
        return result, (turned[0] - began) % 2**32, (ended - turned[0]) % 2**32

    def reset(self) -> None:
        """Back to the image's initial state."""
        self._module.lib.mct_engine_reset(self._engine)

    # ---- state ----

    @property
    def state(self) -> bytes:
        """All that is kept between steps: weights, fractions, biases, exponents, seed and step."""
        size = self._module.ffi.new("uint32_t *")
        start = self._module.lib.mct_engine_state(self._engine, size)
        return bytes(self._module.ffi.buffer(start, size[0]))

    @state.setter
    def state(self, value: bytes) -> None:
        size = self._module.ffi.new("uint32_t *")
        start = self._module.lib.mct_engine_state(self._engine, size)
        if len(value) != size[0]:
            raise InputError(
                "the state does not belong to this image",
                where=self._where,
                why=f"it has {len(value)} bytes, the image's has {size[0]}",
                hint="use the image that the state was trained with",
            )
        self._module.ffi.memmove(start, value, len(value))
        self._check(self._module.lib.mct_engine_check_state(self._engine))

    def tensor(self, name: str) -> Array:
        """A copy of a tensor as it is now: (h, w, c), for bits and nibbles packed bytes."""
        for index, tensor in enumerate(self.image.tensors):
            if tensor.name == name:
                data = np.frombuffer(self._tensor_bytes(index), _NUMPY[tensor.dtype])
                packed = tensor.dtype in ("bits", "nibbles")
                return data if packed else data.reshape(tensor.shape)
        raise InputError(f"the image has no tensor {name!r}", where=self._where)

    # ---- traces ----

    @contextmanager
    def hook(self, function: Hook) -> Iterator[None]:
        """Call function(instruction, event) for every event of each instruction that runs."""
        before, self._hook = self._hook, function
        self._engine.hook_context = self._handle
        self._engine.hook = self._module.lib.mcutrain_hook
        try:
            yield
        finally:
            self._hook = before
            if before is None:
                self._engine.hook = self._module.ffi.NULL

    @contextmanager
    def trace(self) -> Iterator[dict[int, dict[str, bytes]]]:
        """Collect the bytes of every tensor that each instruction writes, by its name."""
        found: dict[int, dict[str, bytes]] = {}

        def note(index: int, event: HookEvent) -> None:
            if event is HookEvent.DONE:
                found[index] = self.written(index)

        with self.hook(note):
            yield found

    @contextmanager
    def trace_crcs(self) -> Iterator[dict[int, int]]:
        """Collect the CRC-32 over all that each instruction writes, in slot order."""
        found: dict[int, int] = {}

        def note(index: int, event: HookEvent) -> None:
            if event is HookEvent.DONE:
                crc = self._module.lib.mct_engine_trace_crc(self._engine, index, 0)
                found[index] = int(crc)

        with self.hook(note):
            yield found

    def overrun(self, instruction: int, event: HookEvent) -> int | None:
        """See `mcutrain.engine.canaries`: the index of a tensor, None if all is well."""
        tensor = int(self._module.lib.mct_canaries(self._engine, instruction, int(event)))
        return None if tensor == NONE else tensor

    def written(self, instruction: int) -> dict[str, bytes]:
        """Bytes of the tensors that an instruction writes, as they are now; no rings."""
        instr = self.image.program[instruction]
        slots = INSTRUCTIONS[instr.op].slots
        results = [s.name for s in slots if s.written and not s.scratch]
        tensors = [instr.operands[name] for name in results if name in instr.operands]
        whole = [t for t in tensors if not self.image.tensors[t].is_ring]
        return {self.image.tensors[t].name: self._tensor_bytes(t) for t in whole}

    # ---- memory ----

    def repaint(self) -> None:
        """Paint everything behind the state anew, with the complement of the paint before.

        A byte that keeps one paint cannot keep both: run twice, and `high_water` is exact.
        """
        self._mark = self.high_water()
        self._paint ^= 0xFF
        self._memory.bytes[self._arena_start() :] = self._paint

    def high_water(self) -> int:
        """Bytes of the block from its start to the last one written since the image was opened."""
        touched = np.flatnonzero(self._memory.bytes != self._paint)
        last = int(touched[-1]) + 1 if touched.size else 0
        return max(self._mark, last)

    @property
    def block_bytes(self) -> int:
        """Bytes of the block: state, arena and extra memory."""
        return int(self._memory.bytes.size)

    # ---- private ----

    def _arena_start(self) -> int:
        return aligned(int(self.image.header["state_bytes"]))

    def _tensor_bytes(self, index: int) -> bytes:
        tensor = self.image.tensors[index]
        start = self._module.lib.mct_engine_tensor(self._engine, index)
        data = bytearray(self._module.ffi.buffer(start, tensor.nbytes))
        count = tensor.shape[0] * tensor.shape[1] * tensor.shape[2]
        spare = {"bits": -count % 8, "nibbles": 4 * (count % 2)}.get(tensor.dtype, 0)
        data[-1] &= 0xFF >> spare  # the kernels leave bits behind the end as they are
        return bytes(data)

    def _put(self, sample: Sample) -> None:
        parts, want = _sample_bytes(sample), self._input_bytes
        if isinstance(sample, bytes) and len(want) > 1 and len(sample) == sum(want):
            ends = np.cumsum(want).tolist()
            parts = [sample[end - n : end] for end, n in zip(ends, want, strict=True)]
        if [len(p) for p in parts] != want:
            raise InputError(
                "the sample does not fit the network's input",
                where=self._where,
                why=f"it has {[len(p) for p in parts]} bytes, the image takes {want}",
                hint="see the input's shape: mcutrain inspect",
            )
        self._module.lib.mct_engine_restart(self._engine)
        for part in parts:
            self._write(part)

    def _write(self, data: bytes) -> None:
        status = self._module.lib.mct_engine_write(self._engine, data, len(data))
        if status != 0 or self._hook_failure is not None:  # guards are checked after the run
            self._check(status)

    def _check(self, status: int) -> None:
        """Raise what a run left behind: a failed hook, a broken guard, a status."""
        failure, self._hook_failure = self._hook_failure, None
        if failure is not None:
            raise failure
        for memory in (self._memory, self._image_memory):
            memory.check(self._where)
        if status != 0:
            place = self._engine.refused
            raise status_error(status, place.index, place.detail, self.image, self._where)


def _sample_bytes(sample: Sample) -> list[bytes]:
    if isinstance(sample, bytes):
        return [sample]
    parts = [sample] if isinstance(sample, np.ndarray) else list(sample)
    for part in parts:
        if part.dtype != np.int8:
            raise InputError("a sample must be int8", why=f"it is {part.dtype}")
    return [np.ascontiguousarray(part).tobytes() for part in parts]
