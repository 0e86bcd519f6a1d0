"""Lovász losses, one value an image."""

import torch
from torch import Tensor

from ._classes import class_images
from ._reduce import kept, reduced


def lovasz_softmax_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    classes: str = "present",
    ignore_index: int | None = None,
    axis: int = -1,
    where: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "none",
    normalizer: float | Tensor | None = None,
) -> Tensor:
    """The class mean of the Lovász extension of the Jaccard loss, at the errors ``|t - p|``.

    As ``jaxfocal.lovasz_softmax_loss``. Source: Berman et al., arXiv 1705.08790.
    """
    p, t, pixels, images = class_images(logits, labels, axis, ignore_index, where)
    losses = []
    for b in range(len(p)):
        in_image = slice(None) if pixels is None else pixels[b]
        p_b, t_b = p[b, in_image], t[b, in_image]
        of_class = [
            _extension((t_b[:, c] - p_b[:, c]).abs(), t_b[:, c])
            for c in range(p.shape[-1])
            if classes == "all" or t_b[:, c].sum() > 0
        ]
        losses.append(torch.stack(of_class).mean() if of_class else p_b.sum())
    return reduced(torch.stack(losses), images, weights, reduction, normalizer)


def lovasz_hinge_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    where: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "none",
    normalizer: float | Tensor | None = None,
) -> Tensor:
    """The Lovász extension of the Jaccard loss of label 1, at the hinge errors.

    As ``jaxfocal.lovasz_hinge_loss``. Source: Berman et al., arXiv 1705.08790.
    """
    where = None if where is None else where.broadcast_to(logits.shape)
    t = kept(labels.to(logits.dtype), where)
    errors = (1 - kept(logits, where) * (2 * t - 1)).relu()
    everything = torch.ones_like(labels, dtype=torch.bool) if where is None else where
    losses = [_extension(e[w], y[w]) for e, y, w in zip(errors, t, everything, strict=True)]
    images = None if where is None else where.flatten(1).any(1)
    return reduced(torch.stack(losses), images, weights, reduction, normalizer)


def _extension(errors: Tensor, foreground: Tensor) -> Tensor:
    """``sum_i e_i (J_i - J_{i-1})`` over the errors in descending order, ``J`` the Jaccard loss of the first ``i``."""
    errors, order = errors.sort(descending=True)
    foreground = foreground[order]
    intersection = foreground.sum() - foreground.cumsum(0)
    union = foreground.sum() + (1 - foreground).cumsum(0)
    jaccard = 1 - intersection / union
    return (errors * jaccard.diff(prepend=jaccard.new_zeros(1))).sum()
