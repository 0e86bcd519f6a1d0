"""Focal losses of independent binary labels."""

import torch
import torch.nn.functional as F
from torch import Tensor

from ._reduce import kept, reduced


def sigmoid_focal_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    gamma: float | Tensor = 2.0,
    alpha: float | Tensor | None = None,
    where: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "none",
    normalizer: float | Tensor | None = None,
) -> Tensor:
    """``alpha_t (1 - p_t)**gamma * CE`` with ``p_t = y p + (1 - y)(1 - p)``.

    Args, shapes and the value are those of ``jaxfocal.sigmoid_focal_loss``; the derivatives are autograd's, and
    ``1 - p_t`` is a subtraction. Hyperparameters and labels are not checked. Source: Lin et al., arXiv 1708.02002.
    """
    logits, labels = kept(logits, where), kept(labels.to(logits.dtype), where)
    loss = _error(logits, labels) ** gamma * F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    return reduced(_balanced(loss, labels, alpha), where, weights, reduction, normalizer)


def sigmoid_poly_focal_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    gamma: float | Tensor = 2.0,
    epsilon: float | Tensor = 1.0,
    alpha: float | Tensor | None = None,
    where: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "none",
    normalizer: float | Tensor | None = None,
) -> Tensor:
    """``alpha_t ((1 - p_t)**gamma * CE + epsilon (1 - p_t)**(gamma + 1))``, as ``jaxfocal.sigmoid_poly_focal_loss``.

    Source: Leng et al., arXiv 2204.12511.
    """
    logits, labels = kept(logits, where), kept(labels.to(logits.dtype), where)
    error = _error(logits, labels)
    loss = error**gamma * F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    loss = loss + epsilon * error ** (gamma + 1)
    return reduced(_balanced(loss, labels, alpha), where, weights, reduction, normalizer)


def sigmoid_focal_star_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    gamma: float | Tensor = 2.0,
    beta: float | Tensor = 1.0,
    alpha: float | Tensor | None = None,
    where: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "none",
    normalizer: float | Tensor | None = None,
) -> Tensor:
    """``-alpha_t log sigmoid(gamma x_t + beta) / gamma``, ``x_t = +-x``, as ``jaxfocal.sigmoid_focal_star_loss``.

    Source: Lin et al., arXiv 1708.02002, appendix A.
    """
    logits, labels = kept(logits, where), kept(labels.to(logits.dtype), where)
    loss = -F.logsigmoid(gamma * logits * (2 * labels - 1) + beta) / gamma
    return reduced(_balanced(loss, labels, alpha), where, weights, reduction, normalizer)


def _error(logits: Tensor, labels: Tensor) -> Tensor:
    """``1 - p_t``."""
    p = torch.sigmoid(logits)
    return 1 - (p * labels + (1 - p) * (1 - labels))


def _balanced(loss: Tensor, labels: Tensor, alpha: float | Tensor | None) -> Tensor:
    return loss if alpha is None else (alpha * labels + (1 - alpha) * (1 - labels)) * loss
