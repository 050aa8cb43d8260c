"""A firmware for one image: smaller, the image in it, and as right as the generic one.

`python -m tests.emulated.test_baked` prints the table of docs/boards.md.
"""

from __future__ import annotations

import pytest
from tests.traces import PROGRAMS, assert_is_the_reference, by_device, program

from mcutrain.boards.baked import unused_kernels, used_operations
from mcutrain.boards.build import build_firmware
from mcutrain.boards.emulate import EmulatedBoard
from mcutrain.boards.table import REAL_BOARDS, get_board
from mcutrain.compile import compile_program
from mcutrain.errors import ImageError
from mcutrain.image.pack import pack
from mcutrain.ir.instructions import INSTRUCTIONS
from mcutrain.link.session import Session
from mcutrain.link.wire import Place
from mcutrain.plan.scheme import resolve_scheme

pytestmark = pytest.mark.qemu

BOARD = get_board("qemu:netduinoplus2")
UNKNOWN_OPERATION = -27  # MCT_ERR_OP


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_baked_firmware_trains_as_the_reference_does(name: str) -> None:
    image = pack(program(name))
    firmware = build_firmware(BOARD, image=image)
    generic = build_firmware(BOARD)
    assert firmware.sizes.image == len(image)
    fewer = used_operations(image) != set(INSTRUCTIONS) or bool(unused_kernels(image))
    assert (firmware.sizes.text < generic.sizes.text) == fewer
    assert firmware.sizes.text <= generic.sizes.text
    assert firmware.build_id != generic.build_id
    assert firmware.image_binary is not None
    assert firmware.image_binary.read_bytes() == image
    with Session(EmulatedBoard(BOARD, firmware.elf), BOARD.id) as session:
        assert session.info.build == firmware.build_id
        session.open_loaded(Place.FLASH, image)
        assert_is_the_reference(name, by_device(name, session))


def test_only_unused_operations_are_left_out() -> None:
    """By symbol: what runs and what checks each operation is there if and only if it is used."""
    image = pack(program("mlp"))
    used = used_operations(image)
    assert 0 < len(used) < len(INSTRUCTIONS)
    text = build_firmware(BOARD, image=image).map.read_text()
    kept = text.partition("Linker script and memory map")[2]
    for op in INSTRUCTIONS:
        section = f" .text.mct_check_{op}\n"
        assert (section in kept) == (op in used), op
    assert len(unused_kernels(image)) == 3
    assert not any(f" .text.{kernel}\n" in kept for kernel in unused_kernels(image))
    everything = build_firmware(BOARD, image=image, all_operations=True)
    assert everything.sizes.text == build_firmware(BOARD).sizes.text
    assert everything.sizes.image == len(image)


def test_an_image_with_other_operations_is_refused_by_name() -> None:
    firmware = build_firmware(BOARD, image=pack(program("mlp")))
    with Session(EmulatedBoard(BOARD, firmware.elf), BOARD.id) as session:
        with pytest.raises(ImageError) as caught:
            session.open(pack(program("branches")))
        assert getattr(caught.value, "status", None) == UNKNOWN_OPERATION
        session.open_loaded(Place.FLASH, pack(program("mlp")))


def test_binaries_leave_the_saved_states_alone() -> None:
    """Code and image are two files: one would fill what lies between them."""
    board = REAL_BOARDS["nucleo_f446re"]
    firmware = build_firmware(board, image=pack(program("mlp")))
    assert board.store is not None
    size = firmware.binary.stat().st_size
    assert size == firmware.sizes.flash_bytes
    assert board.code.base + size <= board.store[0].base
    assert int.from_bytes(firmware.binary.read_bytes()[:4], "little") == (
        board.ram.base + board.stack_bytes
    )


def main() -> None:
    """Sizes of generic and baked firmware for networks of models/, which takes PyTorch."""
    from models import ARCHITECTURES
    from tests.architectures import quantised

    board = REAL_BOARDS["nucleo_f446re"]
    generic = build_firmware(board).sizes
    print("| network, scheme | image | operations | generic code | baked code | saved |")
    print("|---|---|---|---|---|---|")
    for name in ("mlp", "lenet", "dscnn", "resnet8", "mcunet"):
        graph = quantised(name, ARCHITECTURES[name].size)
        for scheme in ("head", "last:2", "full"):
            image = pack(compile_program(graph, resolve_scheme(graph, scheme), seed=1))
            baked = build_firmware(board, image=image).sizes
            saved = generic.flash_bytes - baked.flash_bytes
            print(
                f"| {name}, {scheme} | {len(image):,} | {len(used_operations(image))} | "
                f"{generic.flash_bytes:,} | {baked.flash_bytes:,} | {saved:,} "
                f"({saved / generic.flash_bytes:.0%}) |"
            )


if __name__ == "__main__":
    main()
