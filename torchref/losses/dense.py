"""Losses of dense detectors."""

import torch
import torch.nn.functional as F
from torch import Tensor

from ._reduce import kept, reduced


def quality_focal_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    beta: float | Tensor = 2.0,
    where: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "none",
    normalizer: float | Tensor | None = None,
) -> Tensor:
    """``|y - p|**beta * CE``.

    As ``jaxfocal.quality_focal_loss``. Source: Li et al., arXiv 2006.04388.
    """
    logits, labels = kept(logits, where), kept(labels.to(logits.dtype), where)
    loss = (labels - torch.sigmoid(logits)).abs() ** beta * _cross_entropy(logits, labels)
    return reduced(loss, where, weights, reduction, normalizer)


def varifocal_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    gamma: float | Tensor = 2.0,
    alpha: float | Tensor = 0.75,
    where: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "none",
    normalizer: float | Tensor | None = None,
) -> Tensor:
    """``y * CE`` where ``y > 0``, ``alpha p**gamma * CE`` elsewhere.

    As ``jaxfocal.varifocal_loss``. Source: Zhang et al., arXiv 2008.13367.
    """
    logits, labels = kept(logits, where), kept(labels.to(logits.dtype), where)
    weight = torch.where(labels > 0, labels, alpha * torch.sigmoid(logits) ** gamma)
    return reduced(weight * _cross_entropy(logits, labels), where, weights, reduction, normalizer)


def distribution_focal_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    axis: int = -1,
    where: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "none",
    normalizer: float | Tensor | None = None,
) -> Tensor:
    """``(left + 1 - y) CE(left) + (y - left) CE(left + 1)``, ``left = floor(y)``.

    As ``jaxfocal.distribution_focal_loss``. Source: Li et al., arXiv 2006.04388.
    """
    logits = logits.movedim(axis, -1)
    logits, labels = kept(logits, None if where is None else where[..., None]), kept(labels.to(logits.dtype), where)
    rows, y = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)
    left = y.long()
    right = (left + 1).clamp(max=logits.shape[-1] - 1)  # has no weight where it is clamped
    at_left, at_right = (F.cross_entropy(rows, bins, reduction="none") for bins in (left, right))
    loss = (left + 1 - y) * at_left + (y - left) * at_right
    return reduced(loss.reshape(labels.shape), where, weights, reduction, normalizer)


def gaussian_focal_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    alpha: float | Tensor = 2.0,
    beta: float | Tensor = 4.0,
    where: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "none",
    normalizer: float | Tensor | None = None,
) -> Tensor:
    """``(1 - p)**alpha * -log p`` where ``y == 1``, ``(1 - y)**beta p**alpha * -log(1 - p)`` elsewhere.

    As ``jaxfocal.gaussian_focal_loss``. Sources: Law et al., arXiv 1808.01244; Zhou et al., arXiv 1904.07850.
    """
    logits, labels = kept(logits, where), kept(labels.to(logits.dtype), where)
    p = torch.sigmoid(logits)
    positive = (1 - p) ** alpha * -F.logsigmoid(logits)
    negative = (1 - labels) ** beta * p**alpha * -F.logsigmoid(-logits)
    return reduced(torch.where(labels == 1, positive, negative), where, weights, reduction, normalizer)


def _cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
