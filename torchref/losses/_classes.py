"""Logits and labels of mutually exclusive classes in one form."""

import torch.nn.functional as F
from torch import Tensor

from ._reduce import kept


def class_rows(
    logits: Tensor, labels: Tensor, axis: int, ignore_index: int | None, where: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Logits and soft labels with classes last, integer labels as int64, and the mask of the rows kept.

    Logits and integer labels of dropped rows are 0.
    """
    logits = logits.movedim(axis, -1)
    if labels.is_floating_point():
        labels = labels.movedim(axis, -1)
    else:
        labels = labels.long()
        if ignore_index is not None:
            known = labels != ignore_index
            where = known if where is None else known & where
        labels = kept(labels, where)
    return kept(logits, None if where is None else where[..., None]), labels, where


def class_images(
    logits: Tensor, labels: Tensor, axis: int, ignore_index: int | None, where: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Softmax and label distribution ``(b, p, c)``, the mask of pixels ``(b, p)`` and that of images with a pixel."""
    if where is not None:
        where = where.broadcast_to(logits.movedim(axis, -1).shape[:-1])
    logits, labels, where = class_rows(logits, labels, axis, ignore_index, where)
    t = labels if labels.is_floating_point() else F.one_hot(labels, logits.shape[-1]).to(logits.dtype)
    pixels = None if where is None else where.flatten(1)
    images = None if pixels is None else pixels.any(1)
    return F.softmax(logits.flatten(1, -2), dim=-1), t.flatten(1, -2), pixels, images
