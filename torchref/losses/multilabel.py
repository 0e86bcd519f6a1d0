"""Losses of many yes-or-no labels at once."""

import torch
from torch import Tensor

from ._reduce import kept, reduced


def asymmetric_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    gamma_pos: float | Tensor = 1.0,
    gamma_neg: float | Tensor = 4.0,
    clip: float | Tensor = 0.05,
    where: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "none",
    normalizer: float | Tensor | None = None,
) -> Tensor:
    """``-y (1 - p)**gamma_pos log p - (1 - y) p_m**gamma_neg log(1 - p_m)``, ``p_m = max(p - clip, 0)``.

    As ``jaxfocal.asymmetric_loss``. Source: Ridnik et al., arXiv 2009.14119.
    """
    logits, labels = kept(logits, where), kept(labels.to(logits.dtype), where)
    p = torch.sigmoid(logits)
    p_m = (p - clip).clamp(min=0)
    positive = (1 - p) ** gamma_pos * -torch.log(p)
    negative = p_m**gamma_neg * -torch.log(1 - p_m)
    return reduced(labels * positive + (1 - labels) * negative, where, weights, reduction, normalizer)
