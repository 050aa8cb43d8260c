"""The data set type, its order and selections, and the shifts."""

from __future__ import annotations

import numpy as np
import pytest

from mcutrain.data import Dataset, shift
from mcutrain.data.dataset import make
from mcutrain.errors import InputError, UsageError


def ramp(n: int = 12, shape: tuple[int, int, int] = (3, 4, 2), classes: int = 4) -> Dataset:
    x = np.arange(n * np.prod(shape), dtype=np.int64) % 251
    labels = np.arange(n, dtype=np.int64) % classes
    return make(x.astype(np.uint8).reshape(n, *shape), labels, "ramp")


def test_iterates_in_order_as_pairs() -> None:
    data = ramp()
    pairs = list(data)
    assert len(pairs) == len(data) == 12
    assert [label for _, label in pairs] == [0, 1, 2, 3] * 3
    assert np.array_equal(pairs[5][0], data.x[5])
    assert data.shape == (3, 4, 2)


def test_shuffle_is_pinned_to_its_seed() -> None:
    # PCG64 through Generator.permutation; a change here would change every recorded run.
    order = make(np.arange(10, dtype=np.uint8)[:, None], np.arange(10), "n").shuffled(0).y
    assert order.tolist() == [4, 6, 2, 7, 3, 5, 9, 0, 8, 1]


def test_shuffle_moves_samples_with_their_labels() -> None:
    data = ramp()
    shuffled = data.shuffled(7)
    where = [int(np.flatnonzero((data.x == x).all(axis=(1, 2, 3)))[0]) for x in shuffled.x]
    assert sorted(where) == list(range(12))
    assert where != list(range(12))
    assert data.y[where].tolist() == shuffled.y.tolist()


def test_only_renumbers_labels_and_names() -> None:
    kept = ramp().only([3, 1])
    assert kept.classes == ("3", "1")
    assert kept.y.tolist() == [1, 0] * 3
    assert np.array_equal(kept.x, ramp().x[[1, 3, 5, 7, 9, 11]])


@pytest.mark.parametrize("kept", [[1, 1], [4], [-1]])
def test_only_refuses_what_is_no_selection(kept: list[int]) -> None:
    with pytest.raises(InputError, match="different numbers from 0 to 3"):
        ramp().only(kept)


def test_real_divides_uint8_and_keeps_float32() -> None:
    data = make(np.array([[0, 51, 255]], np.uint8), np.array([0]), "u")
    assert data.real().dtype == np.float32
    assert data.real().ravel().tolist() == [0.0, np.float32(0.2), 1.0]
    floats = make(np.array([[-3.5, 7.0]], np.float64), np.array([0]), "f")
    assert floats.real().ravel().tolist() == [-3.5, 7.0]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((5, 6), (1, 1, 6)), ((5, 6, 7), (6, 7, 1)), ((5, 6, 7, 3), (6, 7, 3))],
)
def test_missing_axes_are_added(shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    assert make(np.zeros(shape, np.uint8), np.zeros(5, np.int64), "z").shape == expected


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.zeros((2, 3)), np.array([0, 1, 1]), "one int64 label a sample"),
        (np.zeros((2, 3)), np.array([0, -1]), "outside of the classes"),
        (np.zeros((2, 3)), np.array([0.0, 0.5]), "labels must be whole numbers"),
        (np.zeros((2, 3)), np.array(["a", "b"]), "the labels are not numbers"),
        (np.zeros((2, 1, 1, 1, 1)), np.array([0, 1]), "four axes"),
        (np.zeros((2, 0, 3)), np.array([0, 1]), "four axes"),
        (np.array([[0.0], [np.nan]]), np.array([0, 1]), "sample 1 holds a NaN"),
    ],
)
def test_bad_arrays_are_refused(x: np.ndarray, y: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        make(x, y, "file.npz")
    assert caught.value.where == "file.npz"


def test_labels_may_be_a_column() -> None:
    assert make(np.zeros((3, 2)), np.array([[2], [0], [1]]), "c").y.tolist() == [2, 0, 1]


def test_more_class_names_than_labels_are_kept() -> None:
    assert make(np.zeros((1, 2)), np.array([0]), "c", ["a", "b"]).classes == ("a", "b")


IMAGE = np.array([[[[10], [20]], [[30], [255]]]], np.uint8)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("rotate90", [[20, 255], [10, 30]]),
        ("rotate180", [[255, 30], [20, 10]]),
        ("mirror", [[20, 10], [255, 30]]),
        ("negative", [[245, 235], [225, 0]]),
        ("dim", [[37, 42], [47, 159]]),
        ("rotate90+negative", [[235, 0], [245, 225]]),
        ("negative+dim", [[154, 149], [144, 32]]),
        ("dim+negative", [[218, 213], [208, 96]]),
    ],
)
def test_shift_pixels(names: str, expected: list[list[int]]) -> None:
    shifted = shift.apply(names, IMAGE)
    assert shifted[0, :, :, 0].tolist() == expected
    assert shifted.dtype == np.uint8
    assert shifted.flags.c_contiguous


def test_blur_is_the_floored_mean_with_repeated_borders() -> None:
    image = np.random.Generator(np.random.PCG64(3)).integers(0, 256, (2, 5, 4, 3), np.uint8)
    blurred = shift.apply("blur", image)
    for n, row, column, channel in np.ndindex(image.shape):
        window = [
            int(image[n, min(max(row + i, 0), 4), min(max(column + j, 0), 3), channel])
            for i in (-1, 0, 1)
            for j in (-1, 0, 1)
        ]
        assert blurred[n, row, column, channel] == sum(window) // 9


def test_shift_leaves_its_input_alone() -> None:
    before = IMAGE.copy()
    for name in shift.SHIFTS:
        shift.apply(name, IMAGE)
    assert np.array_equal(IMAGE, before)


def test_shift_errors() -> None:
    with pytest.raises(UsageError, match="unknown shift 'fog'"):
        shift.apply("mirror+fog", IMAGE)
    with pytest.raises(UsageError, match="uint8"):
        shift.apply("mirror", IMAGE.astype(np.float32))


def test_classes_are_matched_by_name() -> None:
    """A folder to test with that lacks a class numbers the others in another way."""
    x = np.zeros((3, 2, 2, 1), np.uint8)
    data = make(x, np.array([0, 1, 1]), "new", ["car", "ship"])
    same = data.labelled_as(["car", "frog", "ship"])
    assert same.y.tolist() == [0, 2, 2]
    assert same.classes == ("car", "frog", "ship")
    assert data.labelled_as(["ship", "car"]).y.tolist() == [1, 0, 0]
    assert data.labelled_as(["car", "ship"]) is data
    with pytest.raises(InputError, match="'ship' is no class of the network"):
        data.labelled_as(["car", "frog"])
    assert data.only([0]).labelled_as(["frog", "car"]).y.tolist() == [1]


@pytest.mark.parametrize("names", [(), ("0", "1", "2"), ("5", "6", "7")])
def test_classes_without_names_stay_as_they_are(names: tuple[str, ...]) -> None:
    x = np.zeros((3, 2, 2, 1), np.uint8)
    named = make(x, np.array([0, 1, 1]), "new", ["car", "ship"])
    numbered = make(x, np.array([0, 1, 1]), "new")
    assert named.labelled_as(names) is named
    assert numbered.labelled_as(["a", "b", "c"]) is numbered
