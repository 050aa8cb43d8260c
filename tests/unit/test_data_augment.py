"""Views of a sample: what may change, what may not, and that a seed decides all of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mcutrain import data
from mcutrain.data.augment import KINDS, Augmentation
from mcutrain.data.dataset import make
from mcutrain.errors import InputError, UsageError


def picture(height: int = 12, width: int = 10) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (height, width, 3)).astype(np.uint8)


@pytest.mark.parametrize("kind", KINDS)
def test_a_view_depends_on_seed_sample_and_view_alone(kind: str) -> None:
    image = picture()
    augmentation = Augmentation((kind,), 40)
    views = [augmentation.view(image, 3, v) for v in range(40)]
    again = [augmentation.view(image, 3, v) for v in reversed(range(40))][::-1]
    assert all(np.array_equal(a, b) for a, b in zip(views, again, strict=True))
    assert np.array_equal(views[0], image)
    assert all(v.shape == image.shape and v.dtype == np.uint8 for v in views)
    for other in (Augmentation((kind,), 40, seed=1), Augmentation((kind,), 41)):
        same = [np.array_equal(other.view(image, 3, v), views[v]) for v in range(1, 40)]
        assert all(same) == (other.seed == 0)
    sample_4 = [augmentation.view(image, 4, v) for v in range(1, 40)]
    assert not all(np.array_equal(a, b) for a, b in zip(sample_4, views[1:], strict=True))


def test_flip_gives_the_image_or_its_mirror_image() -> None:
    image = picture()
    flips = [
        np.array_equal(Augmentation(("flip",), 200).view(image, 0, v), image[:, ::-1])
        for v in range(1, 200)
    ]
    assert 70 < sum(flips) < 130
    for v, flipped in enumerate(flips, 1):
        expected = image[:, ::-1] if flipped else image
        assert np.array_equal(Augmentation(("flip",), 200).view(image, 0, v), expected)


def test_move_shifts_by_an_eighth_at_most_and_repeats_the_border() -> None:
    """In an image of its own coordinates each pixel says where it comes from."""
    rows, columns = np.mgrid[0:16, 0:24].astype(np.uint8)
    image = np.stack([rows, columns, rows], axis=2)
    seen = set()
    for v in range(1, 200):
        moved = Augmentation(("move",), 200).view(image, 0, v).astype(int)
        down, right = 8 - moved[8, 12, 0], 12 - moved[8, 12, 1]
        expected = np.clip(np.arange(16) - down, 0, 15)
        assert np.array_equal(moved[:, 0, 0], expected)
        seen.add((down, right))
    assert {d for d, _ in seen} == set(range(-2, 3))
    assert {r for _, r in seen} == set(range(-3, 4))


def test_crop_shows_a_part_of_at_least_half_the_area() -> None:
    """On a ramp, bilinear resampling gives the place itself: slopes are the part's extent."""
    ramp = np.arange(0, 240, 2, dtype=np.uint8)
    image = np.stack([np.broadcast_to(ramp[:, None], (120, 120))] * 2, axis=2).copy()
    image[:, :, 1] = ramp[None]
    areas = []
    for v in range(1, 100):
        part = Augmentation(("crop",), 100).view(image, 0, v).astype(float)
        extents = [np.ptp(part[5:-5, 60, 0]) / 218, np.ptp(part[60, 5:-5, 1]) / 218]
        assert all(0.5 < extent <= 1.01 for extent in extents)
        assert 0.72 < extents[0] / extents[1] < 1.38
        areas.append(extents[0] * extents[1])
    assert 0.48 < min(areas) < 0.6
    assert 0.9 < max(areas) < 1.02


def test_whole_images_are_left_as_they_are_by_a_crop_of_everything() -> None:
    from mcutrain.data.augment import _resampled

    image = picture()
    assert np.array_equal(_resampled(image, np.arange(12.0), np.arange(10.0)), image)


@pytest.mark.parametrize(("kinds", "views"), [(("turn",), 4), (("flip",), 0), (("flip",), 257)])
def test_impossible_augmentations_are_refused(kinds: tuple[str, ...], views: int) -> None:
    with pytest.raises(UsageError):
        Augmentation(kinds, views)


@pytest.fixture
def file(tmp_path: Path) -> str:
    x = np.arange(4 * 6 * 5 * 3, dtype=np.uint8).reshape(4, 6, 5, 3)
    np.savez(tmp_path / "d.npz", x=x, y=np.arange(4))
    return f"npz:{tmp_path}/d.npz"


def test_a_spec_names_augmentation_and_views(file: str) -> None:
    plain = data.open(file)
    assert plain.views == 1
    four = data.open(f"{file}?augment=flip+crop")
    assert (four.views, four.augmentation.kinds) == (4, ("flip", "crop"))
    for spec in ("views=9&augment=move", "augment=move&views=9"):
        assert data.open(f"{file}?{spec}").augmentation == Augmentation(("move",), 9)
    assert np.array_equal(four.array(), plain.x)
    assert np.array_equal(four.sample(2), plain.x[2])
    assert np.array_equal(four.sample(2, 3), four.augmentation.view(plain.x[2], 2, 3))


def test_views_are_pixels_before_they_are_put_into_a_range(file: str) -> None:
    for spec in ("range=-1,1&augment=crop", "augment=crop&range=-1,1"):
        ranged = data.open(f"{file}?{spec}")
        pixels = data.open(f"{file}?augment=crop").sample(1, 2)
        expected = pixels.astype(np.float32) * np.float32(2 / 255) - np.float32(1)
        assert np.array_equal(ranged.sample(1, 2), expected)


@pytest.mark.parametrize("query", ["augment=turn", "views=3", "augment=flip&views=0", "views=a"])
def test_bad_augmentations_of_a_spec_are_refused(file: str, query: str) -> None:
    with pytest.raises(UsageError) as caught:
        data.open(f"{file}?{query}")
    assert caught.value.where


def test_what_is_no_image_is_not_augmented() -> None:
    windows = make(np.zeros((3, 64, 1, 6), np.float32), np.zeros(3), "windows")
    with pytest.raises(InputError, match="only pixels can be augmented"):
        windows.augmented(Augmentation(("flip",), 4))
