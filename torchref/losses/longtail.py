"""Losses of many classes of which some are rare."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ._classes import class_rows
from ._reduce import kept, reduced


class SeesawState(NamedTuple):
    """What ``seesaw_loss`` has seen: the labels of each class."""

    counts: Tensor


class EqualizedFocalState(NamedTuple):
    """What ``equalized_focal_loss`` has seen: the gradients of each class, of its positives and its negatives."""

    positive_gradients: Tensor
    negative_gradients: Tensor


class GHMState(NamedTuple):
    """What ``ghm_loss`` has seen: the running number of elements in each bin."""

    counts: Tensor


def ldam_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    counts: Tensor,
    max_margin: float | Tensor = 0.5,
    scale: float | Tensor = 30.0,
    class_weights: Tensor | None = None,
    ignore_index: int | None = None,
    axis: int = -1,
    where: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "none",
    normalizer: float | Tensor | None = None,
) -> Tensor:
    """Cross-entropy of ``scale * (x - [j = t] max_margin (n_min / n_t)**(1/4))``.

    As ``jaxfocal.ldam_loss``. Source: Cao et al., arXiv 1906.07413.
    """
    logits, labels, where = class_rows(logits, labels, axis, ignore_index, where)
    counts = counts.to(logits.dtype)
    occurring = counts[counts > 0]
    fewest = occurring.min() if len(occurring) else torch.ones(())
    margins = max_margin * torch.where(counts > 0, fewest / counts, torch.ones_like(counts)) ** 0.25
    shifted = logits - F.one_hot(labels, logits.shape[-1]) * margins
    loss = -torch.gather(F.log_softmax(scale * shifted, dim=-1), -1, labels[..., None])[..., 0]
    label_weights = None if class_weights is None else class_weights[labels]
    loss = loss if label_weights is None else label_weights * loss
    return reduced(loss, where, weights, reduction, normalizer, label_weights)


def seesaw_init(num_classes: int) -> SeesawState:
    """No label seen, as ``jaxfocal.seesaw_init``."""
    return SeesawState(torch.zeros(num_classes))


def seesaw_loss(
    logits: Tensor,
    labels: Tensor,
    state: SeesawState,
    *,
    p: float | Tensor = 0.8,
    q: float | Tensor = 2.0,
    axis_name: None = None,
    ignore_index: int | None = None,
    axis: int = -1,
    where: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "none",
    normalizer: float | Tensor | None = None,
) -> tuple[Tensor, SeesawState]:
    """``-log (e^x_t / sum_j S_tj e^x_j)`` with ``S_tj = min(1, N_j / N_t)**p max(1, sigma_j / sigma_t)**q``.

    As ``jaxfocal.seesaw_loss``, on one device: ``axis_name`` is there for the signature. Source: Wang et al., arXiv
    2008.10032.
    """
    logits, labels, where = class_rows(logits, labels, axis, ignore_index, where)
    num_classes = logits.shape[-1]
    seen = labels.flatten() if where is None else labels[where]
    counts = state.counts + torch.bincount(seen, minlength=num_classes).to(state.counts.dtype)

    n = counts.to(logits.dtype).clamp(min=1)
    mitigation = (n / n[labels][..., None]).clamp(max=1) ** p
    scores = torch.softmax(logits.detach(), dim=-1)
    compensation = (scores / torch.gather(scores, -1, labels[..., None])).clamp(min=1) ** q
    log_p = F.log_softmax(logits + torch.log(mitigation * compensation), dim=-1)
    loss = -torch.gather(log_p, -1, labels[..., None])[..., 0]
    return reduced(loss, where, weights, reduction, normalizer), SeesawState(counts)


def equalized_focal_init(num_classes: int) -> EqualizedFocalState:
    """No gradient seen, as ``jaxfocal.equalized_focal_init``."""
    return EqualizedFocalState(torch.zeros(num_classes), torch.zeros(num_classes))


def equalized_focal_loss(
    logits: Tensor,
    labels: Tensor,
    state: EqualizedFocalState,
    *,
    gamma: float | Tensor = 2.0,
    scale: float | Tensor = 8.0,
    alpha: float | Tensor | None = None,
    axis_name: None = None,
    where: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "none",
    normalizer: float | Tensor | None = None,
) -> tuple[Tensor, EqualizedFocalState]:
    """``alpha_t (gamma_j / gamma) (1 - p_t)**gamma_j * CE`` with ``gamma_j = gamma + scale (1 - g_j)``.

    As ``jaxfocal.equalized_focal_loss``, on one device: ``axis_name`` is there for the signature. Source: Li et al.,
    arXiv 2201.02593.
    """
    logits, labels = kept(logits, where), kept(labels.to(logits.dtype), where)
    positive, negative = state
    ratio = torch.where(negative > 0, (positive / negative).clamp(max=1), torch.ones_like(negative))
    gamma_j = gamma + scale * (1 - ratio).to(logits.dtype)

    def loss_of(x: Tensor) -> Tensor:
        cross_entropy = F.binary_cross_entropy_with_logits(x, labels, reduction="none")
        loss = gamma_j / gamma * _gradient_size(x, labels) ** gamma_j * cross_entropy
        return loss if alpha is None else (alpha * labels + (1 - alpha) * (1 - labels)) * loss

    loss, x = loss_of(logits), logits.detach().requires_grad_()
    size = kept(torch.autograd.grad(loss_of(x).sum(), x)[0].abs(), where).to(positive.dtype)
    every_row = tuple(range(logits.ndim - 1))
    new = EqualizedFocalState(
        positive + (size * labels).sum(every_row).to(positive.dtype),
        negative + (size * (1 - labels)).sum(every_row).to(negative.dtype),
    )
    return reduced(loss, where, weights, reduction, normalizer), new


def ghm_init(bins: int = 30) -> GHMState:
    """No element seen, as ``jaxfocal.ghm_init``."""
    return GHMState(torch.zeros(bins))


def ghm_loss(
    logits: Tensor,
    labels: Tensor,
    state: GHMState,
    *,
    momentum: float | Tensor = 0.75,
    axis_name: None = None,
    where: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "none",
    normalizer: float | Tensor | None = None,
) -> tuple[Tensor, GHMState]:
    """``N / (n S_bin) * CE``, ``S`` the moving average of the elements in each bin of ``|p - y|``.

    As ``jaxfocal.ghm_loss``, on one device: ``axis_name`` is there for the signature. Source: Li et al., arXiv
    1811.05181.
    """
    logits, labels = kept(logits, where), kept(labels.to(logits.dtype), where)
    counts, bins = state.counts.clone(), len(state.counts)
    valid = torch.ones_like(logits, dtype=torch.bool) if where is None else where.broadcast_to(logits.shape)
    size = _gradient_size(logits.detach(), labels)
    weight, occupied = torch.zeros_like(logits), 0
    for i in range(bins):
        last = i == bins - 1
        inside = (size >= i / bins) & ((size < (i + 1) / bins) | last) & valid
        if inside.any():
            counts[i] = momentum * counts[i] + (1 - momentum) * inside.sum()
            weight[inside] = (valid.sum() / counts[i]).to(weight.dtype)
            occupied += 1
    weight = weight / max(occupied, 1)
    loss = weight * F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    return reduced(loss, where, weights, reduction, normalizer), GHMState(counts)


def _gradient_size(logits: Tensor, labels: Tensor) -> Tensor:
    """``|p - y|``."""
    return torch.abs(torch.sigmoid(logits) - labels)
