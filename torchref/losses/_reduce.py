"""Masks, weights and reductions, as in jaxfocal."""

import torch
from torch import Tensor


def kept(x: Tensor, where: Tensor | None) -> Tensor:
    """``x``, and 0 where dropped."""
    return x if where is None else torch.where(where, x, torch.zeros((), dtype=x.dtype))


def reduced(
    loss: Tensor,
    where: Tensor | None,
    weights: Tensor | None,
    reduction: str,
    normalizer: float | Tensor | None,
    denominator_weights: Tensor | None = None,
) -> Tensor:
    """``none``, ``sum / max(normalizer, 1)``, or the weighted mean, which is 0 where nothing is kept."""
    w = kept(torch.ones_like(loss) if weights is None else weights.broadcast_to(loss.shape), where)
    loss = kept(loss, where) * w
    if reduction == "none":
        return loss
    if reduction == "sum":
        return loss.sum() / (1 if normalizer is None else max(normalizer, 1))
    total = (w if denominator_weights is None else w * denominator_weights).sum()
    return loss.sum() / torch.where(total == 0, torch.ones_like(total), total)
