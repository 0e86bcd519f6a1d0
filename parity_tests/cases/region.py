"""Losses of images: regions that overlap, and their Lovász extensions."""

from functools import partial
from typing import Any

import numpy as np
from mpmath import mp, mpf

from ._case import LossCase
from .softmax import exact_softmax

SHAPE = (4, 2, 2, 4)  # images of 2 by 2 pixels, 4 classes
CLASS_WEIGHTS = np.array([0.0, 1.0, 0.3, 2.0])
SLOPE_CANCELS = 0.1  # a rounding of the mean slope of the classes of a pixel, taken off the slope of its surest one


def class_labels(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, SHAPE[-1], SHAPE[:-1])


def distributions(rng: np.random.Generator) -> np.ndarray:
    return rng.dirichlet(np.ones(SHAPE[-1]), size=SHAPE[:-1])


def binary_labels(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 2, SHAPE[:-1])


def _pixels(logits: Any, label: Any) -> list[tuple[list[mpf], list[mpf]]]:
    """Softmax and label distribution of each pixel."""
    rows = np.array(logits, object)
    rows = rows.reshape(-1, rows.shape[-1])
    soft = np.ndim(label) == np.ndim(np.array(logits, object))
    marks = np.reshape(label, rows.shape if soft else -1).tolist()
    return [
        (exact_softmax(x), [mpf(t) for t in y] if soft else [mpf(int(c == y)) for c in range(len(x))])
        for x, y in zip(rows, marks, strict=True)
    ]


def _tversky_of_class(logits: Any, label: Any, alpha: float, beta: float, smooth: float) -> list[mpf]:
    pixels, losses = _pixels(logits, label), []
    for c in range(len(pixels[0][0])):
        tp = mp.fsum(p[c] * t[c] for p, t in pixels)
        fp = mp.fsum(p[c] * (1 - t[c]) for p, t in pixels)
        fn = mp.fsum((1 - p[c]) * t[c] for p, t in pixels)
        losses.append(1 - (tp + mpf(smooth)) / (tp + mpf(alpha) * fp + mpf(beta) * fn + mpf(smooth)))
    return losses


def _class_mean(losses: list[mpf], class_weights: np.ndarray | None) -> mpf:
    w = [mpf(1)] * len(losses) if class_weights is None else [mpf(float(w)) for w in class_weights]
    return mp.fsum(a * loss for a, loss in zip(w, losses, strict=True)) / mp.fsum(w)


def exact_dice(logits: Any, label: Any, *, smooth: float = 1e-5, class_weights: np.ndarray | None = None) -> mpf:
    pixels, losses = _pixels(logits, label), []
    for c in range(len(pixels[0][0])):
        both = mp.fsum(p[c] * t[c] for p, t in pixels)
        predicted, labelled = mp.fsum(p[c] for p, _ in pixels), mp.fsum(t[c] for _, t in pixels)
        losses.append(1 - (2 * both + mpf(smooth)) / (predicted + labelled + mpf(smooth)))
    return _class_mean(losses, class_weights)


def exact_tversky(
    logits: Any,
    label: Any,
    *,
    alpha: float = 0.3,
    beta: float = 0.7,
    smooth: float = 1e-5,
    class_weights: np.ndarray | None = None,
) -> mpf:
    return _class_mean(_tversky_of_class(logits, label, alpha, beta, smooth), class_weights)


def exact_focal_tversky(
    logits: Any,
    label: Any,
    *,
    alpha: float = 0.3,
    beta: float = 0.7,
    gamma: float = 4 / 3,
    smooth: float = 1e-5,
    class_weights: np.ndarray | None = None,
) -> mpf:
    losses = [loss ** (1 / mpf(gamma)) for loss in _tversky_of_class(logits, label, alpha, beta, smooth)]
    return _class_mean(losses, class_weights)


def exact_unified(
    logits: Any,
    label: Any,
    *,
    delta: float = 0.6,
    gamma: float = 0.5,
    ce_weight: float = 0.5,
    smooth: float = 1e-5,
) -> mpf:
    delta, gamma, pixels = mpf(delta), mpf(gamma), _pixels(logits, label)
    focal = [
        -(1 - delta) * t[0] * (1 - p[0]) ** gamma * mp.log(p[0])
        - delta * mp.fsum(t[c] * mp.log(p[c]) for c in range(1, len(p)))
        for p, t in pixels
    ]
    background, *rare = _tversky_of_class(logits, label, 1 - delta, delta, smooth)
    regions = [background, *(loss ** (1 - gamma) for loss in rare)]
    mean_focal, mean_region = mp.fsum(focal) / len(focal), mp.fsum(regions) / len(regions)
    return mpf(ce_weight) * mean_focal + (1 - mpf(ce_weight)) * mean_region


