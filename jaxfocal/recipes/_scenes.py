"""Scenes of handwritten digits among things that are none, for a detector."""

from typing import NamedTuple

import numpy as np

SIZE = 128  # pixels, height and width of a scene
MOST_DIGITS = 2  # of a scene
MOST_DISTRACTORS = 8
MAGNIFICATIONS = (2, 3, 4, 5, 6)  # of an image of 8x8 pixels
NOISE = 0.3
TRIES = 20


class Scenes(NamedTuple):
    """Grey images ``(n, 128, 128)`` float32 in [0, 1], and the boxes ``(k, 4)`` float32 of the digits in each."""

    images: np.ndarray
    boxes: list[np.ndarray]


def draw_scenes(digits: np.ndarray, n: int, rng: np.random.Generator) -> Scenes:
    """``n`` scenes of the digits ``(m, 64)`` in [0, 1].

    A scene has one or two digits and up to eight distractors, bright on noise, of five sizes; none overlaps another. A
    distractor is a digit whose quarters have changed places diagonally, so that it has the ink of one and the shape of
    none. A box holds all ink of the digit, the faintest too, and is as tight as that.
    """
    drawn = [_draw_scene(digits.reshape(-1, 8, 8), rng) for _ in range(n)]
    return Scenes(np.stack([image for image, _ in drawn]), [boxes for _, boxes in drawn])


def _draw_scene(digits: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    scene, taken = np.zeros((SIZE, SIZE)), np.zeros((SIZE, SIZE), bool)
    boxes = []
    num_digits, num_distractors = rng.integers(1, MOST_DIGITS + 1), rng.integers(0, MOST_DISTRACTORS + 1)
    for is_digit in [True] * num_digits + [False] * num_distractors:
        digit = digits[rng.integers(len(digits))]
        shape = digit if is_digit else np.roll(digit, (4, 4), axis=(0, 1))
        shape = np.kron(shape, np.ones((scale := rng.choice(MAGNIFICATIONS), scale)))
        place = _free_place(taken, len(shape), rng)
        if place is None:
            continue
        taken[place] = True
        scene[place] = rng.uniform(0.4, 1) * shape
        if is_digit:
            rows, columns = place
            y, x = np.nonzero(shape)
            corners = (x.min(), y.min(), x.max() + 1, y.max() + 1)
            boxes.append(np.add(corners, (columns.start, rows.start, columns.start, rows.start)))
    noisy = scene + rng.normal(0, NOISE, scene.shape)
    return noisy.clip(0, 1).astype(np.float32), np.array(boxes, np.float32).reshape(-1, 4)


def _free_place(taken: np.ndarray, side: int, rng: np.random.Generator) -> tuple[slice, slice] | None:
    """Rows and columns of a square where nothing is yet; None where none is found soon."""
    for _ in range(TRIES):
        y, x = rng.integers(0, SIZE - side + 1, 2)
        place = (slice(y, y + side), slice(x, x + side))
        if not taken[place].any():
            return place
    return None
