"""From one loss an element to what the caller asked for: drop, weigh, reduce."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Bool, Float

from ._blocks import total
from ._checks import broadcasts_to
from ._passes import one_pass
from ._rules import Number

REDUCTIONS = ("none", "sum", "mean")


@dataclass(frozen=True)
class Reduction:
    """The four options that every loss has, checked against the shape of the loss.

    With ``w`` the weights (1 if not given), over the elements that ``where`` keeps:

        none    w * loss, and 0 where dropped
        sum     sum(w * loss) / max(normalizer, 1)
        mean    sum(w * loss) / sum(w), and 0 where nothing is kept
    """

    shape: tuple[int, ...]
    where: ArrayLike | None
    weights: ArrayLike | None
    reduction: str
    normalizer: ArrayLike | None

    def __post_init__(self):
        if self.reduction not in REDUCTIONS:
            raise ValueError(f"reduction must be one of {', '.join(REDUCTIONS)}, got {self.reduction!r}")
        if self.normalizer is not None:
            if self.reduction != "sum":
                raise ValueError(f'normalizer goes with reduction="sum" only, got reduction={self.reduction!r}')
            if np.ndim(self.normalizer) != 0:
                raise ValueError(f"normalizer must be a scalar, got shape {np.shape(self.normalizer)}")
        if self.where is not None and jnp.asarray(self.where).dtype != jnp.bool_:
            raise ValueError(f"where must be bool, got dtype {jnp.asarray(self.where).dtype}")
        for name, option in (("where", self.where), ("weights", self.weights)):
            if option is not None and not broadcasts_to(np.shape(option), self.shape):
                raise ValueError(
                    f"{name} must broadcast to the shape of the loss, {self.shape}, got shape {np.shape(option)}"
                )

    @property
    def mask(self) -> Bool[Array, "*shape"] | None:
        """``where`` in the shape of the loss."""
        return None if self.where is None else jnp.broadcast_to(jnp.asarray(self.where), self.shape)

    def drop(self, elements: Bool[Array, "*shape"]) -> "Reduction":
        """The same, without these elements too."""
        return replace(self, where=~elements if self.mask is None else self.mask & ~elements)

    def images(self, weights: ArrayLike | None, reduction: str, normalizer: ArrayLike | None) -> "Reduction":
        """The reduction of images ``(b)``, whose pixels ``(b, ...)`` this one holds: those without a pixel are out."""
        has_pixels = self.mask
        if has_pixels is not None:
            has_pixels = jnp.any(has_pixels, axis=tuple(range(1, has_pixels.ndim)))
        elif 0 in self.shape[1:]:
            has_pixels = jnp.zeros(self.shape[:1], jnp.bool_)
        return Reduction(self.shape[:1], has_pixels, weights, reduction, normalizer)

    def elementwise(
        self, loss: Callable[..., Array], logits: Array, labels: Array, *options: Number | None
    ) -> Float[Array, "..."]:
        """Reduce ``loss(logits, mask, labels, *options)``, of which each value takes its own element alone."""
        where = None if self.where is None else jnp.asarray(self.where)
        weights = None if self.weights is None else jnp.asarray(self.weights)
        terms = partial(_weighed, loss)
        if self.reduction == "none":
            return terms(logits, labels, where, weights, *options)
        return self.of_total(total(terms, logits, labels, where, weights, *options))

    def __call__(self, loss: Array, denominator_weights: Array | None = None) -> Array:
        """Reduce ``loss``, which is 0 where dropped.

        ``denominator_weights`` are in ``loss`` already, and belong to the mean's ``sum(w)`` too.
        """
        w = self.kept_weights(loss.dtype)
        loss = loss if w is None else loss * w
        return loss if self.reduction == "none" else self.of_total(jnp.sum(one_pass(loss)), denominator_weights)

    def kept_weights(self, dtype: DTypeLike) -> Array | None:
        """``weights`` in the shape of the loss, 0 where dropped."""
        if self.weights is None:
            return None
        return keep(jnp.broadcast_to(jnp.asarray(self.weights, dtype), self.shape), self.mask)

    def of_total(self, total: Array, denominator_weights: Array | None = None) -> Array:
        """The sum or mean, given ``sum(w * loss)``; given ``w``, the factor of each loss in it."""
        if self.reduction == "sum":
            return total if self.normalizer is None else total / _at_least_one(self.normalizer, total.dtype)
        counted = self.kept_weights(total.dtype)
        counted = keep(jnp.ones(self.shape, total.dtype), self.mask) if counted is None else counted
        kept = jnp.sum(counted if denominator_weights is None else counted * denominator_weights)
        return total / jnp.where(kept == 0, 1, kept)


def _weighed(
    loss: Callable[..., Array],
    logits: Array,
    labels: Array,
    where: Array | None,
    weights: Array | None,
    *options: Number | None,
) -> Array:
    """``weights * loss`` of a block: 0, and not looked at, where ``where`` is False."""
    reduced = Reduction(logits.shape, where, weights, "none", None)
    return reduced(loss(logits, reduced.mask, keep(labels, reduced.mask), *options))


def keep(x: Array, mask: Array | None) -> Array:
    """``x (*shape, ...)`` with 0 where ``mask (*shape)`` is False, so that nothing there can spread, NaN included."""
    if mask is None:
        return x
    mask = jnp.broadcast_to(mask.reshape(mask.shape + (1,) * (x.ndim - mask.ndim)), x.shape)
    return jax.lax.select(mask, x, jnp.zeros_like(x))


def weigh(w: Array, loss: Array) -> Array:
    """``w * loss``, and 0 where an infinite loss has no weight."""
    return w * jnp.where((w == 0) & (loss == jnp.inf), 0, loss)


def _at_least_one(normalizer: ArrayLike, dtype: DTypeLike) -> Array:
    return jnp.maximum(jnp.asarray(normalizer, dtype), 1)
