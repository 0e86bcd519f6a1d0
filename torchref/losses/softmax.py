"""Focal losses of mutually exclusive classes."""

from collections.abc import Callable
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from ._classes import class_rows
from ._reduce import reduced


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
    return _expected(
        lambda error, log_p, gamma: error**gamma * -log_p,
        logits,
        labels,
        (gamma,),
        class_weights,
        label_smoothing,
        axis,
        ignore_index,
        where,
        weights,
        reduction,
        normalizer,
    )


def softmax_poly_focal_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    gamma: float | Tensor = 2.0,
    epsilon: float | Tensor = 1.0,
    class_weights: Tensor | None = None,
    label_smoothing: float = 0.0,
    ignore_index: int | None = None,
    axis: int = -1,
    where: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "none",
    normalizer: float | Tensor | None = None,
) -> Tensor:
    """``sum_c y_c w_c ((1 - p_c)**gamma * -log p_c + epsilon (1 - p_c)**(gamma + 1))``.

    As ``jaxfocal.softmax_poly_focal_loss``. Source: Leng et al., arXiv 2204.12511.
    """
    return _expected(
        lambda error, log_p, gamma, epsilon: error**gamma * -log_p + epsilon * error ** (gamma + 1),
        logits,
        labels,
        (gamma, epsilon),
        class_weights,
        label_smoothing,
        axis,
        ignore_index,
        where,
        weights,
        reduction,
        normalizer,
    )


def _expected(
    curve: Callable[..., Tensor],
    logits: Tensor,
    labels: Tensor,
    options: tuple[Any, ...],
    class_weights: Tensor | None,
    label_smoothing: float,
    axis: int,
    ignore_index: int | None,
    where: Tensor | None,
    weights: Tensor | None,
    reduction: str,
    normalizer: float | Tensor | None,
) -> Tensor:
    """``sum_c y_c w_c curve(1 - p_c, log p_c, *options)``, reduced."""
    options = tuple(
        o.broadcast_to(logits.shape).movedim(axis, -1) if isinstance(o, Tensor) and o.ndim > 0 else o for o in options
    )
    hard = not labels.is_floating_point()
    logits, labels, where = class_rows(logits, labels, axis, ignore_index, where)
    y = F.one_hot(labels, logits.shape[-1]).to(logits.dtype) if hard else labels
    y = (1 - label_smoothing) * y + label_smoothing / logits.shape[-1]
    log_p = F.log_softmax(logits, dim=-1)
    terms = y * curve(1 - log_p.exp(), log_p, *options)
    if class_weights is not None:
        terms = class_weights * terms
    label_weights = class_weights[labels] if hard and class_weights is not None else None
    return reduced(terms.sum(-1), where, weights, reduction, normalizer, label_weights)
