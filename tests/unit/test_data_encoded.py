"""Archives of encoded images: decoded when they are looked at, refused when they are broken."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcutrain import data
from mcutrain.data.encoded import EncodedImages
from mcutrain.errors import InputError, UsageError

Image = pytest.importorskip("PIL.Image")


def png(pixels: np.ndarray) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def pictures(count: int = 6, height: int = 5, width: int = 4) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (count, height, width, 3)).astype(np.uint8)


def archive(path: Path, images: list[bytes], **changes: Any) -> str:
    offset = np.cumsum([0, *map(len, images)])
    arrays: dict[str, Any] = {
        "blob": np.frombuffer(b"".join(images), np.uint8),
        "offset": offset,
        "label": (np.arange(len(images)) % 3).astype(np.int16),
        "split": (np.arange(len(images)) % 2).astype(np.uint8),
        "classes": np.array(["a", "b", "c"]),
    }
    np.savez(path, **{k: v for k, v in (arrays | changes).items() if v is not None})
    return f"npz:{path}"


def test_images_are_those_that_were_encoded(tmp_path: Path) -> None:
    x = pictures()
    spec = archive(tmp_path / "d.npz", [png(i) for i in x])
    whole = data.open(spec)
    assert isinstance(whole.x, EncodedImages)
    assert whole.shape == (5, 4, 3)
    assert whole.classes == ("a", "b", "c")
    assert np.array_equal(whole.array(), x)
    assert whole.y.tolist() == [0, 1, 2, 0, 1, 2]
    test = data.open(f"{spec}?split=test")
    assert np.array_equal(test.array(), x[1::2])
    assert test.y.tolist() == [1, 0, 2]
    assert len(data.open(f"{spec}?split=train")) == 3


def test_options_work_as_on_arrays(tmp_path: Path) -> None:
    x = pictures()
    encoded = archive(tmp_path / "d.npz", [png(i) for i in x])
    np.savez(tmp_path / "plain.npz", x=x, y=np.arange(6) % 3, classes=["a", "b", "c"])
    query = "?seed=3&skip=1&classes=2,0&count=3&range=-1,1"
    a, b = (data.open(s + query) for s in (encoded, f"npz:{tmp_path}/plain.npz"))
    assert isinstance(a.x, EncodedImages)
    assert np.array_equal(a.array(), b.array())
    assert a.y.tolist() == b.y.tolist()
    shifted = data.open(f"{encoded}?shift=mirror").array()
    assert np.array_equal(shifted, x[:, :, ::-1])


def test_images_are_resized_and_made_gray(tmp_path: Path) -> None:
    """Bilinear, as Pillow does it."""
    x = pictures()
    spec = archive(tmp_path / "d.npz", [png(i) for i in x])
    resized = data.open(f"{spec}?size=8x10")
    assert resized.shape == (8, 10, 3)
    expected = Image.fromarray(x[2]).resize((10, 8), Image.Resampling.BILINEAR)
    assert np.array_equal(resized.sample(2), np.asarray(expected))
    gray = data.open(f"{spec}?gray=1")
    assert gray.shape == (5, 4, 1)
    assert np.array_equal(gray.sample(1)[:, :, 0], np.asarray(Image.fromarray(x[1]).convert("L")))


def test_images_of_different_sizes_need_one(tmp_path: Path) -> None:
    images = [png(pictures(1)[0]), png(pictures(1, 7)[0])]
    spec = archive(tmp_path / "d.npz", images)
    with pytest.raises(InputError, match="one size") as caught:
        data.open(spec).array()
    assert "image 1" in str(caught.value.where)
    assert data.open(f"{spec}?size=6x6").array().shape == (2, 6, 6, 3)


def test_a_broken_image_is_named(tmp_path: Path) -> None:
    x = pictures()
    images = [png(i) for i in x]
    images[3] = images[3][:40]
    samples = data.open(archive(tmp_path / "d.npz", images))
    with pytest.raises(InputError, match="cannot read the image") as caught:
        samples.sample(3)
    assert "image 3" in str(caught.value.where)
    assert caught.value.hint
    images[2] = b"not an image"
    samples = data.open(archive(tmp_path / "d.npz", images))
    with pytest.raises(InputError, match="cannot read the image") as caught:
        samples.sample(2)
    assert "Pillow" in str(caught.value.why)


@pytest.mark.parametrize(
    "changes",
    [
        {"offset": np.array([0, 10])},
        {"offset": np.array([0, 10, 5, 20, 30, 40, 50])},
        {"offset": np.array([-1, 10, 15, 20, 30, 40, 50])},
        {"offset": np.array([0, 10, 15, 20, 30, 40, 1 << 40])},
        {"split": np.zeros(2, np.uint8)},
        {"offset": np.linspace(0, 100, 7)},
        {"label": np.array(3)},
    ],
)
def test_contradictions_are_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    images = [png(i) for i in pictures()]
    spec = archive(tmp_path / "d.npz", images, **changes)
    with pytest.raises(InputError, match="contradict"):
        data.open(f"{spec}?split=train")


def test_a_split_that_is_not_there_is_refused(tmp_path: Path) -> None:
    spec = archive(tmp_path / "d.npz", [png(i) for i in pictures()], split=None)
    with pytest.raises(InputError, match="no split 'other'"):
        data.open(f"{spec}?split=other")
    with pytest.raises(InputError, match="no arrays"):
        data.open(f"{spec}?split=train")
    with pytest.raises(InputError, match="no samples are left"):
        data.open(archive(tmp_path / "e.npz", [png(pictures()[0])]) + "?split=test")


def test_shape_is_for_arrays_and_size_for_images(tmp_path: Path) -> None:
    spec = archive(tmp_path / "d.npz", [png(i) for i in pictures()])
    np.savez(tmp_path / "plain.npz", x=pictures(), y=np.zeros(6))
    with pytest.raises(UsageError, match="have a shape"):
        data.open(f"{spec}?shape=1x20x3")
    with pytest.raises(UsageError, match="for encoded images"):
        data.open(f"npz:{tmp_path}/plain.npz?size=4x4")
