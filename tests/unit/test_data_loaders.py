"""Loaders: right files give the right arrays, wrong ones one clear error."""

from __future__ import annotations

import gzip
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

from mcutrain.data import fashion, folder, idx, npz, table
from mcutrain.errors import InputError, ToolchainError, UsageError


def idx_bytes(array: np.ndarray, code: int) -> bytes:
    header = bytes([0, 0, code, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


@pytest.mark.parametrize(
    ("dtype", "code"),
    [("u1", 8), ("i1", 9), ("i2", 0x0B), ("i4", 0x0C), ("f4", 0x0D), ("f8", 0x0E)],
)
@pytest.mark.parametrize("compressed", [False, True])
def test_idx_types(tmp_path: Path, dtype: str, code: int, compressed: bool) -> None:
    array = np.arange(24).reshape(2, 3, 4).astype(dtype)
    data = idx_bytes(array, code)
    path = tmp_path / "a"
    path.write_bytes(gzip.compress(data) if compressed else data)
    read = idx.read_array(path)
    assert read.dtype == np.dtype(dtype)
    assert np.array_equal(read, array)


def test_idx_load_pairs_images_with_labels(tmp_path: Path) -> None:
    images = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
    (tmp_path / "x").write_bytes(idx_bytes(images, 8))
    (tmp_path / "y").write_bytes(idx_bytes(np.array([1, 0], np.uint8), 8))
    data = idx.load(tmp_path / "x", tmp_path / "y")
    assert np.array_equal(data.x[..., 0], images)
    assert data.y.tolist() == [1, 0]


def test_idx_every_truncation_is_refused(tmp_path: Path) -> None:
    whole = idx_bytes(np.arange(6, dtype=np.uint8).reshape(2, 3), 8)
    path = tmp_path / "cut.idx"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError) as caught:
            idx.read_array(path)
        assert caught.value.where == str(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(InputError, match="extra bytes"):
        idx.read_array(path)


def test_idx_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        idx.read_array(tmp_path / "absent")
    damaged = tmp_path / "damaged.gz"
    damaged.write_bytes(gzip.compress(idx_bytes(np.zeros((9, 9), np.uint8), 8))[:-6])
    with pytest.raises(InputError, match="cannot read"):
        idx.read_array(damaged)
    other = tmp_path / "other"
    other.write_bytes(b"PNG?????")
    with pytest.raises(InputError, match="not an IDX file"):
        idx.read_array(other)


def test_npz_plain_and_split(tmp_path: Path) -> None:
    x = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    path = tmp_path / "d.npz"
    np.savez(path, x=x, y=[0, 1], classes=["cat", "dog"])
    data = npz.load(path)
    assert data.classes == ("cat", "dog")
    assert np.array_equal(data.x[..., 0], x)
    np.savez(path, x_train=x, y_train=[0, 1], x_test=x[:1], y_test=[2])
    assert len(npz.load(path, "test")) == 1
    with pytest.raises(InputError, match="no arrays x and y") as caught:
        npz.load(path)
    assert "split=test" in str(caught.value)


def test_npz_bad_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        npz.load(tmp_path / "absent.npz")
    path = tmp_path / "a.npz"
    path.write_bytes(b"text")
    with pytest.raises(InputError, match="not an npz archive"):
        npz.load(path)
    np.savez(path, x=np.zeros((2, 2)), y=np.array([object(), object()]))
    with pytest.raises(InputError, match="cannot read"):  # unpickling would run code
        npz.load(path)
    np.savez(path, x=np.zeros((2, 2), np.uint8), y=[0, 1])
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 3] ^= 0xFF
    path.write_bytes(bytes(whole))
    with pytest.raises(InputError):
        npz.load(path)


def test_table_with_names_and_shape(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a, label, b, c, d\n1,run,2,3,4\n\n5,walk,6,7,8.5\n9,run,0,0,0\n")
    data = table.load(path, shape=(2, 1, 2))
    assert data.classes == ("run", "walk")
    assert data.y.tolist() == [0, 1, 0]
    assert data.x[1].tolist() == [[[5.0, 6.0]], [[7.0, 8.5]]]
    assert table.load(path).shape == (1, 1, 4)


def test_table_numbers_as_labels(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("kind,v\n10,1\n2,2\n")
    data = table.load(path, label="kind")
    assert data.y.tolist() == [10, 2]
    assert len(data.classes) == 11


@pytest.mark.parametrize(
    ("text", "message", "where"),
    [
        ("", "no samples", ""),
        ("label,v\n", "no samples", ""),
        ("kind,v\n0,1\n", "no column 'label'", ""),
        ("label,v\n0,1\n0\n", "1 fields instead of 2", ", line 3"),
        ("label,v\n0,1\n1,x\n", "not a number", ", line 3"),
        ("label,v\n0,1\n1,inf\n", "sample 1 holds", ""),
    ],
)
def test_table_errors(tmp_path: Path, text: str, message: str, where: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        table.load(path)
    assert caught.value.where == f"{path}{where}"


def test_table_shape_that_does_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("label,a,b,c\n0,1,2,3\n")
    with pytest.raises(InputError, match="3 features do not fill a sample of 2x1x2"):
        table.load(path, shape=(2, 1, 2))


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    image = pytest.importorskip("PIL.Image")
    for name, red in (("dog", 200), ("cat", 10)):
        (tmp_path / name).mkdir()
        for i in range(2):
            picture = image.new("RGB", (4, 3), (red, i, 7))
            picture.save(tmp_path / name / f"{i}.png")
    (tmp_path / "cat" / "notes.txt").write_text("not an image")
    return tmp_path


def test_folder_orders_classes_and_files(pictures: Path) -> None:
    data = folder.load(pictures)
    assert data.classes == ("cat", "dog")
    assert data.y.tolist() == [0, 0, 1, 1]
    assert data.shape == (3, 4, 3)
    assert data.array()[:, 0, 0].tolist() == [[10, 0, 7], [10, 1, 7], [200, 0, 7], [200, 1, 7]]


def test_folder_resizes_and_grays(pictures: Path) -> None:
    data = folder.load(pictures, size=(6, 5), gray=True)
    assert data.shape == (6, 5, 1)
    assert data.x[0].max() == data.x[0].min() == (299 * 10 + 114 * 7 + 500) // 1000


def test_folder_errors(pictures: Path) -> None:
    from PIL import Image

    with pytest.raises(InputError, match="no such folder"):
        folder.load(pictures / "absent")
    with pytest.raises(InputError, match="no images"):
        folder.load(pictures / "cat")
    Image.new("RGB", (5, 3)).save(pictures / "dog" / "odd.png")
    with pytest.raises(InputError, match="not all of one size") as caught:
        folder.load(pictures)
    assert str(caught.value.where).endswith("odd.png")
    (pictures / "dog" / "odd.png").write_bytes(b"\x89PNG\r\n\x1a\n damaged")
    with pytest.raises(InputError, match="cannot read the image"):
        folder.load(pictures)


def test_a_truncated_image_is_named_when_it_is_looked_at(pictures: Path) -> None:
    file = pictures / "dog" / "1.png"
    file.write_bytes(file.read_bytes()[:45])
    data = folder.load(pictures)
    assert data.sample(0).shape == (3, 4, 3)
    with pytest.raises(InputError, match="cannot read the image") as caught:
        data.array()
    assert caught.value.where == str(file)


def test_folder_without_pillow_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ToolchainError, match="need Pillow") as caught:
        folder.load(tmp_path)
    assert "mcutrain[images]" in str(caught.value.hint)


def test_fashion_mnist_absent_names_the_package(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not installed") as caught:
        fashion.load("test", tmp_path)
    assert "dataset-fashion-mnist" in str(caught.value.hint)
    with pytest.raises(UsageError, match="splits train and test"):
        fashion.load("valid", tmp_path)


@pytest.mark.skipif(not fashion.DIRECTORY.is_dir(), reason="dataset-fashion-mnist not installed")
def test_fashion_mnist_is_the_published_data() -> None:
    data = fashion.load("test")
    assert data.x.shape == (10000, 28, 28, 1)
    assert np.bincount(data.y).tolist() == [1000] * 10
    assert data.y[:8].tolist() == [9, 2, 1, 1, 6, 1, 4, 6]
