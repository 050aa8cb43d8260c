"""Readings from files and ports, windows, labels: what comes through, and what is left out."""

from __future__ import annotations

import contextlib
import gc
import os
import struct
import sys
import threading
import time
import warnings
import wave
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from mcutrain.cli.sources import LeftOut, labelled, labeller, windows_of
from mcutrain.errors import InputError, LinkError, UsageError
from mcutrain.ir.graph import QParams
from mcutrain.quantize.inputs import to_int8
from mcutrain.sensors import Block, Counts, Keys, SourceOptions, Windows, open_source
from mcutrain.sensors.lines import LineParser


def parse(
    *lines: str, **options: object
) -> tuple[LineParser, list[tuple[list[float], str | None]]]:
    parser = LineParser("port", **options)  # type: ignore[arg-type]
    found = [block for block in map(parser.parse, lines) if block is not None]
    return parser, [(list(block.values[0]), block.label) for block in found]


@pytest.mark.parametrize(
    "line", ["1,-2.5,3e1", "1\t-2.5\t30", "1; -2.5 ;30", " 1 -2.5  30\r", "1,-2.5,30,\r\n"]
)
def test_values_are_separated_by_tab_comma_semicolon_or_blanks(line: str) -> None:
    assert parse(line)[1] == [([1.0, -2.5, 30.0], None)]


def test_a_first_line_of_names_names_the_columns() -> None:
    lines = ("time,ax,label,ay", "0.1,1,walk,2", "0.2,3,run,4")
    assert parse(*lines)[1][0] == ([0.1, 1.0, 2.0], "walk")
    assert parse(*lines, columns=["ay", "ax"])[1] == [([2.0, 1.0], "walk"), ([4.0, 3.0], "run")]
    assert parse(*lines, columns=["2"], label="4")[1][0] == ([1.0], "2")
    with pytest.raises(InputError, match="no such column") as caught:
        parse(*lines, columns=["az"])
    assert "time, ax, label, ay" in str(caught.value.why)


def test_a_last_word_is_the_label() -> None:
    assert parse("1,2,walk", "3,4,run")[1] == [([1.0, 2.0], "walk"), ([3.0, 4.0], "run")]


def test_a_reading_without_a_label_keeps_its_place() -> None:
    """As `record` writes it: a recording that is read back has all its readings."""
    parser, found = parse("c1,c2,label", *["1,2,"] * 30, "3,4,walk", "5,", "6,7")
    assert found == [([1.0, 2.0], None)] * 30 + [([3.0, 4.0], "walk")]
    assert parser.counts.columns == 2
    assert parse("c1,c2,", "1,2,", "3,4")[1] == [([1.0, 2.0], None), ([3.0, 4.0], None)]


def test_malformed_lines_are_counted_and_left_out() -> None:
    parser, found = parse("1,2", "boot ok", "# remark", "", "1,nan", "1,", "1,2,3", ",2", "5,6")
    assert [values for values, _ in found] == [[1, 2], [5, 6]]
    counts = parser.counts
    assert (counts.lines, counts.malformed, counts.columns) == (7, 3, 2)


def test_lines_without_numbers_end_in_an_error() -> None:
    with pytest.raises(InputError, match="no readings") as caught:
        parse(*["hello"] * 60)
    assert "none of 50 lines" in str(caught.value.why)
    assert "baud" in str(caught.value.hint)


def test_columns_that_change_for_good_end_in_an_error() -> None:
    parser, found = parse("1,2", *["1,2,3"] * 19, "3,4")
    assert (len(found), parser.counts.columns) == (2, 19)
    with pytest.raises(InputError, match="number of columns has changed") as caught:
        parse("1,2", *["1,2,3"] * 20)
    assert "from 2 to 3" in str(caught.value.why)


def ramp(n: int, label: str | None = None, start: int = 0, first: bool = False) -> Block:
    values = np.arange(start, start + n, dtype=np.float64)
    return Block(np.stack([values, -values], axis=1), label, first)


def starts(windows: Windows, *blocks: Block) -> list[tuple[int, str | None]]:
    return [(int(w.values[0, 0]), w.label) for block in blocks for w in windows.feed(block)]


