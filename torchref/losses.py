"""Focal losses in plain PyTorch, with the keywords and conventions of jaxfocal."""

import torch
import torch.nn.functional as F
from torch import Tensor


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
    logits = _kept(logits, where)
    labels = _kept(labels.to(logits.dtype), where)
    p = torch.sigmoid(logits)
    p_t = p * labels + (1 - p) * (1 - labels)
    loss = (1 - p_t) ** gamma * F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    if alpha is not None:
        loss = (alpha * labels + (1 - alpha) * (1 - labels)) * loss
    return _reduced(loss, where, weights, reduction, normalizer)


def softmax_focal_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    gamma: float | Tensor = 2.0,
    class_weights: Tensor | None = None,
    label_smoothing: float = 0.0,
    ignore_index: int | None = None,
    axis: int = -1,
    where: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "none",
    normalizer: float | Tensor | None = None,
) -> Tensor:
    """``sum_c y_c w_c (1 - p_c)**gamma * -log p_c``, ``y`` the label distribution.

    Args, shapes and the value are those of ``jaxfocal.softmax_focal_loss``; the derivatives are autograd's, and
    ``1 - p_c`` is a subtraction. Hyperparameters and labels are not checked. Source: Lin et al., arXiv 1708.02002.
    """
    if isinstance(gamma, Tensor) and gamma.ndim > 0:
        gamma = gamma.broadcast_to(logits.shape).movedim(axis, -1)
    logits = logits.movedim(axis, -1)
    num_classes = logits.shape[-1]
    hard = not labels.is_floating_point()
    if hard:
        labels = labels.long()
        if ignore_index is not None:
            kept = labels != ignore_index
            where = kept if where is None else kept & where
        labels = _kept(labels, where)
        y = F.one_hot(labels, num_classes).to(logits.dtype)
    else:
        y = labels.movedim(axis, -1)
    y = (1 - label_smoothing) * y + label_smoothing / num_classes
    log_p = F.log_softmax(_kept(logits, None if where is None else where[..., None]), dim=-1)
    terms = y * (1 - log_p.exp()) ** gamma * -log_p
    if class_weights is not None:
        terms = class_weights * terms
    label_weights = class_weights[labels] if hard and class_weights is not None else None
    return _reduced(terms.sum(-1), where, weights, reduction, normalizer, label_weights)


def _kept(x: Tensor, where: Tensor | None) -> Tensor:
    return x if where is None else torch.where(where, x, torch.zeros((), dtype=x.dtype))


def _reduced(
    loss: Tensor,
    where: Tensor | None,
    weights: Tensor | None,
    reduction: str,
    normalizer: float | Tensor | None,
    denominator_weights: Tensor | None = None,
) -> Tensor:
    """``none``, ``sum / max(normalizer, 1)``, or the weighted mean, which is 0 where nothing is kept."""
    w = _kept(torch.ones_like(loss) if weights is None else weights.broadcast_to(loss.shape), where)
    loss = _kept(loss, where) * w
    if reduction == "none":
        return loss
    if reduction == "sum":
        return loss.sum() / (1 if normalizer is None else max(normalizer, 1))
    total = (w if denominator_weights is None else w * denominator_weights).sum()
    return loss.sum() / torch.where(total == 0, torch.ones_like(total), total)
