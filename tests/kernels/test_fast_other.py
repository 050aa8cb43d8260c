"""Every other kernel as cores with the DSP extension run it, over the whole grid."""

from __future__ import annotations

from types import ModuleType

import pytest
from tests.kernels import other_cases
from tests.kernels.cases import Case, check

CASES = [case for cases in other_cases.CASES.values() for case in cases]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.op}-{CASES.index(case)}")
def test_the_grid(case: Case, dsp_module: ModuleType) -> None:
    check(case, dsp_module)