@pytest.mark.parametrize(
    ("hop", "expected"), [(4, [0, 4, 8]), (1, list(range(10))), (3, [0, 3, 6, 9]), (6, [0, 6])]
)
def test_windows_have_length_and_hop(hop: int, expected: list[int]) -> None:
    windows = Windows(4, hop, 2)
    found = [w for n in range(13) for w in windows.feed(ramp(1, "a", n))]
    assert [int(w.values[0, 0]) for w in found] == expected
    assert all(w.values.shape == (4, 2) for w in found)
    assert all((np.diff(w.values[:, 0]) == 1).all() for w in found)
    assert [w.values.tolist() for w in Windows(4, hop, 2).feed(ramp(13, "a"))] == [
        w.values.tolist() for w in found
    ]


def test_a_stream_that_has_ended_keeps_no_readings() -> None:
    """A file that is read over and over does not fill the memory."""
    values = np.zeros((10, 3))
    left_out = LeftOut()
    unused = sys.getrefcount(values)
    blocks = (Block(v, None, first=True) for v in (values, values))
    assert sum(1 for _ in windows_of(blocks, lambda _channels: 4, None, "x", left_out)) == 4
    del blocks
    assert left_out.longest == (10, 4)
    assert sys.getrefcount(values) == unused


def test_what_was_left_out_of_files_is_kept_as_sums(tmp_path: Path) -> None:
    """A file that is read over and over does not fill the memory with counters."""
    (tmp_path / "a.csv").write_text("1,2,a\n3,4,a\noops,5,a\n1,2,a\n1\n3,4,b\n")
    (tmp_path / "b.csv").write_text("1,2\n" * 3)

    def alive(kind: type) -> int:
        gc.collect()
        return sum(type(o) is kind for o in gc.get_objects())  # isinstance asks the objects

    counts, windows = alive(Counts), alive(Windows)
    left_out = LeftOut()
    for turn in range(1, 6):
        for name in ("a.csv", "b.csv"):
            blocks = labelled(str(tmp_path / name), SourceOptions(), lambda b: b.label, left_out)
            found = list(windows_of(blocks, lambda _channels: 4, None, name, left_out))
            assert found == []
        assert left_out.to_dict() == {
            "lines": 9 * turn,
            "malformed_lines": turn,
            "other_columns": turn,
            "mixed_windows": turn,
            "short_recordings": turn,
        }
        assert left_out.longest == (4, 4)
    assert alive(Counts) <= counts + 1
    assert alive(Windows) <= windows + 1


def test_recordings_shorter_than_a_window_are_counted() -> None:
    windows = Windows(4, 2, 2)
    lengths = (3, 4, 1, 9, 3)
    for length in lengths:
        list(windows.feed(Block(np.zeros((length, 2)), "a", first=True)))
    assert windows.short == 2  # the last one may go on
    list(windows.feed(Block(np.zeros((1, 2)), "a")))
    windows.end()
    assert windows.short == 2
    list(windows.feed(Block(np.zeros((2, 2)), "a", first=True)))
    windows.end()
    windows.end()
    assert windows.short == 3


def test_a_window_has_one_label_and_lies_in_one_recording() -> None:
    windows = Windows(4, 2, 2)
    found = starts(windows, ramp(6, "a"), ramp(6, "b", 6))
    assert found == [(0, "a"), (2, "a"), (6, "b"), (8, "b")]
    assert (windows.mixed, windows.longest) == (1, 12)
    windows = Windows(4, 4, 2)
    assert starts(windows, ramp(6, "a", 0, True), ramp(5, "a", 100, True)) == [(0, "a"), (100, "a")]
    assert windows.longest == 6
    with pytest.raises(InputError, match="has not the channels"):
        list(windows.feed(Block(np.zeros((1, 3)))))


def read(path: Path, **options: object) -> list[Block]:
    return list(open_source(str(path), SourceOptions(**options)).blocks())  # type: ignore[arg-type]


