"""From one loss an element to what the caller asked for: drop, weigh, reduce."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from ._checks import broadcasts_to

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
        if self.where is not None and jnp.result_type(self.where) != jnp.bool_:
            raise ValueError(f"where must be bool, got dtype {jnp.result_type(self.where)}")
        for name, option in (("where", self.where), ("weights", self.weights)):
            if option is not None and not broadcasts_to(np.shape(option), self.shape):
                raise ValueError(
                    f"{name} must broadcast to the shape of the loss, {self.shape}, got shape {np.shape(option)}"
                )

    def keep(self, x: Array) -> Array:
        """``x (*shape, ...)`` with 0 where the element is dropped, so that nothing there can spread, NaN included."""
        if self.where is None:
            return x
        where = jnp.broadcast_to(self.where, self.shape).reshape(self.shape + (1,) * (x.ndim - len(self.shape)))
        return jnp.where(where, x, jnp.zeros((), x.dtype))

    def __call__(self, loss: Array, denominator_weights: Array | None = None) -> Array:
        """Reduce ``loss``; ``denominator_weights``, in ``loss`` already, belong to the mean's ``sum(w)`` too."""
        loss = self._weigh(loss)
        if self.reduction == "none":
            return loss
        total = jnp.sum(loss)
        if self.reduction == "sum":
            return total if self.normalizer is None else total / _at_least_one(self.normalizer, loss.dtype)
        one = jnp.ones(self.shape, loss.dtype)
        kept = jnp.sum(self._weigh(one if denominator_weights is None else denominator_weights))
        return total / jnp.where(kept == 0, 1, kept)

    def _weigh(self, x: Array) -> Array:
        if self.weights is None:
            return self.keep(x)
        return self.keep(x) * self.keep(jnp.broadcast_to(jnp.asarray(self.weights, x.dtype), self.shape))


def _at_least_one(normalizer: ArrayLike, dtype: DTypeLike) -> Array:
    return jnp.maximum(jnp.asarray(normalizer, dtype), 1)
