"""Scikit-learn's handwritten digits with a long-tailed training split and a balanced test split."""

from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_digits

NUM_CLASSES = 10
TAIL_CLASSES = (7, 8, 9)
TEST_IMAGES_PER_CLASS = 50


class Digits(NamedTuple):
    """Some of the 1,797 digits: images ``(n, 64)`` in [0, 1], labels ``(n,)`` and indices ``(n,)`` into the whole."""

    images: np.ndarray
    labels: np.ndarray
    indices: np.ndarray

    @property
    def is_tail(self) -> np.ndarray:
        """``(n,)`` bool: whether the digit is one of the three rarest of the training split, 7, 8 and 9."""
        return np.isin(self.labels, TAIL_CLASSES)

    @property
    def counts(self) -> np.ndarray:
        """``(10,)``: images a class."""
        return np.bincount(self.labels, minlength=NUM_CLASSES)


def long_tail_counts(most: int, imbalance: float) -> np.ndarray:
    """Images a class on an exponential profile: ``most * imbalance**(-c / 9)`` of digit c, rounded, at least 1."""
    profile = most * imbalance ** (-np.arange(NUM_CLASSES) / (NUM_CLASSES - 1))
    return np.maximum(1, np.rint(profile)).astype(np.int32)


def long_tailed_digits(imbalance: float, seed: int) -> tuple[Digits, Digits]:
    """A training split of ``long_tail_counts`` and a test split of 50 images a class, disjoint; ``seed`` picks them.

    The most frequent digit has as many training images as the class with the fewest images can give: 124.
    """
    data = load_digits()
    rng = np.random.default_rng(seed)
    by_class = [rng.permutation(np.flatnonzero(data.target == c)) for c in range(NUM_CLASSES)]
    counts = long_tail_counts(min(map(len, by_class)) - TEST_IMAGES_PER_CLASS, imbalance)

    def pick(indices: list[np.ndarray]) -> Digits:
        index = np.concatenate(indices)
        images = (data.data[index] / data.data.max()).astype(np.float32)
        return Digits(images, data.target[index].astype(np.int32), index)

    test = [indices[:TEST_IMAGES_PER_CLASS] for indices in by_class]
    train = [indices[TEST_IMAGES_PER_CLASS:][:count] for indices, count in zip(by_class, counts, strict=True)]
    return pick(train), pick(test)
