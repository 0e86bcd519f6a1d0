"""The registry of losses: one row a loss and kind of label, and every law in ``parity_tests/losses`` runs on it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mpmath import mp, mpf

import jaxfocal as jf

SHAPE = (4, 5)
Example = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class LossCase:
    """What the laws need to know of a loss.

    Attributes:
      id: the name of the row.
      name: the name of the loss, in jaxfocal and in torchref.
      labels: makes labels for logits of shape ``SHAPE``.
      variants: hyperparameters to run the laws with, float64 arrays or scalars.
      exact: the value of one element (of one row, if ``by_row``) at mpmath's precision, from the textbook formula.
      margin: how far the logits of one element or row lie apart, the ``m`` of the float32 bound.
      by_row: whether the loss has one value a row of logits rather than one a logit.
      differentiable: the names of the arguments, beside the logits, that the loss is differentiated by.
    """

    id: str
    name: str
    labels: Callable[[np.random.Generator], np.ndarray]
    variants: tuple[dict[str, Any], ...]
    exact: Callable[..., mpf]
    margin: Callable[[np.ndarray, np.ndarray], np.ndarray]
    by_row: bool
    differentiable: tuple[str, ...] = field(default=())

    @property
    def loss(self) -> Callable:
        """The loss of jaxfocal."""
        return getattr(jf, self.name)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the loss without reduction."""
        return SHAPE[:-1] if self.by_row else SHAPE

    def example(self, seed: int = 0) -> Example:
        """Float64 logits at ordinary sizes and labels."""
        rng = np.random.default_rng(seed)
        return rng.normal(scale=2.0, size=SHAPE), self.labels(rng)


def _exact_sigmoid(logit: float, label: float, *, gamma: float = 2.0, alpha: float | None = None) -> mpf:
    x, y, gamma = mpf(logit), mpf(label), mpf(gamma)
    p1, p0 = 1 / (1 + mp.exp(-x)), 1 / (1 + mp.exp(x))
    p_t = y * p1 + (1 - y) * p0
    alpha_t = 1 if alpha is None else y * mpf(alpha) + (1 - y) * (1 - mpf(alpha))
    cross_entropy = -sum(weight * mp.log(p) for weight, p in ((y, p1), (1 - y, p0)) if weight)
    return alpha_t * (1 - p_t) ** gamma * cross_entropy


def _exact_softmax(
    logits: np.ndarray,
    label: Any,
    *,
    gamma: Any = 2.0,
    class_weights: np.ndarray | None = None,
    label_smoothing: float = 0.0,
) -> mpf:
    num_classes = len(logits)
    exponentials = [mp.exp(mpf(x)) for x in logits]
    total = mp.fsum(exponentials)
    gammas = np.broadcast_to(gamma, num_classes)
    weights = np.ones(num_classes) if class_weights is None else class_weights
    y = label if np.ndim(label) else np.arange(num_classes) == label
    terms = []
    for c in range(num_classes):
        mass = (1 - mpf(label_smoothing)) * mpf(float(y[c])) + mpf(label_smoothing) / num_classes
        p = exponentials[c] / total
        if mass:
            terms.append(mass * mpf(float(weights[c])) * (1 - p) ** mpf(float(gammas[c])) * -mp.log(p))
    return mp.fsum(terms)


def _sigmoid_margin(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return np.abs(logits)


def _softmax_margin(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return np.max(logits, axis=-1) - np.min(logits, axis=-1)


def _distributions(rng: np.random.Generator) -> np.ndarray:
    return rng.dirichlet(np.ones(SHAPE[-1]), size=SHAPE[:-1])


GAMMAS = np.array([0.0, 0.5, 1.0, 2.0, 5.0])
ALPHAS = np.array([[0.1], [0.25], [0.5], [0.9]])
CLASS_WEIGHTS = np.array([0.2, 1.0, 3.0, 0.0, 0.7])

SIGMOID_VARIANTS = (
    {},
    {"gamma": 0.0},
    {"gamma": 0.5, "alpha": 0.25},
    {"gamma": GAMMAS, "alpha": ALPHAS},
)
SOFTMAX_VARIANTS = (
    {},
    {"gamma": 0.0},
    {"gamma": 0.5, "class_weights": CLASS_WEIGHTS},
    {"gamma": 2.0, "class_weights": CLASS_WEIGHTS, "label_smoothing": 0.1},
    {"gamma": GAMMAS},
    {"gamma": np.array([[0.0], [0.5], [2.0], [5.0]]), "label_smoothing": 0.1},
)

CASES = (
    LossCase(
        id="sigmoid_focal",
        name="sigmoid_focal_loss",
        labels=lambda rng: rng.integers(0, 2, SHAPE),
        variants=SIGMOID_VARIANTS,
        exact=_exact_sigmoid,
        margin=_sigmoid_margin,
        by_row=False,
        differentiable=("gamma", "alpha"),
    ),
    LossCase(
        id="sigmoid_focal_soft",
        name="sigmoid_focal_loss",
        labels=lambda rng: rng.uniform(size=SHAPE),
        variants=SIGMOID_VARIANTS,
        exact=_exact_sigmoid,
        margin=_sigmoid_margin,
        by_row=False,
        differentiable=("labels", "gamma", "alpha"),
    ),
    LossCase(
        id="softmax_focal",
        name="softmax_focal_loss",
        labels=lambda rng: rng.integers(0, SHAPE[-1], SHAPE[:-1]),
        variants=SOFTMAX_VARIANTS,
        exact=_exact_softmax,
        margin=_softmax_margin,
        by_row=True,
        differentiable=("gamma", "class_weights", "label_smoothing"),
    ),
    LossCase(
        id="softmax_focal_soft",
        name="softmax_focal_loss",
        labels=_distributions,
        variants=SOFTMAX_VARIANTS,
        exact=_exact_softmax,
        margin=_softmax_margin,
        by_row=True,
        differentiable=("labels", "gamma", "class_weights", "label_smoothing"),
    ),
)


def variants_of(cases: tuple[LossCase, ...] = CASES) -> list[Any]:
    """Every row with every one of its variants, for ``pytest.mark.parametrize("case, options", ...)``."""
    import pytest

    return [
        pytest.param(case, options, id=f"{case.id}-{'-'.join(options) or 'defaults'}-{i}")
        for case in cases
        for i, options in enumerate(case.variants)
    ]
