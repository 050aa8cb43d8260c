"""Files are whole or absent, whatever happens while they are written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcutrain.errors import InputError
from mcutrain.files import check_writable, locked, make_folder, read_json, write_atomic


def test_writes_text_and_bytes_and_leaves_nothing_else(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a", "grün\n")
    write_atomic(tmp_path / "a", b"\x00\xff")
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"\x00\xff"


def test_new_files_have_the_users_permissions(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        write_atomic(tmp_path / "a", b"")
    finally:
        os.umask(mask)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("place", ["absent/file", "file/inside", "folder"])
def test_unwritable_place_is_named(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder" / "full").mkdir(parents=True)
    with pytest.raises(InputError, match="cannot write") as caught:
        write_atomic(tmp_path / place, b"data")
    assert caught.value.where == str(tmp_path / place)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder"]


def test_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").touch()
    with pytest.raises(InputError, match="cannot write"):
        make_folder(tmp_path / "run")
    assert make_folder(tmp_path / "a" / "b").is_dir()


def test_full_disk_keeps_the_old_file_and_leaves_no_part(tmp_path: Path) -> None:
    """A size limit fails like a full disk: in the middle of the write."""
    (tmp_path / "state").write_bytes(b"old")
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from mcutrain.errors import InputError; from mcutrain.files import write_atomic\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\n"
        "try: write_atomic(Path(sys.argv[1]), bytes(20000))\n"
        "except InputError as error: print(error.why)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "state")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "File too large\n"
    assert [p.name for p in tmp_path.iterdir()] == ["state"]
    assert (tmp_path / "state").read_bytes() == b"old"


def test_symbolic_links_stay_and_their_targets_are_written(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    write_atomic(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "text"


def test_what_is_no_file_is_written_into_and_never_replaced(tmp_path: Path) -> None:
    """`mcutrain pack NET -o /dev/null` as root must leave /dev/null a device."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_atomic(pipe, b"abc")
        assert os.read(reader, 10) == b"abc"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.parametrize("place", ["absent/file", "file/inside", "folder", ".", "n" * 256])
def test_a_place_that_cannot_be_written_is_found_before_the_work(
    tmp_path: Path, place: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="cannot write") as caught:
        check_writable(tmp_path / place)
    assert caught.value.why
    assert check_writable(tmp_path / "new") == tmp_path / "new"
    assert check_writable(tmp_path / "file") == tmp_path / "file"
    assert not (tmp_path / "new").exists()


def test_one_process_at_a_time_works_in_a_locked_folder(tmp_path: Path) -> None:
    with locked(tmp_path):
        with pytest.raises(InputError, match="another process"), locked(tmp_path):
            pass
        child = "import sys, pathlib; from mcutrain.files import locked\n"
        child += "with locked(pathlib.Path(sys.argv[1])): pass"
        done = subprocess.run(
            [sys.executable, "-c", child, str(tmp_path)],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert "another process works in this folder" in done.stderr
    with locked(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_json_nested_too_deeply_is_no_crash(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match="nested too deeply"):
        read_json(tmp_path / "deep.json")
