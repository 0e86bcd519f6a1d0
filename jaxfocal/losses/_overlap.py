"""How far predicted and labelled classes overlap in each image, as soft counts, and the losses made of them."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Bool, Float

from ._checks import Accepted, check_class_weights, check_logits, check_scalar, is_hard
from ._classes import class_images
from ._margin import softmax_odds
from ._power import share
from ._reduce import keep


def region_loss(
    rule: Callable[..., Array],
    logits: ArrayLike,
    labels: ArrayLike,
    options: dict[str, tuple[ArrayLike, Accepted]],
    *,
    class_weights: ArrayLike | None,
    axis: int,
    **images: Any,
) -> Array:
    """``rule(logits, mask, labels, kept, class_weights, options)`` of checked arguments, over images."""
    logits = check_logits(logits)
    pixels, labels, kept, reduced = class_images(logits, labels, axis=axis, **images)
    checked = {name: check_scalar(name, value, logits, accepted) for name, (value, accepted) in options.items()}
    class_weights = check_class_weights(class_weights, logits, axis)
    return reduced(rule(pixels, reduced.mask, labels, kept, class_weights, checked))


def confusion(
    logits: Float[Array, "b p c"], labels: Array, kept: Bool[Array, "b p"] | None
) -> tuple[Float[Array, "b c"], Float[Array, "b c"], Float[Array, "b c"]]:
    """Soft counts of true positives, false positives and false negatives over the pixels kept."""

    def over_pixels(terms: Array) -> Array:
        return jnp.sum(keep(terms, kept), axis=1)

    p, q = softmax_odds(keep(logits, kept))
    if not is_hard(labels):
        return over_pixels(p * labels), over_pixels(p * (1 - labels)), over_pixels(q * labels)
    label = labels[..., None] == class_numbers(logits, labels.dtype)
    wrong = jnp.where(label, q, p)  # one array for both kinds
    true_positives, false_positives = jnp.where(label, p, 0), jnp.where(label, 0, wrong)
    return over_pixels(true_positives), over_pixels(false_positives), over_pixels(jnp.where(label, wrong, 0))


def tversky_of_class(tp: Array, fp: Array, fn: Array, alpha: ArrayLike, beta: ArrayLike, smooth: Array) -> Array:
    """``1 - (TP + smooth) / (TP + alpha FP + beta FN + smooth)``; nothing over nothing is 0."""
    return share(alpha * fp + beta * fn, tp + smooth)


def class_mean(of_class: Float[Array, "b c"], class_weights: Array | None) -> Float[Array, "b"]:
    """The mean over classes, weighed; 0 where no class has weight."""
    if class_weights is None:
        return jnp.mean(of_class, axis=-1)
    total = jnp.sum(class_weights)
    return jnp.sum(class_weights.reshape(1, -1) * of_class, axis=-1) / jnp.where(total == 0, 1, total)


def class_numbers(x: Array, dtype: Any) -> Array:
    """The class of each element of ``x (..., c)``, never held as an array once compiled."""
    return jax.lax.broadcasted_iota(dtype, (1,) * (x.ndim - 1) + x.shape[-1:], x.ndim - 1)
