"""`mcutrain record`: what a file of windows holds, and why it holds none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcutrain.cli.main import main

LENGTH = 10


def record(capsys: pytest.CaptureFixture[str], source: Path, *options: object) -> dict[str, Any]:
    """What `mcutrain record SOURCE --length LENGTH` answers."""
    words = ("record", source, "-o", source.with_suffix(".out.npz"), "--length", LENGTH, *options)
    with pytest.raises(SystemExit):
        main([str(w) for w in (*words, "--json")])
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def readings(path: Path, labels: list[str]) -> Path:
    lines = [f"{i},{-i},{label}" for i, label in enumerate(labels)]
    path.write_text("\n".join(["a,b,label", *lines]) + "\n")
    return path


@pytest.mark.parametrize(
    ("labels", "why", "hint"),
    [
        (["x"] * 9, "at most 9 readings in a row", "record for longer"),
        (["x", "y"] * 10, "2 in which it changes", "--hop 1"),
        ([""] * 30, "3 without label", "--label NAME"),
    ],
)
def test_the_reason_for_no_window(
    labels: list[str],
    why: str,
    hint: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = record(capsys, readings(tmp_path / "r.csv", labels))
    assert error["message"] == "there is no window with a label"
    assert why in error["why"]
    assert hint in error["hint"]


def test_short_recordings_alone_make_no_window(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "r.npz", x=np.zeros((5, LENGTH - 1, 2), np.float32), y=np.arange(5) % 2)
    error = record(capsys, tmp_path / "r.npz")
    assert f"at most {LENGTH - 1} readings in a row" in error["why"]
    assert "record for longer" in error["hint"]


def test_a_label_without_a_window_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = readings(tmp_path / "r.csv", ["x"] * 20 + ["y"] * 10 + ["z"] * 9)
    answer = record(capsys, source)
    assert answer["labels"] == {"x": 20, "y": 10, "z": 9}
    assert answer["stored"] == 3
    assert answer["stored_labels"] == {"x": 2, "y": 1, "z": 0}
    with np.load(answer["output"]) as file:
        assert list(file["classes"]) == ["x", "y"]
    with pytest.raises(SystemExit):
        main(["record", str(source), "-o", str(tmp_path / "o.npz"), "--length", str(LENGTH)])
    assert "3 windows (2 x, 1 y, 0 z)" in capsys.readouterr().out


def test_windows_without_a_label_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = record(capsys, readings(tmp_path / "r.csv", ["a"] * 20 + [""] * 20))
    assert answer["stored"] == answer["input"]["unlabelled_windows"] == 2
