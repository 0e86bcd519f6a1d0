"""Logits and labels of mutually exclusive classes in one form."""

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
