"""The scenes that the detector recipe learns from."""

import numpy as np
import pytest

from jaxfocal.recipes import _scenes
from jaxfocal.recipes._digits import long_tailed_digits
from jaxfocal.recipes._scenes import MOST_DIGITS, SIZE, draw_scenes

DIGITS = long_tailed_digits(1.0, seed=0)[1].images


def overlap(a: np.ndarray, b: np.ndarray) -> bool:
    return bool((np.minimum(a[2:], b[2:]) > np.maximum(a[:2], b[:2])).all())


def test_boxes_lie_in_the_scene_and_apart():
    scenes = draw_scenes(DIGITS, 100, np.random.default_rng(0))
    assert scenes.images.shape == (100, SIZE, SIZE)
    assert scenes.images.dtype == np.float32
    assert scenes.images.min() == 0
    assert scenes.images.max() == 1
    assert {len(boxes) for boxes in scenes.boxes} == {1, MOST_DIGITS}
    for boxes in scenes.boxes:
        assert boxes.shape == (len(boxes), 4)
        assert boxes.dtype == np.float32
        assert (boxes[:, 2:] > boxes[:, :2]).all()
        assert ((boxes >= 0) & (boxes <= SIZE)).all()
        assert len(boxes) == 1 or not overlap(*boxes)


def test_without_noise_and_distractors_a_box_is_as_tight_as_the_ink(monkeypatch):
    monkeypatch.setattr(_scenes, "NOISE", 0.0)
    monkeypatch.setattr(_scenes, "MOST_DISTRACTORS", 0)
    scenes = draw_scenes(DIGITS, 40, np.random.default_rng(1))
    for image, boxes in zip(scenes.images, scenes.boxes, strict=True):
        left = image.copy()
        for x1, y1, x2, y2 in boxes.astype(int):
            inside = image[y1:y2, x1:x2]
            for edge in (inside[0], inside[-1], inside[:, 0], inside[:, -1]):
                assert edge.any()
            left[y1:y2, x1:x2] = 0
        assert not left.any()


def test_distractors_have_the_ink_of_a_digit_and_the_shape_of_none(monkeypatch):
    """One digit that is ink alone in its first quarter, and at most one distractor: its ink is in the last quarter."""
    monkeypatch.setattr(_scenes, "NOISE", 0.0)
    monkeypatch.setattr(_scenes, "MOST_DIGITS", 1)
    monkeypatch.setattr(_scenes, "MAGNIFICATIONS", (3,))
    corner = np.zeros((1, 8, 8))
    corner[0, 0, 1] = 1  # in its square's first row; a distractor's is in the fifth row and sixth column
    scenes = draw_scenes(corner.reshape(1, 64), 40, np.random.default_rng(2))
    counts = []
    for image, ((x1, y1, x2, y2),) in zip(scenes.images, scenes.boxes, strict=True):
        spots = np.argwhere(image > 0)
        assert image[int(y1) : int(y2), int(x1) : int(x2)].all()
        outside = [(y, x) for y, x in spots if not (y1 <= y < y2 and x1 <= x < x2)]
        counts.append(len(outside) // 9)
        assert len(outside) % 9 == 0  # whole spots of 3x3 pixels: none lies over another
        assert all(y >= 12 and x >= 15 for y, x in outside)
        assert all(y < SIZE - 9 and x < SIZE - 6 for y, x in outside)
    assert min(counts) == 0
    assert max(counts) > 4


def test_nothing_lies_over_anything_else(monkeypatch):
    """All ink is full squares, as many pixels as whole squares have."""
    monkeypatch.setattr(_scenes, "NOISE", 0.0)
    monkeypatch.setattr(_scenes, "MAGNIFICATIONS", (4,))
    scenes = draw_scenes(np.ones((1, 64)), 40, np.random.default_rng(6))
    for image, boxes in zip(scenes.images, scenes.boxes, strict=True):
        squares, rest = divmod(np.count_nonzero(image), 32**2)
        assert rest == 0
        assert squares == len(np.unique(image[image > 0]))  # each of a brightness of its own
        assert len(boxes) <= squares <= len(boxes) + _scenes.MOST_DISTRACTORS


def test_the_generator_decides_every_pixel():
    first, again, other = (draw_scenes(DIGITS, 3, np.random.default_rng(seed)) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.images, again.images)
    for boxes, same in zip(first.boxes, again.boxes, strict=True):
        np.testing.assert_array_equal(boxes, same)
    assert (first.images != other.images).any()


def test_what_finds_no_place_is_left_out(monkeypatch):
    monkeypatch.setattr(_scenes, "MOST_DISTRACTORS", 200)
    monkeypatch.setattr(_scenes, "MAGNIFICATIONS", (6,))
    scenes = draw_scenes(DIGITS, 2, np.random.default_rng(5))
    assert all(1 <= len(boxes) <= MOST_DIGITS for boxes in scenes.boxes)
    assert scenes.images.mean() == pytest.approx(0.3, abs=0.15)
