"""All SRAM of the published networks and schemes on emulated boards; samples come over the UART."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.memory_table import ROWS, Row, compiled, measure

pytestmark = [pytest.mark.qemu, pytest.mark.slow]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_planned_linked_and_used_memory_of_the_published_networks(refdata: Path, row: Row) -> None:
    program = compiled(row, refdata)
    used = measure(row, program)
    assert used.linked == used.planned
    assert used.pool == program.pool_bytes
    assert used.total <= row.must
