"""Losses of many yes-or-no labels at once."""

from mpmath import mp, mpf

from ._case import LossCase
from .sigmoid import GAMMAS, hard_labels, soft_labels


def _exact_asymmetric(
    logit: float, label: float, *, gamma_pos: float = 1.0, gamma_neg: float = 4.0, clip: float = 0.05
) -> mpf:
    y, p = mpf(label), 1 / (1 + mp.exp(-mpf(logit)))
    p_m = max(p - mpf(clip), mpf(0))
    positive = (1 - p) ** mpf(gamma_pos) * -mp.log(p)
    negative = p_m ** mpf(gamma_neg) * -mp.log(1 - p_m)
    return y * positive + (1 - y) * negative


VARIANTS = ({}, {"gamma_pos": 0.0, "gamma_neg": GAMMAS, "clip": 0.2}, {"gamma_neg": 2.0, "clip": 0.0})

CASES = tuple(
    LossCase(
        id=f"asymmetric{kind}",
        name="asymmetric_loss",
        labels=labels,
        variants=VARIANTS,
        exact=_exact_asymmetric,
        over="logit",
        sweep=("gamma_neg", (0.0, 0.5, 1.0, 4.0)),
        differentiable={**by_label, "gamma_pos": 1.0, "gamma_neg": 3.5, "clip": 0.05},
        cancels=8,
    )
    for kind, labels, by_label in (("", hard_labels, {}), ("_soft", soft_labels, {"labels": None}))
)
