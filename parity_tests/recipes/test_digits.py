"""The long-tailed training split and the balanced test split."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from jaxfocal.recipes._digits import NUM_CLASSES, TAIL_CLASSES, long_tail_counts, long_tailed_digits


@pytest.mark.parametrize(
    ("imbalance", "counts"),
    [
        (1.0, [124] * 10),
        (10.0, [124, 96, 74, 58, 45, 35, 27, 21, 16, 12]),
        (100.0, [124, 74, 45, 27, 16, 10, 6, 3, 2, 1]),
        (1e9, [124, 12, 1, 1, 1, 1, 1, 1, 1, 1]),
    ],
)
def test_training_counts_follow_the_exponential_profile(imbalance, counts):
    train, _ = long_tailed_digits(imbalance, seed=0)
    np.testing.assert_array_equal(long_tail_counts(124, imbalance), counts)
    np.testing.assert_array_equal(train.counts, counts)


@pytest.mark.parametrize("imbalance", [1.0, 100.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_test_split_is_balanced_and_disjoint_from_training(imbalance, seed):
    train, test = long_tailed_digits(imbalance, seed)
    np.testing.assert_array_equal(test.counts, [50] * NUM_CLASSES)
    both = np.concatenate([train.indices, test.indices])
    assert len(np.unique(both)) == len(both)


def test_test_split_does_not_depend_on_the_imbalance():
    np.testing.assert_array_equal(long_tailed_digits(1.0, 3)[1].indices, long_tailed_digits(100.0, 3)[1].indices)


def test_images_and_labels_are_those_of_the_source():
    source = load_digits()
    for split in long_tailed_digits(100.0, seed=0):
        assert split.images.dtype == np.float32
        np.testing.assert_array_equal(split.images * 16, source.data[split.indices])
        np.testing.assert_array_equal(split.labels, source.target[split.indices])


def test_tail_labels_mark_the_three_rarest_digits():
    train, test = long_tailed_digits(100.0, seed=0)
    assert set(TAIL_CLASSES) == set(np.argsort(train.counts)[:3].tolist())
    assert train.is_tail.sum() == 3 + 2 + 1
    assert test.is_tail.sum() == 150
    np.testing.assert_array_equal(test.is_tail, test.labels >= 7)


def test_the_seed_decides_which_images():
    first, again, other = (long_tailed_digits(100.0, seed) for seed in (0, 0, 1))
    for split in range(2):
        np.testing.assert_array_equal(first[split].indices, again[split].indices)
        assert not np.array_equal(first[split].indices, other[split].indices)
