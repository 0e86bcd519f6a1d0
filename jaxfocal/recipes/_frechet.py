"""How far one set of images is from another, in pixel space."""

import numpy as np


def frechet_distance(a: np.ndarray, b: np.ndarray) -> float:
    """The Fréchet distance between the Gaussians that have the means and covariances of two sets, squared as in FID.

        |mean_a - mean_b|^2 + tr(cov_a + cov_b - 2 (cov_a^1/2 cov_b cov_a^1/2)^1/2)

    Both covariances may be singular: pixels that are always dark are no trouble.

    Args:
      a: ``(n, pixels)``.
      b: ``(m, pixels)``.

    Returns:
      A number that is 0 for sets of the same mean and covariance.

    >>> points = np.array([[0.0, 1.0], [2.0, 5.0], [4.0, 3.0]])
    >>> round(frechet_distance(points, points + 3), 9)
    18.0

    Source: Dowson and Landau, "The Fréchet distance between multivariate normal distributions" (1982).
    """
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    cov_a, cov_b = np.cov(a, rowvar=False), np.cov(b, rowvar=False)
    root_a = _square_root(cov_a)
    overlap = np.sqrt(np.linalg.eigvalsh(root_a @ cov_b @ root_a).clip(min=0)).sum()
    return float(np.sum((a.mean(0) - b.mean(0)) ** 2) + np.trace(cov_a) + np.trace(cov_b) - 2 * overlap)


def _square_root(matrix: np.ndarray) -> np.ndarray:
    """Of a symmetric positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(values.clip(min=0))) @ vectors.T
