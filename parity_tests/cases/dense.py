"""Losses of dense detectors."""

from typing import Any

import numpy as np
from mpmath import mp, mpf

from ._case import SHAPE, LossCase
from .sigmoid import ALPHAS, GAMMAS, SWEEP, hard_labels, margin, soft_labels
from .softmax import exact_softmax
from .softmax import margin as row_margin

BETAS = ("beta", SWEEP[1])


def background_and_hits(rng: np.random.Generator) -> np.ndarray:
    """Hard labels in the floats of soft ones."""
    return hard_labels(rng).astype(float)


def targets(rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(0, SHAPE[-1] - 1, size=SHAPE[:-1])


def _probabilities(logit: float) -> tuple[mpf, mpf]:
    """``p`` and ``1 - p``."""
    return 1 / (1 + mp.exp(-mpf(logit))), 1 / (1 + mp.exp(mpf(logit)))


def exact_quality(logit: float, label: float, *, beta: float = 2.0) -> mpf:
    (p, q), y = _probabilities(logit), mpf(label)
    cross_entropy = -mp.fsum(weight * mp.log(prob) for weight, prob in ((y, p), (1 - y, q)) if weight)
    return abs(y - p) ** mpf(beta) * cross_entropy


def exact_varifocal(logit: float, label: float, *, gamma: float = 2.0, alpha: float = 0.75) -> mpf:
    (p, q), y = _probabilities(logit), mpf(label)
    if y > 0:
        return -y * (y * mp.log(p) + (1 - y) * mp.log(q))
    return -mpf(alpha) * p ** mpf(gamma) * mp.log(q)


def exact_distribution(logits: Any, label: float) -> mpf:
    p, y, last = exact_softmax(logits), mpf(label), len(logits) - 1
    left = int(mp.floor(y))
    return -((left + 1 - y) * mp.log(p[left]) + (y - left) * mp.log(p[min(left + 1, last)]))


def exact_gaussian(logit: float, label: float, *, alpha: float = 2.0, beta: float = 4.0) -> mpf:
    (p, q), y = _probabilities(logit), mpf(label)
    if y == 1:
        return -(q ** mpf(alpha)) * mp.log(p)
    return -((1 - y) ** mpf(beta)) * p ** mpf(alpha) * mp.log(q)


CASES = (
    LossCase(
        id="quality",
        name="quality_focal_loss",
        labels=soft_labels,
        variants=({}, {"beta": 0.5}, {"beta": GAMMAS}),
        exact=exact_quality,
        over="logit",
        sweep=BETAS,
        differentiable={"labels": None, "beta": 1.5},
        margin=margin,
        cancels=8,
    ),
    LossCase(
        id="quality_hard",
        name="quality_focal_loss",
        labels=background_and_hits,
        variants=({"beta": GAMMAS},),
        exact=exact_quality,
        over="logit",
        sweep=BETAS,
        differentiable={"beta": 1.5},
        margin=margin,
    ),
    LossCase(
        id="varifocal",
        name="varifocal_loss",
        labels=background_and_hits,
        variants=({}, {"gamma": GAMMAS, "alpha": 4 * ALPHAS}),
        exact=exact_varifocal,
        over="logit",
        sweep=SWEEP,
        differentiable={"gamma": 1.5, "alpha": ALPHAS},
        margin=margin,
        any_size=True,
    ),
    LossCase(
        id="varifocal_soft",
        name="varifocal_loss",
        labels=soft_labels,
        variants=({},),
        exact=exact_varifocal,
        over="logit",
        differentiable={"labels": None},
        margin=margin,
    ),
    LossCase(
        id="gaussian",
        name="gaussian_focal_loss",
        labels=background_and_hits,
        variants=({"alpha": GAMMAS},),
        exact=exact_gaussian,
        over="logit",
        sweep=("alpha", SWEEP[1]),
        differentiable={"alpha": 1.5},
        margin=margin,
        any_size=True,
    ),
    LossCase(
        id="gaussian_soft",
        name="gaussian_focal_loss",
        labels=soft_labels,
        variants=({}, {"alpha": GAMMAS, "beta": 10 * ALPHAS}),
        exact=exact_gaussian,
        over="logit",
        sweep=BETAS,
        differentiable={"labels": None, "alpha": 1.5, "beta": 3.5},
        margin=margin,
    ),
    LossCase(
        id="distribution",
        name="distribution_focal_loss",
        labels=targets,
        variants=({},),
        exact=exact_distribution,
        over="row",
        differentiable={"labels": None},
        margin=row_margin,
    ),
)
