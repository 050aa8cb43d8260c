"""The grammar of data specs on the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mcutrain import data
from mcutrain.errors import InputError, McutrainError, UsageError


@pytest.fixture
def file(tmp_path: Path) -> str:
    x = np.arange(20, dtype=np.uint8).reshape(20, 1, 1, 1)
    path = tmp_path / "d.npz"
    np.savez(path, x=x, y=np.arange(20) % 5, x_b=x[:3], y_b=[0, 0, 1])
    return f"npz:{path}"


def values(spec: str) -> list[int]:
    return [int(v) for v in data.open(spec).x.ravel()]


def test_plain(file: str) -> None:
    assert values(file) == list(range(20))
    assert data.open(file).name == file


def test_options_of_the_source(file: str) -> None:
    assert values(f"{file}?split=b") == [0, 1, 2]


def test_steps_apply_in_the_order_they_are_written(file: str) -> None:
    assert values(f"{file}?skip=5&count=3") == [5, 6, 7]
    assert values(f"{file}?count=8&skip=5") == [5, 6, 7]
    assert values(f"{file}?classes=1&skip=1") == [6, 11, 16]
    assert values(f"{file}?skip=2&classes=1") == [6, 11, 16]
    assert values(f"{file}?skip=1&classes=1") == [1, 6, 11, 16]


def test_classes(file: str) -> None:
    chosen = data.open(f"{file}?classes=3-4,0&count=6")
    assert [int(v) for v in chosen.x.ravel()] == [0, 3, 4, 5, 8, 9]
    assert chosen.y.tolist() == [2, 0, 1, 2, 0, 1]
    assert chosen.classes == ("3", "4", "0")


def test_seed_then_count_differs_from_count_then_seed(file: str) -> None:
    assert sorted(values(f"{file}?count=5&seed=1")) == [0, 1, 2, 3, 4]
    drawn = values(f"{file}?seed=1&count=5")
    assert sorted(drawn) != [0, 1, 2, 3, 4]
    assert drawn == values(f"{file}?seed=1&count=5")
    assert drawn != values(f"{file}?seed=2&count=5")


def test_shifts_are_joined_by_plus(file: str) -> None:
    assert values(f"{file}?count=2&shift=negative+dim") == [255 // 2 + 32, 254 // 2 + 32]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("?count", "not of the form NAME=VALUE"),
        ("?cuont=3", "unknown option 'cuont'"),
        ("?count=-3", "cannot read count=-3"),
        ("?count=", "cannot read count="),
        ("?classes=1-x", "cannot read classes=1-x"),
        ("?shift=fog", "unknown shift 'fog'"),
        ("?label=a", "unknown option 'label'"),
    ],
)
def test_bad_options(file: str, query: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        data.open(file + query)
    assert caught.value.where == file + query


def test_classes_that_do_not_exist_and_nothing_left(file: str) -> None:
    with pytest.raises(InputError, match="from 0 to 4"):
        data.open(f"{file}?classes=4-5")
    with pytest.raises(InputError, match="no samples are left"):
        data.open(f"{file}?skip=20")


@pytest.mark.parametrize("spec", ["", "npz", "d.npz", "http://x", "C:\\d.npz"])
def test_what_names_no_source(spec: str) -> None:
    with pytest.raises(UsageError, match="does not name data"):
        data.open(spec)


@pytest.mark.parametrize(
    "spec",
    ["idx:one", "folder:.?size=3", "folder:.?size=3x0", "folder:.?gray=yes", "csv:a?shape=2x2"],
)
def test_source_options_that_cannot_be_read(spec: str) -> None:
    with pytest.raises(UsageError):
        data.open(spec)


@pytest.mark.parametrize(
    ("spec", "meant"),
    [
        ("npz:{file}&count=3", "npz:{file}?count=3"),
        ("npz:{file}&split=train&seed=1", "npz:{file}?split=train&seed=1"),
        ("csv:{file}&label=kind", "csv:{file}?label=kind"),
        ("fashion-mnist:test&shift=dim", "fashion-mnist:test?shift=dim"),
    ],
)
def test_an_ampersand_where_a_question_mark_belongs_is_named(
    file: str, spec: str, meant: str
) -> None:
    file = file.removeprefix("npz:")
    with pytest.raises(McutrainError) as error:
        data.open(spec.format(file=file))
    assert f"'{meant.format(file=file)}'" in str(error.value.hint)


def test_files_may_have_an_ampersand_in_their_name(file: str, tmp_path: Path) -> None:
    name = tmp_path / "a&count=1.npz"
    name.write_bytes(Path(file.removeprefix("npz:")).read_bytes())
    assert len(data.open(f"npz:{name}")) == len(data.open(file))
    for spec in (f"npz:{tmp_path}/b&c.npz", f"npz:{name}?count=0"):  # no slip of this kind
        with pytest.raises(InputError) as error:
            data.open(spec)
        assert "?count=1" not in str(error.value.hint)


def test_missing_files_name_the_file(tmp_path: Path) -> None:
    for source in ("npz", "csv", "folder"):
        pytest.importorskip("PIL")
        with pytest.raises(McutrainError) as caught:
            data.open(f"{source}:{tmp_path / 'absent'}")
        assert str(caught.value.where) == str(tmp_path / "absent")


def test_range_turns_pixels_into_real_numbers(file: str) -> None:
    x = data.open(f"{file}?count=2&range=-1,1").array()
    assert x.dtype == np.float32
    np.testing.assert_allclose(x.ravel(), [-1, -1 + 2 / 255], atol=1e-6)
    with pytest.raises(InputError, match="only pixels"):
        data.open(f"{file}?range=-1,1&range=0,1")


def test_windows_of_steps_and_channels_get_a_shape(tmp_path: Path) -> None:
    x = np.arange(2 * 4 * 3, dtype=np.float32).reshape(2, 4, 3)
    np.savez(tmp_path / "w.npz", x=x, y=[0, 1])
    got = data.open(f"npz:{tmp_path}/w.npz?shape=4x1x3")
    assert got.shape == (4, 1, 3)
    np.testing.assert_array_equal(got.x.reshape(2, 4, 3), x)
    with pytest.raises(InputError, match="cannot be given the shape"):
        data.open(f"npz:{tmp_path}/w.npz?shape=4x1x2")


@pytest.mark.parametrize(
    "arrays",
    [
        {"x": np.float32(3), "y": np.int64(1)},
        {"x": np.zeros((3, 2)), "y": np.int64(1)},
        {"x": np.zeros((3, 2)), "y": np.array([0, 1, 10**9])},
        {"x": np.zeros((3, 2)), "y": np.array([0, -1, 1])},
        {"x": np.zeros((3, 2)), "y": np.array([0, np.nan, 1])},
        {"x": np.full((3, 2), 1e300), "y": np.array([0, 1, 1])},
        {"x": np.zeros((3, 2)), "y": np.array(["a", "b", "c"])},
        {"x": np.zeros((3, 0)), "y": np.array([0, 1, 1])},
        {"x": np.zeros((0, 2)), "y": np.array([], int)},
    ],
)
def test_hostile_arrays_are_complete_errors(tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    np.savez(tmp_path / "d.npz", **arrays)
    with pytest.raises(InputError) as caught:
        data.open(f"npz:{tmp_path}/d.npz")
    assert caught.value.where
    assert caught.value.hint


@pytest.mark.parametrize(
    "text",
    ["label,f\n²,x\n", "label\n0\n", f"label,f\n{'9' * 8},1\n", "label,f\n0,nan\n", "label,f\n0\n"],
)
def test_hostile_tables_are_complete_errors(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        data.open(f"csv:{tmp_path}/t.csv")
    assert caught.value.where
    assert caught.value.hint


@pytest.mark.parametrize(
    "option",
    [
        "classes=0-9999999999",
        "classes=3-1",
        "count=²",
        "count",
        "range=1",
        "range=1,0",
        "range=nan,1",
        "range=a,b",
        "shape=0x1x1",
        "shape=²x1x1",
        "shape=70000x1x1",
    ],
)
def test_hostile_options_are_complete_errors(file: str, option: str) -> None:
    with pytest.raises(UsageError) as caught:
        data.open(f"{file}?{option}")
    assert caught.value.where
    assert caught.value.hint
