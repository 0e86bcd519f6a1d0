"""Losses of regions, one value an image."""

import torch
from torch import Tensor

from ._classes import class_images
from ._reduce import kept, reduced


def dice_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    smooth: float | Tensor = 1e-5,
    class_weights: Tensor | None = None,
    ignore_index: int | None = None,
    axis: int = -1,
    where: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "none",
    normalizer: float | Tensor | None = None,
) -> Tensor:
    """The class mean of ``1 - (2 TP + smooth) / (2 TP + FP + FN + smooth)``.

    As ``jaxfocal.dice_loss``. Source: Milletari et al., arXiv 1606.04797.
    """
    p, t, pixels, images = class_images(logits, labels, axis, ignore_index, where)
    tp, fp, fn = _confusion(p, t, pixels)
    of_class = 1 - (2 * tp + smooth) / (2 * tp + fp + fn + smooth)
    return reduced(_class_mean(of_class, class_weights), images, weights, reduction, normalizer)


def tversky_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    alpha: float | Tensor = 0.3,
    beta: float | Tensor = 0.7,
    smooth: float | Tensor = 1e-5,
    class_weights: Tensor | None = None,
    ignore_index: int | None = None,
    axis: int = -1,
    where: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "none",
    normalizer: float | Tensor | None = None,
) -> Tensor:
    """The class mean of ``1 - (TP + smooth) / (TP + alpha FP + beta FN + smooth)``.

    As ``jaxfocal.tversky_loss``. Source: Salehi et al., arXiv 1706.05721.
    """
    p, t, pixels, images = class_images(logits, labels, axis, ignore_index, where)
    of_class = _tversky(*_confusion(p, t, pixels), alpha, beta, smooth)
    return reduced(_class_mean(of_class, class_weights), images, weights, reduction, normalizer)


def focal_tversky_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    alpha: float | Tensor = 0.3,
    beta: float | Tensor = 0.7,
    gamma: float | Tensor = 4 / 3,
    smooth: float | Tensor = 1e-5,
    class_weights: Tensor | None = None,
    ignore_index: int | None = None,
    axis: int = -1,
    where: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "none",
    normalizer: float | Tensor | None = None,
) -> Tensor:
    """The class mean of the Tversky loss to the power ``1 / gamma``.

    As ``jaxfocal.focal_tversky_loss``. Source: Abraham & Khan, arXiv 1810.07842, with alpha and beta swapped.
    """
    p, t, pixels, images = class_images(logits, labels, axis, ignore_index, where)
    of_class = _tversky(*_confusion(p, t, pixels), alpha, beta, smooth) ** (1 / gamma)
    return reduced(_class_mean(of_class, class_weights), images, weights, reduction, normalizer)


def unified_focal_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    delta: float | Tensor = 0.6,
    gamma: float | Tensor = 0.5,
    ce_weight: float | Tensor = 0.5,
    smooth: float | Tensor = 1e-5,
    ignore_index: int | None = None,
    axis: int = -1,
    where: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "none",
    normalizer: float | Tensor | None = None,
) -> Tensor:
    """``ce_weight`` times asymmetric focal loss and ``1 - ce_weight`` times asymmetric focal Tversky loss.

    As ``jaxfocal.unified_focal_loss``. Source: Yeung et al., arXiv 2102.04525.
    """
    p, t, pixels, images = class_images(logits, labels, axis, ignore_index, where)
    of_class = _tversky(*_confusion(p, t, pixels), 1 - delta, delta, smooth)
    of_class = torch.cat([of_class[:, :1], of_class[:, 1:] ** (1 - gamma)], dim=1)
    ce = -t * torch.log(p)
    of_pixels = (1 - delta) * (1 - p[..., 0]) ** gamma * ce[..., 0] + delta * ce[..., 1:].sum(-1)
    number = pixels.sum(1).clamp(min=1) if pixels is not None else p.shape[1]
    loss = ce_weight * kept(of_pixels, pixels).sum(1) / number + (1 - ce_weight) * of_class.mean(1)
    return reduced(loss, images, weights, reduction, normalizer)


def _confusion(p: Tensor, t: Tensor, pixels: Tensor | None) -> tuple[Tensor, ...]:
    """TP, FP and FN ``(b, c)``."""
    pixels = None if pixels is None else pixels[..., None]
    return tuple(kept(terms, pixels).sum(1) for terms in (p * t, p * (1 - t), (1 - p) * t))


def _tversky(
    tp: Tensor, fp: Tensor, fn: Tensor, alpha: float | Tensor, beta: float | Tensor, smooth: float | Tensor
) -> Tensor:
    return 1 - (tp + smooth) / (tp + alpha * fp + beta * fn + smooth)


def _class_mean(of_class: Tensor, class_weights: Tensor | None) -> Tensor:
    if class_weights is None:
        return of_class.mean(-1)
    total = class_weights.sum()
    return (class_weights * of_class).sum(-1) / torch.where(total == 0, torch.ones_like(total), total)
