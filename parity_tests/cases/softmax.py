"""Focal losses of mutually exclusive classes."""

from typing import Any

import numpy as np
from mpmath import mp, mpf

from ._case import SHAPE, LossCase
from .sigmoid import GAMMAS, SWEEP

CLASS_WEIGHTS = np.array([0.2, 1.0, 3.0, 0.0, 0.7])


def class_labels(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, SHAPE[-1], SHAPE[:-1])


def distributions(rng: np.random.Generator) -> np.ndarray:
    return rng.dirichlet(np.ones(SHAPE[-1]), size=SHAPE[:-1])


def margin(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return np.max(logits, axis=-1) - np.min(logits, axis=-1)


def exact_softmax(logits: Any) -> list[mpf]:
    exponentials = [mp.exp(mpf(x)) for x in logits]
    total = mp.fsum(exponentials)
    return [e / total for e in exponentials]


def exact_poly(
    logits: Any,
    label: Any,
    *,
    gamma: Any = 2.0,
    epsilon: Any = 1.0,
    class_weights: np.ndarray | None = None,
    label_smoothing: float = 0.0,
) -> mpf:
    num_classes = len(logits)
    gammas, epsilons = np.broadcast_to(gamma, num_classes), np.broadcast_to(epsilon, num_classes)
    weights = np.ones(num_classes) if class_weights is None else class_weights
    y = label if np.ndim(label) else np.arange(num_classes) == label
    terms = []
    for c, p in enumerate(exact_softmax(logits)):
        mass = (1 - mpf(label_smoothing)) * mpf(float(y[c])) + mpf(label_smoothing) / num_classes
        if mass:
            power = mpf(float(gammas[c]))
            curve = (1 - p) ** power * -mp.log(p) + mpf(float(epsilons[c])) * (1 - p) ** (power + 1)
            terms.append(mass * mpf(float(weights[c])) * curve)
    return mp.fsum(terms)


def exact_focal(logits: Any, label: Any, **options: Any) -> mpf:
    return exact_poly(logits, label, epsilon=0.0, **options)


VARIANTS = (
    {},
    {"gamma": 0.0},
    {"gamma": 0.5, "class_weights": CLASS_WEIGHTS},
    {"gamma": 2.0, "class_weights": CLASS_WEIGHTS, "label_smoothing": 0.1},
    {"gamma": GAMMAS},
    {"gamma": np.array([[0.0], [0.5], [2.0], [5.0]]), "label_smoothing": 0.1},
)
POLY_VARIANTS = (
    {},
    {"gamma": GAMMAS, "epsilon": np.array([[-0.5], [0.0], [1.0], [2.0]]), "class_weights": CLASS_WEIGHTS},
    {"gamma": 0.5, "epsilon": -0.5, "label_smoothing": 0.1},
)
AT = {"gamma": 1.5, "class_weights": CLASS_WEIGHTS + 0.1, "label_smoothing": 0.1}

CASES = (
    LossCase(
        id="softmax_focal",
        name="softmax_focal_loss",
        labels=class_labels,
        variants=VARIANTS,
        exact=exact_focal,
        over="row",
        sweep=SWEEP,
        differentiable=AT,
        margin=margin,
        any_size=True,
        classes=True,
    ),
    LossCase(
        id="softmax_focal_soft",
        name="softmax_focal_loss",
        labels=distributions,
        variants=VARIANTS,
        exact=exact_focal,
        over="row",
        sweep=SWEEP,
        differentiable={"labels": None, **AT},
        margin=margin,
    ),
    LossCase(
        id="softmax_poly_focal",
        name="softmax_poly_focal_loss",
        labels=class_labels,
        variants=POLY_VARIANTS,
        exact=exact_poly,
        over="row",
        sweep=SWEEP,
        differentiable={"epsilon": 1.0, **AT},
        margin=margin,
        any_size=True,
        classes=True,
    ),
    LossCase(
        id="softmax_poly_focal_soft",
        name="softmax_poly_focal_loss",
        labels=distributions,
        variants=POLY_VARIANTS,
        exact=exact_poly,
        over="row",
        sweep=SWEEP,
        differentiable={"labels": None, "epsilon": 1.0, **AT},
        margin=margin,
    ),
)
