"""The Fréchet distance of two sets of images."""

import numpy as np
import pytest

from jaxfocal.recipes._frechet import frechet_distance


def draw(n, pixels, seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, pixels)) @ rng.normal(size=(pixels, pixels)) + rng.normal(size=pixels)


def test_of_independent_pixels_it_is_a_sum_of_squares():
    """Where both covariances are diagonal, each pixel adds the squared differences of mean and standard deviation."""
    signs = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])  # uncorrelated, of mean 0
    a, b = signs * [1.0, 2.0] + [0.0, 5.0], signs * [3.0, 0.0] + [1.0, 1.0]
    std = signs[:, 0].std(ddof=1)
    expected = 1**2 + 4**2 + (2 * std) ** 2 + (2 * std) ** 2
    np.testing.assert_allclose(frechet_distance(a, b), expected, rtol=1e-12)


def test_is_symmetric_and_zero_for_the_same_set():
    a, b = draw(50, 6, 0), draw(70, 6, 1)
    np.testing.assert_allclose(frechet_distance(a, b), frechet_distance(b, a), rtol=1e-9)
    assert abs(frechet_distance(a, a[::-1])) < 1e-9
    assert frechet_distance(a, b) > 1


def test_is_that_of_the_general_square_root():
    linalg = pytest.importorskip("scipy.linalg", reason="scipy has a square root of any matrix")
    a, b = draw(50, 6, 0), draw(70, 6, 1)
    cov_a, cov_b = np.cov(a, rowvar=False), np.cov(b, rowvar=False)
    root = linalg.sqrtm(cov_a @ cov_b).real
    expected = np.sum((a.mean(0) - b.mean(0)) ** 2) + np.trace(cov_a + cov_b - 2 * root)
    np.testing.assert_allclose(frechet_distance(a, b), expected, rtol=1e-9)


def test_pixels_that_never_change_are_no_trouble():
    a, b = draw(50, 6, 0), draw(70, 6, 1)
    a_wide, b_wide = (np.concatenate([x, np.full((len(x), 3), 0.5)], axis=1) for x in (a, b))
    np.testing.assert_allclose(frechet_distance(a_wide, b_wide), frechet_distance(a, b), rtol=1e-6)
