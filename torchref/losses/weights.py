"""Class weights and logit offsets from the number of examples of each class."""

import torch
from torch import Tensor


def inverse_frequency_weights(counts: Tensor) -> Tensor:
    """``1 / n``, scaled to average 1, as ``jaxfocal.inverse_frequency_weights``. Source: King and Zeng, 2001."""
    return _inverse(_floating(counts), counts)


def effective_number_weights(counts: Tensor, *, beta: float | Tensor = 0.999) -> Tensor:
    """``(1 - beta) / (1 - beta**n)``, scaled to average 1, as ``jaxfocal.effective_number_weights``.

    Source: Cui et al., arXiv 1901.05555.
    """
    return _inverse((1 - beta ** _floating(counts)) / (1 - beta), counts)


def logit_adjustment(counts: Tensor, *, tau: float | Tensor = 1.0) -> Tensor:
    """``tau log(n / sum(n))``, as ``jaxfocal.logit_adjustment``. Source: Menon et al., arXiv 2007.07314."""
    n = _floating(counts)
    present = n > 0
    fewest = n[present].min().clamp(max=1)
    return tau * torch.log(torch.where(present, n, fewest) / n.sum())


def _floating(counts: Tensor) -> Tensor:
    return counts if counts.dtype == torch.float64 else counts.to(torch.float32)


def _inverse(size: Tensor, counts: Tensor) -> Tensor:
    present = counts > 0
    weights = torch.where(present, 1 / torch.where(present, size, 1), 0)
    return weights * present.sum() / weights.sum()
