"""The softmax focal loss of a linear layer's output."""

from torch import Tensor

from .softmax import softmax_focal_loss


def linear_softmax_focal_loss(
    hidden: Tensor,
    kernel: Tensor,
    labels: Tensor,
    *,
    bias: Tensor | None = None,
    gamma: float | Tensor = 2.0,
    class_weights: Tensor | None = None,
    label_smoothing: float = 0.0,
    ignore_index: int | None = None,
    where: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "none",
    normalizer: float | Tensor | None = None,
    chunk_size: int | None = None,
) -> Tensor:
    """``softmax_focal_loss(hidden @ kernel + bias, labels)``, the logits held whole: ``chunk_size`` changes nothing.

    As ``jaxfocal.linear_softmax_focal_loss``. Source: Lin et al., arXiv 1708.02002.
    """
    logits = hidden @ kernel
    return softmax_focal_loss(
        logits if bias is None else logits + bias,
        labels,
        gamma=gamma,
        class_weights=class_weights,
        label_smoothing=label_smoothing,
        ignore_index=ignore_index,
        where=where,
        weights=weights,
        reduction=reduction,
        normalizer=normalizer,
    )
