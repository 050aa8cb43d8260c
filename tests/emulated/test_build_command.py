"""`mcutrain build`: sizes, files, and the operations that an image uses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.link_helpers import tiny_image

from mcutrain.boards.build import build_firmware
from mcutrain.boards.table import get_board
from mcutrain.cli.main import main

pytestmark = pytest.mark.qemu


def _build(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit) as caught:
        main(["build", *map(str, arguments)])
    assert not caught.value.code
    return capsys.readouterr().out


def test_a_generic_and_a_baked_build(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = tmp_path / "tiny.mcti"
    image.write_bytes(tiny_image())
    board = "nucleo_l476rg"
    generic = json.loads(_build(capsys, "--board", board, "--json"))
    assert generic["build"] == build_firmware(get_board(board)).build_id
    assert generic["image_bytes"] == 0
    out = tmp_path / "out"
    baked = json.loads(_build(capsys, "--board", board, "--image", image, "-o", out, "--json"))
    assert baked["text_bytes"] < generic["text_bytes"]
    assert baked["image_bytes"] == len(tiny_image())
    assert "conv2d" in baked["operations"]
    assert "maxpool" not in baked["operations"]
    names = {"firmware.elf", "firmware.bin", "firmware.map", "image.bin"}
    assert {path.name for path in out.iterdir()} == names
    assert {Path(file) for file in baked["files"]} == {out / name for name in names}
    assert (out / "image.bin").read_bytes() == tiny_image()
    full = json.loads(_build(capsys, "--board", board, "--image", image, "--generic", "--json"))
    assert full["text_bytes"] == generic["text_bytes"]
    text = _build(capsys, "--board", board, "--image", image)
    assert baked["build"] in text
    assert f"{len(baked['operations'])} of" in text
