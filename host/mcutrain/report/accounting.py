"""What a compiled program costs: bytes by category, arithmetic, and what sets the peak."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mcutrain.ir.macs import FORWARD, macs, phase
from mcutrain.ir.program import STATE, Buffer, CompiledProgram, aligned

_STATE_KINDS = (
    ("weights", (".trained",)),
    ("fractions", (".frac",)),
    ("biases", (".bias",)),
    ("runtime", ("rng", "predictor", "exponent")),
)


@dataclass(frozen=True)
class Cost:
    """Bytes and multiply-accumulates of one training program.

    Attributes:
        state: trained state by kind: weights, fractions, biases, classifier, runtime.
        arena, bound: bytes of the arena and of the largest set of buffers alive at once.
        image: bytes of the packed image.
        macs_forward, macs_backward: of one training step.
        macs_again: of macs_backward, what forward instructions take that run again to save memory.
        layers_again: their layers.
        peak: the instruction at which most bytes are alive, and its buffers, largest first.
    """

    state: dict[str, int]
    arena: int
    bound: int
    image: int
    macs_forward: int
    macs_backward: int
    macs_again: int
    layers_again: tuple[str, ...]
    peak: tuple[int, tuple[Buffer, ...]]

    @property
    def pool(self) -> int:
        """SRAM that the image needs: state, then the arena at the next multiple of 4."""
        return aligned(sum(self.state.values())) + self.arena


def cost_of(compiled: CompiledProgram, image_bytes: int) -> Cost:
    """Account for a compiled program whose image has `image_bytes`."""
    program = compiled.program
    backward = program.instrs[program.forward :]
    again = [i for i in backward if phase(i) == FORWARD and i.op != "segment"]
    return Cost(
        _state_bytes(compiled),
        compiled.memory.arena_bytes,
        compiled.memory.lower_bound,
        image_bytes,
        sum(macs(program, i) for i in program.instrs[: program.forward]),
        sum(macs(program, i) for i in backward),
        sum(macs(program, i) for i in again),
        tuple(dict.fromkeys(i.layer for i in again)),
        _peak(compiled),
    )


def _state_bytes(compiled: CompiledProgram) -> dict[str, int]:
    head = next(i for i in compiled.program.instrs if i.op == "head")
    classifier = {head.operands["w"], head.operands["b"]}
    sums = dict.fromkeys(("weights", "fractions", "biases", "classifier", "runtime"), 0)
    for value in compiled.program.values.values():
        if value.space != STATE or value.view_of is not None:
            continue
        kind = next((k for k, ends in _STATE_KINDS if value.name.endswith(ends)), "classifier")
        sums["classifier" if value.name in classifier else kind] += value.nbytes
    return sums


def _peak(compiled: CompiledProgram) -> tuple[int, tuple[Buffer, ...]]:
    buffers = compiled.memory.buffers

    def alive(at: int) -> list[Buffer]:
        return [b for b in buffers if b.first <= at <= b.last]

    at = max(range(len(compiled.program.instrs)), key=lambda i: sum(b.nbytes for b in alive(i)))
    return at, tuple(sorted(alive(at), key=lambda b: -b.nbytes))


def trained_parameters(compiled: CompiledProgram) -> list[dict[str, Any]]:
    """Trained weights and biases by layer, in the network's order, the classifier last."""
    program = compiled.program
    rows: dict[str, dict[str, Any]] = {}
    kinds = {"w_trained": "weights", "bias": "biases", "w": "weights", "b": "biases"}
    for instr in program.instrs[: program.forward]:
        for slot, kind in kinds.items():
            if slot in instr.operands and program.values[instr.operands[slot]].space == STATE:
                empty: dict[str, Any] = {"layer": instr.layer, "weights": 0, "biases": 0}
                row = rows.setdefault(instr.layer, empty)
                row[kind] += program.values[instr.operands[slot]].count
    return list(rows.values())


def cost_to_dict(compiled: CompiledProgram, cost: Cost) -> dict[str, Any]:
    """The same for `--json`."""
    at, buffers = cost.peak
    instr = compiled.program.instrs[at]
    return {
        "state_bytes": cost.state | {"total": compiled.state_bytes},
        "arena_bytes": cost.arena,
        "arena_lower_bound": cost.bound,
        "pool_bytes": cost.pool,
        "image_bytes": cost.image,
        "macs_forward": cost.macs_forward,
        "macs_backward": cost.macs_backward,
        "macs_again": cost.macs_again,
        "layers_again": list(cost.layers_again),
        "peak": {
            "instruction": at,
            "op": instr.op,
            "layer": instr.layer,
            "buffers": [{"name": b.name, "bytes": b.nbytes} for b in buffers],
        },
    }


def memory_to_dict(compiled: CompiledProgram) -> dict[str, Any]:
    """The arena over the schedule, for pictures: buffers with their places, and what runs when."""
    memory = compiled.memory
    return {
        "forward": compiled.program.forward,
        "schedule": [{"op": i.op, "layer": i.layer} for i in compiled.program.instrs],
        "buffers": [
            {
                "name": b.name,
                "bytes": b.nbytes,
                "offset": memory.offsets[b.name],
                "first": b.first,
                "last": b.last,
            }
            for b in memory.buffers
        ],
    }
