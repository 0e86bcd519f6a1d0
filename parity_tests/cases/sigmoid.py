"""Focal losses of independent binary labels."""

import numpy as np
from mpmath import mp, mpf

from ._case import SHAPE, SMALLEST_NORMAL, LossCase

GAMMAS = np.array([0.0, 0.5, 1.0, 2.0, 5.0])
ALPHAS = np.array([[0.1], [0.25], [0.5], [0.9]])
SWEEP = ("gamma", (0.0, 0.1, 0.5, 1.0, 2.0, 5.0))


def hard_labels(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 2, SHAPE)


def soft_labels(rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(size=SHAPE)


def margin(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return np.abs(logits)


def balance(label: float, alpha: float | None) -> mpf:
    """``alpha_t``."""
    return mpf(1) if alpha is None else mpf(label) * mpf(alpha) + (1 - mpf(label)) * (1 - mpf(alpha))


def exact_focal(logit: float, label: float, *, gamma: float = 2.0, alpha: float | None = None) -> mpf:
    x, y, gamma = mpf(logit), mpf(label), mpf(gamma)
    p1, p0 = 1 / (1 + mp.exp(-x)), 1 / (1 + mp.exp(x))
    p_t = y * p1 + (1 - y) * p0
    cross_entropy = -sum(weight * mp.log(p) for weight, p in ((y, p1), (1 - y, p0)) if weight)
    return balance(label, alpha) * (1 - p_t) ** gamma * cross_entropy


def _exact_poly(
    logit: float, label: float, *, gamma: float = 2.0, epsilon: float = 1.0, alpha: float | None = None
) -> mpf:
    p = 1 / (1 + mp.exp(-mpf(logit)))
    p_t = mpf(label) * p + (1 - mpf(label)) * (1 - p)
    added = mpf(epsilon) * (1 - p_t) ** (mpf(gamma) + 1)
    return exact_focal(logit, label, gamma=gamma, alpha=alpha) + balance(label, alpha) * added


def _exact_star(
    logit: float, label: float, *, gamma: float = 2.0, beta: float = 1.0, alpha: float | None = None
) -> mpf:
    z = mpf(logit) * (2 * label - 1)
    p = 1 / (1 + mp.exp(-(mpf(gamma) * z + mpf(beta))))
    return balance(label, alpha) * -mp.log(p) / mpf(gamma)


VARIANTS = ({}, {"gamma": 0.0}, {"gamma": 0.5, "alpha": 0.25}, {"gamma": GAMMAS, "alpha": ALPHAS})
POLY_VARIANTS = ({}, {"gamma": GAMMAS, "epsilon": -0.5, "alpha": ALPHAS})

CASES = (
    LossCase(
        id="sigmoid_focal",
        name="sigmoid_focal_loss",
        labels=hard_labels,
        variants=VARIANTS,
        exact=exact_focal,
        over="logit",
        sweep=SWEEP,
        differentiable={"gamma": 1.5, "alpha": ALPHAS},
        margin=margin,
        any_size=True,
    ),
    LossCase(
        id="sigmoid_focal_soft",
        name="sigmoid_focal_loss",
        labels=soft_labels,
        variants=VARIANTS,
        exact=exact_focal,
        over="logit",
        sweep=SWEEP,
        differentiable={"labels": None, "gamma": 1.5, "alpha": ALPHAS},
        margin=margin,
    ),
    LossCase(
        id="sigmoid_focal_star",
        name="sigmoid_focal_star_loss",
        labels=hard_labels,
        variants=({}, {"gamma": GAMMAS + 0.5, "beta": -0.3, "alpha": ALPHAS}),
        exact=_exact_star,
        over="logit",
        sweep=("gamma", (0.1, 0.5, 1.0, 2.0, 5.0)),
        differentiable={"gamma": 1.5, "beta": 0.5, "alpha": ALPHAS},
        margin=margin,
        any_size=True,
        smallest=4 * SMALLEST_NORMAL,
    ),
    LossCase(
        id="sigmoid_poly_focal",
        name="sigmoid_poly_focal_loss",
        labels=hard_labels,
        variants=POLY_VARIANTS,
        exact=_exact_poly,
        over="logit",
        sweep=SWEEP,
        differentiable={"gamma": 1.5, "epsilon": 1.0, "alpha": ALPHAS},
        margin=margin,
        any_size=True,
        smallest=4 * SMALLEST_NORMAL,
    ),
    LossCase(
        id="sigmoid_poly_focal_soft",
        name="sigmoid_poly_focal_loss",
        labels=soft_labels,
        variants=POLY_VARIANTS,
        exact=_exact_poly,
        over="logit",
        sweep=SWEEP,
        differentiable={"labels": None, "gamma": 1.5, "epsilon": 1.0, "alpha": ALPHAS},
        margin=margin,
    ),
)