def _extension(errors: list[mpf], foreground: list[bool]) -> mpf:
    """``sum_i e_i (J(first i wrong) - J(first i - 1 wrong))``, the Jaccard loss ``J`` by counting a set of pixels."""

    def jaccard(wrong: set[int]) -> mpf:
        labelled = {i for i, mark in enumerate(foreground) if mark}
        predicted = labelled ^ wrong
        union = labelled | predicted
        return 1 - mpf(len(labelled & predicted)) / len(union) if union else mpf(0)

    order = sorted(range(len(errors)), key=lambda i: -errors[i])
    return mp.fsum(
        errors[pixel] * (jaccard(set(order[: i + 1])) - jaccard(set(order[:i]))) for i, pixel in enumerate(order)
    )


def exact_lovasz_softmax(logits: Any, label: Any, *, classes: str) -> mpf:
    pixels, losses = _pixels(logits, label), []
    for c in range(len(pixels[0][0])):
        foreground = [bool(t[c]) for _, t in pixels]
        if classes == "all" or any(foreground):
            losses.append(_extension([abs(t[c] - p[c]) for p, t in pixels], foreground))
    return mp.fsum(losses) / len(losses)


def exact_lovasz_hinge(logits: Any, label: Any) -> mpf:
    marks = np.ravel(label).tolist()
    errors = [max(1 - mpf(x) * (2 * y - 1), mpf(0)) for x, y in zip(np.ravel(logits), marks, strict=True)]
    return _extension(errors, [bool(y) for y in marks])


KINDS = (("", class_labels, {}), ("_soft", distributions, {"labels": None}))
AT = {"smooth": 0.1, "class_weights": CLASS_WEIGHTS + 0.1}

CASES = (
    *(
        LossCase(
            id=f"dice{kind}",
            name="dice_loss",
            labels=labels,
            variants=({}, {"smooth": 1.0, "class_weights": CLASS_WEIGHTS}),
            exact=exact_dice,
            over="image",
            sweep=("smooth", (0.0, 1e-5, 1.0)),
            differentiable={**by_label, **AT},
            slope_cancels=0.0 if kind else SLOPE_CANCELS,
            classes=not kind,
            logits_shape=SHAPE,
        )
        for kind, labels, by_label in KINDS
    ),
    LossCase(
        id="tversky",
        name="tversky_loss",
        labels=class_labels,
        variants=({}, {"alpha": 2.0, "beta": 0.0, "smooth": 0.5, "class_weights": CLASS_WEIGHTS}),
        exact=exact_tversky,
        over="image",
        sweep=("alpha", (0.0, 0.3, 1.0)),
        differentiable={"alpha": 0.3, "beta": 0.7, **AT},
        slope_cancels=SLOPE_CANCELS,
        classes=True,
        logits_shape=SHAPE,
    ),
    LossCase(
        id="focal_tversky",
        name="focal_tversky_loss",
        labels=class_labels,
        variants=({}, {"alpha": 0.6, "beta": 0.5, "gamma": 0.5, "smooth": 0.5, "class_weights": CLASS_WEIGHTS}),
        exact=exact_focal_tversky,
        over="image",
        sweep=("gamma", (0.5, 1.0, 4 / 3, 3.0)),
        differentiable={"alpha": 0.3, "beta": 0.7, "gamma": 1.5, **AT},
        slope_cancels=SLOPE_CANCELS,
        classes=True,
        logits_shape=SHAPE,
    ),
    *(
        LossCase(
            id=f"unified_focal{kind}",
            name="unified_focal_loss",
            labels=labels,
            variants=({}, {"delta": 0.2, "gamma": 0.0, "ce_weight": 0.3, "smooth": 0.5}),
            exact=exact_unified,
            over="image",
            sweep=("gamma", (0.9, 0.5, 0.0)),
            differentiable={**by_label, "delta": 0.6, "gamma": 0.5, "ce_weight": 0.4, "smooth": 0.1},
            classes=not kind,
            logits_shape=SHAPE,
        )
        for kind, labels, by_label in KINDS
    ),
    *(
        LossCase(
            id=f"lovasz_softmax_{classes}",
            name="lovasz_softmax_loss",
            labels=class_labels,
            variants=({},),
            exact=partial(exact_lovasz_softmax, classes=classes),
            over="image",
            required={"classes": classes},
            classes=True,
            logits_shape=SHAPE,
        )
        for classes in ("present", "all")
    ),
    LossCase(
        id="lovasz_hinge",
        name="lovasz_hinge_loss",
        labels=binary_labels,
        variants=({},),
        exact=exact_lovasz_hinge,
        over="binary image",
        logits_shape=SHAPE[:-1],
    ),
)
