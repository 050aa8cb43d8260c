"""A walk through the instruction table: no row without reference, kernel, cases and gradient."""

from __future__ import annotations

from types import ModuleType

import pytest
from tests.kernels import conv_cases, other_cases
from tests.kernels.bridge import KERNEL

from mcutrain.ir.instructions import INSTRUCTIONS
from mcutrain.ir.reference import REFERENCE

CASES = other_cases.CASES | {
    "conv2d": conv_cases.FORWARD,
    "conv2d_dx": conv_cases.DX,
    "conv2d_dw": conv_cases.DW,
    "conv2d_db": conv_cases.DB,
}
# Copies channels for the weight gradient of a partly trained layer; no error passes through it.
NOT_DIFFERENTIABLE = {"gather"}

# The rest steers the executor: tests/kernels/test_segments.py.
COMPUTING = [name for name, row in INSTRUCTIONS.items() if row.kernel]


def test_nothing_beside_the_table() -> None:
    assert set(REFERENCE) == set(INSTRUCTIONS)
    assert set(KERNEL) == set(CASES) == set(COMPUTING)


@pytest.mark.parametrize("name", COMPUTING)
def test_row_is_complete(kernel_module: ModuleType, name: str) -> None:
    row = INSTRUCTIONS[name]
    assert hasattr(kernel_module.lib, row.kernel)
    assert CASES[name]
    assert all(case.op == name for case in CASES[name])
    assert set(row.gradient) <= set(INSTRUCTIONS)
    # Forward instructions come first in the table, up to the classifier.
    forward = row.code <= INSTRUCTIONS["head"].code
    assert bool(row.gradient) == (forward and name not in NOT_DIFFERENTIABLE)


@pytest.mark.parametrize("name", COMPUTING)
def test_cases_use_every_slot_and_parameter(name: str) -> None:
    row = INSTRUCTIONS[name]
    used = {slot for case in CASES[name] for slot in case.values}
    # Scratch memory is for kernels that work faster with it, or in place.
    assert used | {slot.name for slot in row.slots if slot.scratch} == {s.name for s in row.slots}
    for slot in row.slots:
        if slot.optional:
            assert any(slot.name not in case.values for case in CASES[name]), slot.name
    for case in CASES[name]:
        assert set(case.params) == set(row.params), case.key
