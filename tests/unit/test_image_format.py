"""The image's layout: the committed C header and the specification say what the tables say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mcutrain.image import format as fmt
from mcutrain.image.generate_header import generated_files
from mcutrain.image.status import STATUSES
from mcutrain.ir.instructions import INSTRUCTIONS

ROOT = Path(__file__).resolve().parents[2]
SPEC = (ROOT / "docs" / "SPEC-image.md").read_text()


@pytest.mark.parametrize("path", generated_files(ROOT), ids=lambda p: p.name)
def test_generated_c_is_up_to_date(path: Path) -> None:
    want = generated_files(ROOT)[path]
    assert path.read_text() == want, "run: python -m mcutrain.image.generate_header"


def test_records_have_the_sizes_of_the_specification() -> None:
    sizes = re.findall(r"^## \d\. (Header|Tensor|Instruction) \((\d+) bytes\)", SPEC, re.M)
    assert {name: int(n) for name, n in sizes} == {
        "Header": fmt.HEADER.size,
        "Tensor": fmt.TENSOR.size,
        "Instruction": fmt.INSTRUCTION.size,
    }


def test_c_structs_need_no_padding() -> None:
    for layout in (fmt.HEADER, fmt.TENSOR, fmt.INSTRUCTION):
        for field in layout.fields:
            if field.code != "s":
                assert layout.offset(field.name) % (field.size // field.count) == 0
        assert layout.size % 4 == 0


def test_instructions_are_those_of_the_specification() -> None:
    rows = re.findall(r"^\| (\d+) (\w+) \| ([^|]+) \| ([^|]*)\|$", SPEC, re.M)
    table = {}
    for code, name, slots, params in rows:
        names = [s.split()[0].rstrip("?<>") for s in slots.split(",")]
        table[name] = (int(code), names, params.split())
    assert table == {
        name: (spec.code, [s.name for s in spec.slots], list(spec.params))
        for name, spec in INSTRUCTIONS.items()
    }


def test_every_instruction_fits_a_record() -> None:
    for spec in INSTRUCTIONS.values():
        assert len(spec.slots) <= fmt.MAX_SLOTS
        assert len(spec.params) <= fmt.MAX_PARAMS


def test_every_status_has_a_text() -> None:
    header = (ROOT / "kernels_c" / "include" / "mct_status.h").read_text()
    codes = re.findall(r"^ *(MCT_ERR_\w+) = (-\d+),", header, re.M)
    assert {int(code): name for name, code in codes} == {
        code: status.name for code, status in STATUSES.items()
    }


def test_packing_a_record_and_reading_it_back() -> None:
    values = {
        f.name: tuple(range(i, i + f.count)) if f.count > 1 and f.code != "s" else i
        for i, f in enumerate(fmt.HEADER.fields)
    }
    values |= {"magic": b"MCTI", "model_hash": bytes(range(16))}
    data = fmt.HEADER.pack(values)
    assert len(data) == fmt.HEADER.size
    assert fmt.HEADER.unpack(b"xx" + data, 2) == values