def test_readings_too_large_for_float32_saturate(tmp_path: Path) -> None:
    """A recording of infinities is no data; a warning would stand on stderr (they are errors)."""
    (tmp_path / "a.csv").write_text("a,b\n1e300,-1e39\n2,3\n")
    largest = float(np.finfo(np.float32).max)
    for scale, small in ((1.0, 2.0), (1e100, largest)):
        values = np.concatenate([b.values for b in read(tmp_path / "a.csv", scale=(scale,))])
        assert values[0].tolist() == [largest, -largest]
        assert values[1, 0] == small
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            int8 = to_int8(values.astype(np.float32), QParams(0.01, 0), "input")
        assert int8[0].tolist() == [127, -128]


def test_npz_of_readings_or_recordings(tmp_path: Path) -> None:
    x = np.arange(12, dtype=np.int16).reshape(6, 2)
    np.savez(tmp_path / "a.npz", x=x, y=np.array(["a", "a", "b", "b", "b", "a"]))
    blocks = read(tmp_path / "a.npz", scale=(0.5, 2.0), offset=(1.0,))
    assert [(len(b.values), b.label, b.first) for b in blocks] == [
        (2, "a", True),
        (3, "b", False),
        (1, "a", False),
    ]
    assert np.concatenate([b.values for b in blocks]).tolist() == (x * [0.5, 2.0] + 1).tolist()
    np.savez(tmp_path / "b.npz", x=x.reshape(3, 2, 2), y=[1, 0, 7], classes=["p", "q"])
    blocks = read(tmp_path / "b.npz")
    assert [(b.label, b.first) for b in blocks] == [("q", True), ("p", True), ("7", True)]
    np.savez(tmp_path / "w.npz", x=x.reshape(3, 2, 1, 2), y=["a", "b", "c"])
    windows = read(tmp_path / "w.npz")
    assert [b.values.tolist() for b in windows] == [b.values.tolist() for b in blocks]
    assert [(b.label, b.first) for b in windows] == [("a", True), ("b", True), ("c", True)]
    np.savez(tmp_path / "c.npz", z=x)
    with pytest.raises(InputError, match="holds no readings"):
        read(tmp_path / "c.npz")
    np.savez(tmp_path / "d.npz", x=x, y=[1])
    np.savez(tmp_path / "e.npz", x=x.reshape(3, 1, 2, 2))
    with pytest.raises(InputError, match="holds no readings"):
        read(tmp_path / "e.npz")
    with pytest.raises(InputError, match="labels do not belong"):
        read(tmp_path / "d.npz")


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_wav_of_any_width(tmp_path: Path, width: int) -> None:
    values = [0, 1, -1, 2 ** (8 * width - 1) - 1, -(2 ** (8 * width - 1)), 5]
    stored = [v + 128 for v in values] if width == 1 else values
    data = b"".join(
        struct.pack("B", v) if width == 1 else v.to_bytes(width, "little", signed=True)
        for v in stored
    )
    with wave.open(str(tmp_path / "x.wav"), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(width)
        file.setframerate(16000)
        file.writeframes(data)
    (block,) = read(tmp_path / "x.wav")
    expected = np.array(values).reshape(3, 2) / 2 ** (8 * width - 1)
    assert block.values.tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["x.wav", "x.npz", "x.csv"])
def test_files_that_hold_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(InputError) as caught:
        read(tmp_path / name)
    assert caught.value.where == str(tmp_path / name)
    assert caught.value.hint


def test_what_is_no_source() -> None:
    with pytest.raises(InputError, match="no such file"):
        open_source("absent.csv", SourceOptions())
    with pytest.raises(InputError, match="no such file"):
        open_source("/absent/x.npz", SourceOptions())
    for port in ("/dev/tty.absent14203", "socket://127.0.0.1:1"):
        with pytest.raises(LinkError):
            open_source(port, SourceOptions())


