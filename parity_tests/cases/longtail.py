"""Losses of many classes of which some are rare.

What a loss holds constant, and what it takes from the whole batch, its ``exact`` takes from the example, whatever small
step a derivative goes away from it.
"""

from typing import Any

import numpy as np
from mpmath import mp, mpf

import jaxfocal as jf

from ._case import LossCase
from .sigmoid import ALPHAS, exact_focal, hard_labels
from .softmax import CLASS_WEIGHTS, class_labels, exact_softmax

TRAINING_COUNTS = np.array([1000, 30, 7, 0, 250])
SEEN = jf.SeesawState(np.array([40.0, 12.0, 3.0, 0.0, 100.0]))
GRADIENTS = jf.EqualizedFocalState(  # nearly balanced, rare, without positives, more positives than negatives, not seen
    np.array([3.0, 1.5, 0.0, 9.0, 0.0]), np.array([4.0, 10.0, 2.0, 5.0, 0.0])
)
BINS = jf.GHMState(np.array([6.0, 2.0, 0.0, 1.5, 0.25, 3.0]))


# A loss's own factor on the distance of the logits, over the 1 + gamma = 3 that the bound multiplies it with.


def _ldam_distance(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return 30 * (np.max(logits, axis=-1) - np.min(logits, axis=-1) + 0.5) / 3


def _seesaw_distance(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return (3 * (np.max(logits, axis=-1) - np.min(logits, axis=-1)) + np.log(SEEN.counts.max())) / 3


def _equalized_distance(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return 11 * np.abs(logits) / 3  # the exponent is up to gamma + 8


def _ghm_distance(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return np.abs(logits) / 3


def _place(case: LossCase, logits: Any) -> tuple[int, ...]:
    """Where in the example these logits are."""
    distance = np.abs(case.example()[0] - np.array(logits, float))
    distance = distance.sum(-1) if case.over == "row" else distance
    return np.unravel_index(np.argmin(distance), distance.shape)


def _exact_ldam(
    logits: Any, label: int, *, max_margin: float = 0.5, scale: float = 30.0, class_weights: np.ndarray | None = None
) -> mpf:
    counts = TRAINING_COUNTS.tolist()
    fewest = min(n for n in counts if n)
    margin = mpf(max_margin) * (mpf(fewest) / (counts[label] or fewest)) ** (mpf(1) / 4)
    x = [mpf(scale) * (mpf(x) - (margin if j == label else 0)) for j, x in enumerate(logits)]
    return (1 if class_weights is None else mpf(float(class_weights[label]))) * -mp.log(exact_softmax(x)[label])


def _exact_seesaw(logits: Any, label: int, *, p: float = 0.8, q: float = 2.0) -> mpf:
    example, labels = SEESAW.example()
    scores = exact_softmax(example[_place(SEESAW, logits)].tolist())
    counts = np.maximum(SEEN.counts + np.bincount(labels, minlength=SEEN.counts.size), 1).tolist()
    terms = []
    for x, count, score in zip(logits, counts, scores, strict=True):
        mitigation = min(mpf(1), mpf(count) / mpf(counts[label])) ** mpf(p)
        compensation = max(mpf(1), score / scores[label]) ** mpf(q)
        terms.append(mitigation * compensation * mp.exp(mpf(x)))
    return -mp.log(terms[label] / mp.fsum(terms))


def _exact_equalized(
    logit: float, label: int, *, gamma: float = 2.0, scale: float = 8.0, alpha: float | None = None
) -> mpf:
    c = _place(EQUALIZED, logit)[-1]
    positive, negative = mpf(GRADIENTS.positive_gradients[c]), mpf(GRADIENTS.negative_gradients[c])
    ratio = min(positive / negative, mpf(1)) if negative else mpf(1)
    gamma_j = mpf(gamma) + mpf(scale) * (1 - ratio)
    return gamma_j / mpf(gamma) * exact_focal(logit, label, gamma=gamma_j, alpha=alpha)


def _exact_ghm(logit: float, label: int, *, momentum: float = 0.75) -> mpf:
    example, labels = GHM.example()
    bins = np.floor(BINS.counts.size * np.abs(1 / (1 + np.exp(-example)) - labels)).astype(int)
    own = bins[_place(GHM, logit)]
    running = mpf(momentum) * mpf(BINS.counts[own]) + (1 - mpf(momentum)) * int((bins == own).sum())
    return example.size / (len(np.unique(bins)) * running) * exact_focal(logit, label, gamma=0.0)


SEESAW = LossCase(
    id="seesaw",
    name="seesaw_loss",
    labels=class_labels,
    variants=({}, {"p": 0.0, "q": 1.0}, {"p": 2.0, "q": 0.0}),
    exact=_exact_seesaw,
    over="row",
    sweep=("q", (0.0, 0.5, 1.0, 2.0)),
    differentiable={"p": 0.8},
    held={"q": 0.0},
    margin=_seesaw_distance,
    state=SEEN,
    local=False,
    classes=True,
)
EQUALIZED = LossCase(
    id="equalized_focal",
    name="equalized_focal_loss",
    labels=hard_labels,
    variants=({}, {"gamma": np.array([0.5, 1.0, 2.0, 3.0, 5.0]), "scale": 2.0, "alpha": ALPHAS}),
    exact=_exact_equalized,
    over="logit",
    sweep=("gamma", (0.1, 0.5, 1.0, 2.0)),
    differentiable={"gamma": 1.5, "scale": 4.0, "alpha": ALPHAS},
    margin=_equalized_distance,
    state=GRADIENTS,
)
GHM = LossCase(
    id="ghm",
    name="ghm_loss",
    labels=hard_labels,
    variants=({}, {"momentum": 0.0}),
    exact=_exact_ghm,
    over="logit",
    sweep=("momentum", (0.75, 0.5, 0.0)),
    margin=_ghm_distance,
    state=BINS,
    local=False,
)
CASES = (
    LossCase(
        id="ldam",
        name="ldam_loss",
        labels=class_labels,
        variants=({}, {"max_margin": 0.0, "scale": 4.0}, {"scale": 10.0, "class_weights": CLASS_WEIGHTS}),
        exact=_exact_ldam,
        over="row",
        sweep=("scale", (0.5, 1.0, 30.0)),
        differentiable={"max_margin": 0.5, "scale": 3.0, "class_weights": CLASS_WEIGHTS + 0.1},
        required={"counts": TRAINING_COUNTS},
        spread=0.1,
        margin=_ldam_distance,
        classes=True,
    ),
    SEESAW,
    EQUALIZED,
    GHM,
)
