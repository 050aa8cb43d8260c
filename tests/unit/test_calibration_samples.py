"""Data are often sorted by class: calibration looks at samples from all over them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mcutrain.cli.main import main
from mcutrain.cli.pack import CALIBRATION_SAMPLES

SAMPLES = 3 * CALIBRATION_SAMPLES


def _pack(folder: Path, name: str) -> bytes:
    image = folder / f"{name}.mcti"
    words = ("pack", "demo", "--scheme", "last:2", "--calibrate", f"npz:{folder}/{name}.npz")
    with pytest.raises(SystemExit) as caught:
        main([*words, "-o", str(image)])
    assert not caught.value.code
    return image.read_bytes()


def test_pack_calibrates_with_samples_from_all_over_the_data(tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(0, 256, (SAMPLES, 28, 28)).astype(np.uint8)
    y = np.arange(SAMPLES) * 10 // SAMPLES
    x[y < 5] //= 64
    chosen = np.linspace(0, SAMPLES - 1, CALIBRATION_SAMPLES).round().astype(int)
    for name, which in {"all": slice(None), "spread": chosen, "first": slice(64)}.items():
        np.savez(tmp_path / f"{name}.npz", x=x[which], y=y[which])
    image = _pack(tmp_path, "all")
    assert image == _pack(tmp_path, "spread")
    assert image != _pack(tmp_path, "first")