def test_labels_by_rule(tmp_path: Path) -> None:
    block = Block(np.zeros((1, 1)), "own")
    cases = {"column": "own", "name": "walk", "folder": "monday"}
    for rule, expected in cases.items():
        assert labeller("/data/monday/walk_07.csv", None, rule, None)(block) == expected
        assert labeller("x.csv", "fixed", rule, None)(block) == "fixed"
    assert labeller("x.csv", "fixed", "column", lambda: "pressed")(block) == "pressed"
    assert labeller("42.csv", None, "name", None)(block) == "42"
    with pytest.raises(UsageError, match="unknown rule"):
        labeller("x.csv", None, "colour", None)


@pytest.mark.parametrize("label", ["a,b", "a;b", "a\tb", "a\nb", " a", '"a"', ""])
def test_labels_that_would_spoil_a_recording(label: str) -> None:
    """Refused before an hour is recorded: the file could not be read again."""
    with pytest.raises(UsageError, match="a label must be"):
        labeller("x.csv", label, "column", None)
    with pytest.raises(UsageError, match="a label must be"):
        labeller(f"/data/{label or ' '}/x.csv", None, "folder", None)
    assert (
        labeller("x.csv", "standing still (2)", "column", None)(Block(np.zeros((1, 1)))) is not None
    )


def test_keys_choose_the_label() -> None:
    get, put = os.pipe()
    with Keys.parse("w=walk,r=run", get) as keys:
        assert keys.label() is None
        os.write(put, b"w\n")
        assert keys.label() == "walk" == keys.label()
        os.write(put, b"wr")
        assert keys.label() == "run"
        os.write(put, b" ")
        assert keys.label() is None
        os.write(put, b"w")
        os.close(put)
        assert keys.label() == "walk" == keys.label()
    os.close(get)
    for text in ("", "w", "walk=w", "w=a,w=b", "w="):
        with pytest.raises(UsageError, match="which key means"):
            Keys.parse(text)


def test_keys_on_a_terminal_come_at_once() -> None:
    master, slave = os.openpty()
    with Keys.parse("w=walk", slave) as keys:
        os.write(master, b"w")  # and no return
        time.sleep(0.05)
        assert keys.label() == "walk"
    os.close(master)
    os.close(slave)


@pytest.fixture
def sensor() -> Iterator[tuple[str, Callable[[bytes], None], int]]:
    master, slave = os.openpty()
    yield os.ttyname(slave), lambda data: void(os.write(master, data)), master
    os.close(slave)


def void(_: int) -> None:
    pass


Sensor = tuple[str, Callable[[bytes], None], int]


END = b"4\r\nboot\r\n5,6\r\n"


def test_lines_of_a_port(sensor: Sensor) -> None:
    name, write, master = sensor
    source = open_source(name, SourceOptions(silence_s=0.5))
    writer = threading.Thread(
        target=lambda: [write(part) for part in (b"0.5,9", b"9\r\n1,2\r", b"\n3,", END)]
    )
    writer.start()
    found: list[list[float]] = []
    with pytest.raises(LinkError, match="sensor is silent") as caught:
        found.extend(list(row) for block in source.blocks() for row in block.values)
    writer.join()
    # Nobody knows whether the first line was whole.
    assert found == [[1, 2], [3, 4], [5, 6]]
    assert source.counts.columns == 1
    assert "4 lines before" in str(caught.value.why)
    source.close()
    os.close(master)


def test_a_port_that_never_ends_a_line(sensor: Sensor) -> None:
    name, write, master = sensor
    source = open_source(name, SourceOptions(silence_s=0.5))

    ended = threading.Event()
    os.set_blocking(master, False)

    def babble() -> None:
        while not ended.is_set():
            with contextlib.suppress(BlockingIOError):
                write(b"\xff\x55" * 500)

    writer = threading.Thread(target=babble)
    writer.start()
    with pytest.raises(InputError, match="no readings"):
        for _ in source.blocks():
            pass
    ended.set()
    writer.join()
    source.close()
    os.close(master)


def test_an_unplugged_sensor_says_so(sensor: Sensor) -> None:
    name, write, master = sensor
    source = open_source(name, SourceOptions())
    write(b"1\n2\n3\n")
    blocks = source.blocks()
    assert list(next(blocks).values[0]) == [2]
    os.close(master)
    with pytest.raises(LinkError, match="port is gone"):
        for _ in blocks:
            pass
    source.close()
