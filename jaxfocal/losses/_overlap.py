"""How far predicted and labelled classes overlap in each image, as soft counts, and the losses made of them."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Bool, Float, Int, Shaped

from ._checks import Accepted, check_class_weights, check_logits, check_scalar, is_hard
from ._classes import class_images, class_index
from ._margin import largest, softmax_odds
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
    logits = keep(logits, kept)
    if is_hard(labels):
        return _confusion_of_labels(logits, class_index(labels), kept)
    p, q = softmax_odds(logits)
    counts = p * labels, p * (1 - labels), q * labels
    true_positives, false_positives, false_negatives = (jnp.sum(keep(count, kept), axis=1) for count in counts)
    return true_positives, false_positives, false_negatives


@jax.custom_jvp
def _confusion_of_labels(logits: Array, labels: Int[Array, "b p"], kept: Array | None) -> tuple[Array, Array, Array]:
    """``sum [t = c] p_t``, ``sum [t != c] p_c`` and ``sum [t = c] q_t``: of all classes only ``others`` is an array."""
    others, p, q, scale = _shares_of_label(logits, labels, kept)
    of_label = partial(_sum_by_label, labels=labels, classes=logits.shape[-1])
    return of_label(p), _sum_pixels(scale, others), of_label(q)


@_confusion_of_labels.defjvp
def _confusion_of_labels_jvp(primals, tangents):
    """``dp_t = p_t (q_t dx_t - m)`` and ``dp_c = p_c (dx_c - p_t dx_t - m)``, with ``m = sum_{c != t} p_c dx_c``.

    Products with vectors, so that ``others`` serves forwards and backwards. Where a pixel is sure of a wrong class the
    terms of that class cancel: its slope, which vanishes, is right to rounding of what would be there otherwise.
    """
    (_, labels, _), (x_dot, *_) = primals, tangents
    others, p, q, scale = _shares_of_label(*primals)
    own_dot = jnp.sum(jnp.where(_is_label(x_dot, labels), x_dot, 0), axis=-1)
    m = scale * jnp.sum(others * x_dot, axis=-1)
    positives_dot = _sum_by_label(p * (q * own_dot - m), labels, x_dot.shape[-1])
    false_positives_dot = _sum_pixels(scale, others * x_dot) - _sum_pixels(scale * (p * own_dot + m), others)
    return _confusion_of_labels(*primals), (positives_dot, false_positives_dot, -positives_dot)


def _shares_of_label(
    logits: Array, labels: Array, kept: Array | None
) -> tuple[Float[Array, "b p c"], Float[Array, "b p"], Float[Array, "b p"], Float[Array, "b p"]]:
    """``others, p_t, q_t, scale``, the last three 0 for pixels that are not kept.

    ``scale * others`` is the softmax of the classes that are not the label; at the label ``others`` is 0.
    """
    top = largest(logits)
    others = jnp.where(_is_label(logits, labels), 0, jnp.exp(logits - top))
    own = jnp.exp(jnp.take_along_axis(logits, labels[..., None], axis=-1) - top)[..., 0]
    rest = jnp.sum(others, axis=-1)
    scale = keep(1 / (own + rest), kept)
    return others, scale * own, scale * rest, scale


def _is_label(x: Float[Array, "b p c"], labels: Int[Array, "b p"]) -> Bool[Array, "b p c"]:
    return labels[..., None] == class_numbers(x, labels.dtype)


def _sum_pixels(w: Float[Array, "b p"], terms: Float[Array, "b p c"]) -> Float[Array, "b c"]:
    """``sum_p w * terms`` as products with vectors."""
    w, terms = _in_blocks(w), _in_blocks(terms)
    return jnp.sum(jnp.einsum("bnp,bnpc->bnc", w, terms, precision=jax.lax.Precision.HIGHEST), axis=1)


def _sum_by_label(w: Float[Array, "b p"], labels: Int[Array, "b p"], classes: int) -> Float[Array, "b c"]:
    """``sum_p w [t = c]``, without the one-hot labels."""
    of_block = partial(jax.ops.segment_sum, num_segments=classes)
    return jnp.sum(jax.vmap(jax.vmap(of_block))(_in_blocks(w), _in_blocks(labels)), axis=1)


def _in_blocks(x: Shaped[Array, "b p *c"]) -> Shaped[Array, "b n p/n *c"]:
    """About as many blocks as pixels in each: added up one after the other, all their rounding would add up."""
    b, p, *c = x.shape
    n = max((n for n in range(1, math.isqrt(p) + 1) if p % n == 0), default=1)
    return x.reshape(b, n, p // n, *c)


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
