"""`mcutrain accuracy` on a few images of the reference data: all kinds of runs, stopped and gone on
with.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcutrain.accuracy.grid import CANDIDATES, MOST_CANDIDATES
from mcutrain.cli.accuracy import BEGIN, END

MCUTRAIN = [sys.executable, "-c", "from mcutrain.cli import main; main()"]
TRAIN, TEST = 20, 10


@pytest.fixture
def few(refdata: Path, tmp_path: Path) -> Path:
    """A folder like that of the reference data, with the first images of each class of flowers5."""
    pytest.importorskip("PIL")
    folder = tmp_path / "refdata"
    (folder / "datasets").mkdir(parents=True)
    shutil.copy(refdata / "mcunet-5fps.pkl", folder)
    with np.load(refdata / "datasets" / "flowers5_jpeg128.npz") as file:
        data = {name: file[name] for name in file.files}
    chosen: list[int] = []
    for split, count in ((0, TRAIN), (1, TEST)):
        for label in range(5):
            found = np.flatnonzero((data["split"] == split) & (data["label"] == label))
            chosen += found[: count // 5].tolist()
    offset = data["offset"]
    images = [data["blob"][offset[i] : offset[i + 1]] for i in chosen]
    np.savez(
        folder / "datasets" / "flowers5_jpeg128.npz",
        blob=np.concatenate(images),
        offset=np.cumsum([0, *(len(i) for i in images)]),
        label=data["label"][chosen],
        split=data["split"][chosen],
        classes=data["classes"],
    )
    return folder


def _command(few: Path, out: Path, *more: object) -> list[str]:
    words = [*MCUTRAIN, "accuracy", "--refdata", few, "--out", out, "--data", "flowers5"]
    return [str(w) for w in (*words, "--no-auto", "--no-extras", "--seeds", 2, *more)]


@pytest.mark.slow
def test_a_table_is_made_in_parts(few: Path, tmp_path: Path) -> None:
    """Ctrl-C loses what runs at that moment and no more; a third time nothing is left to do."""
    out, page = tmp_path / "out", tmp_path / "accuracy.md"
    page.write_text(f"# Words\n\nthat stay.\n{BEGIN}old\n{END}And these.\n")
    process = subprocess.Popen(_command(few, out), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 300
    while len(list((out / "runs").glob("*.json"))) < 4 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 8, errors.decode()
    assert b"mcutrain accuracy" in errors  # what to do next
    kept = {p: p.read_bytes() for p in (out / "runs").glob("*.json")}
    assert len(kept) >= 4

    for _ in range(2):
        words = _command(few, out, "-o", page, "--json")
        done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr
    assert all(p.read_bytes() == content for p, content in kept.items())
    rows = json.loads(done.stdout)["rows"]
    assert [(r["scheme"], r["trainer"]) for r in rows] == [
        ("head", "probe"),
        *((s, t) for s in ("head", "49kb", "99kb") for t in ("int8", "shadow")),
    ]
    assert all(len(r["accuracies"]) == 2 for r in rows[1:])
    assert json.loads(page.with_suffix(".json").read_text())["rows"] == rows
    text = page.read_text()
    assert text.startswith("# Words\n\nthat stay.\n")
    assert text.endswith(f"{END}And these.\n")
    assert text.count("| flowers5 | classifier only |") == text.count(BEGIN) == 1
    assert "old" not in text
    runs = [json.loads(p.read_text()) for p in (out / "runs").glob("*.json")]
    assert 6 * (CANDIDATES + 2) < len(runs) <= 1 + 6 * (MOST_CANDIDATES + 2)
    _check_pairs(runs)


def _check_pairs(runs: list[dict[str, Any]]) -> None:
    """The classifier alone is the same in both trainers: same samples, order, views and rates."""
    head = [r for r in runs if r["settings"]["row"]["scheme"] == "head"]
    pairs: dict[str, list[float]] = {}
    for run in head:
        settings = run["settings"]
        if settings["row"]["trainer"] == "probe":
            continue
        key = f"{settings['part']} {settings['rate']} {settings['seed']}"
        pairs.setdefault(key, []).append(run["loss"])
    both = [losses for losses in pairs.values() if len(losses) == 2]
    assert len(both) >= CANDIDATES + 2
    for int8, shadow in both:
        assert int8 == pytest.approx(shadow, rel=1e-4)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    for words, named in (
        (["--refdata", str(tmp_path / "nowhere")], "nowhere"),
        (["--data", "flowers5,nothing", "--refdata", str(tmp_path)], "nothing"),
        (["--refdata", str(tmp_path), "--out", str(tmp_path / "out")], "datasets"),
    ):
        done = subprocess.run(
            [*MCUTRAIN, "accuracy", *words, "--json"],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode in (2, 3), done.stderr
        error = json.loads(done.stdout)
        assert named in json.dumps(error)
        assert error["hint"]
