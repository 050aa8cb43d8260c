"""Train an image on the host without repeating what is the same in every epoch.

The image's program is rebuilt with whole maps and cut before the first instruction that a trained
parameter influences (`mcutrain.passes.split`). Both parts are images of their own, with the state
of the given one byte for byte: `prefix` runs the first part on a sample, `train` and `forward` the
second one on what it made.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from mcutrain.compile import RNG, layout
from mcutrain.engine.engine import Engine, Sample, StepResult, verify
from mcutrain.image.pack import pack
from mcutrain.image.program import program_of
from mcutrain.image.unpack import Image, ImageTensor
from mcutrain.ir.program import STATE, Program
from mcutrain.passes.lowered import Lowered
from mcutrain.passes.scratch import add_scratch
from mcutrain.passes.split import split
from mcutrain.passes.whole import whole


class CachedEngine:
    """An open image in two parts, the frozen prefix and what trains.

    Args:
        image: the bytes of an image file, for whatever device.
        where: the file's name, for messages.

    Attributes:
        whole_engine: runs all of the program, with whole maps.
        suffix_engine: runs what stands behind the cut; it holds the state that is trained.
        boundary: the int8 maps that live across the cut.

    Raises:
        ImageError: as `mcutrain.engine.verify`.
        ToolchainError: the engine is not built yet and cannot be.
    """

    def __init__(self, image: bytes, where: str = "image") -> None:
        self.image = verify(image, where)
        parts = split(whole(program_of(self.image)))
        self._cut = parts.prefix
        self._whole = _packed(parts.whole, self.image)
        self.whole_engine = Engine(self._whole, where=where)
        self.suffix_engine = Engine(_packed(parts.suffix, self.image), where=where)
        self.boundary: tuple[ImageTensor, ...] = self.suffix_engine.image.inputs
        self._names = [t.name for t in self.boundary]

    @property
    def prefix_bytes(self) -> int:
        """Bytes of what `prefix` gives."""
        return sum(t.count for t in self.boundary)

    def prefix(self, sample: Sample, engine: Engine | None = None) -> bytes:
        """What the frozen prefix makes of a sample: the bytes of `boundary`, one after the other.

        Args:
            sample: int8 of the input's shape, one array an input, or the bytes of all.
            engine: one of `another_whole`, for threads; else `whole_engine`.

        Raises:
            InputError: the sample has not the image's size.
        """
        engine = engine or self.whole_engine
        engine.run_first(sample, self._cut)
        return b"".join(engine.tensor(name).tobytes() for name in self._names)

    def another_whole(self) -> Engine:
        """One more engine like `whole_engine`, with the present state: one engine a thread."""
        engine = Engine(self._whole)
        engine.state = self.state
        return engine

    def forward(self, prefix: bytes) -> npt.NDArray[np.float32]:
        """The logits (classes) of a sample of which `prefix` made these bytes.

        Raises:
            InputError: these are no bytes of `prefix`.
            DivergedError: a logit is not finite.
        """
        return self.suffix_engine.forward(prefix)

    def train(
        self,
        prefix: bytes,
        label: int,
        lr: float,
        lr_head: float | None = None,
        learnt: float = 0.0,
    ) -> StepResult:
        """One training step as `Engine.train`, on bytes of `prefix`."""
        return self.suffix_engine.train(prefix, label, lr, lr_head, learnt)

    @property
    def state(self) -> bytes:
        """All that is kept between steps, as in the given image."""
        return self.suffix_engine.state

    @state.setter
    def state(self, value: bytes) -> None:
        self.suffix_engine.state = value

    def reset(self, seed: int | None = None) -> None:
        """Back to the image's initial state, with another seed of the random bits if given."""
        self.suffix_engine.reset()
        if seed is not None:
            rng = next(t for t in self.image.tensors if t.name == RNG)
            state = bytearray(self.state)
            state[rng.offset : rng.offset + 4] = seed.to_bytes(4, "little")
            self.state = bytes(state)


def _packed(program: Program, image: Image) -> bytes:
    """An image of the program whose state lies as in the given image."""
    out = Lowered(program.name, values=dict(program.values), instrs=list(program.instrs))
    add_scratch(out)
    program = replace(program, values=out.values, instrs=tuple(out.instrs))
    compiled = layout(program, bytes(image.header["model_hash"]))
    kept = {t.name: t.offset for t in image.tensors if t.space == STATE}
    return pack(
        replace(
            compiled,
            value_offsets={**compiled.value_offsets, **kept},
            state_bytes=int(image.header["state_bytes"]),
        )
    )
