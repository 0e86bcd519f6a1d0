"""Which elements take part in the loss: the hardest, or so many positives and negatives drawn at random."""

import torch
from torch import Tensor


def ohem_mask(
    losses: Tensor,
    labels: Tensor | None = None,
    *,
    num_samples: int | Tensor | None = None,
    negative_ratio: float | Tensor | None = None,
    where: Tensor | None = None,
) -> Tensor:
    """The hardest, or all positives and the hardest negatives, as ``jaxfocal.ohem_mask``.

    Sources: Shrivastava et al., arXiv 1604.03540; Liu et al., arXiv 1512.02325.
    """
    kept = torch.ones_like(losses, dtype=torch.bool) if where is None else where.broadcast_to(losses.shape)
    if labels is not None:
        kept = kept & (labels >= 0)
    if negative_ratio is None:
        return _hardest(losses, kept, int(num_samples))
    positive = kept & (labels >= 1)
    return positive | _hardest(losses, kept & (labels == 0), int(negative_ratio * positive.sum()))


def balanced_sample_mask(key: torch.Generator, labels: Tensor, *, num_samples: int, positive_fraction: float) -> Tensor:
    """Random positives and negatives, as ``jaxfocal.balanced_sample_mask``; ``key`` is a generator.

    Source: ``BalancedPositiveNegativeSampler`` of torchvision.
    """
    positive, negative = (torch.nonzero(chosen.flatten())[:, 0] for chosen in (labels >= 1, labels == 0))
    num_positive = min(len(positive), int(num_samples * positive_fraction))
    num_negative = min(len(negative), num_samples - num_positive)
    mask = torch.zeros(labels.numel(), dtype=torch.bool)
    mask[positive[torch.randperm(len(positive), generator=key)[:num_positive]]] = True
    mask[negative[torch.randperm(len(negative), generator=key)[:num_negative]]] = True
    return mask.reshape(labels.shape)


def _hardest(losses: Tensor, candidates: Tensor, k: int) -> Tensor:
    place = torch.nonzero(candidates.flatten())[:, 0]
    values = losses.detach().flatten()[place].nan_to_num(nan=torch.inf, posinf=torch.inf, neginf=-torch.inf)
    mask = torch.zeros(losses.numel(), dtype=torch.bool)
    mask[place[torch.sort(values, descending=True, stable=True).indices[:k]]] = True
    return mask.reshape(losses.shape)
