"""Logits and labels of mutually exclusive classes in one form: checked, classes last, dropped rows out."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Bool, Float, Int

from ._checks import check_axis, check_class_labels, is_hard
from ._margin import probability_or_nan, softmax_margin
from ._reduce import Reduction, keep


def class_rows(
    logits: Float[Array, "*n"],
    labels: ArrayLike,
    *,
    axis: int,
    ignore_index: int | None,
    where: ArrayLike | None,
    weights: ArrayLike | None,
    reduction: str,
    normalizer: ArrayLike | None,
    soft: bool = True,
) -> tuple[Float[Array, "*rows c"], Array, Reduction]:
    """Logits ``(*rows, c)``, labels ``(*rows)`` or ``(*rows, c)``, and the reduction of ``(*rows)``, ignored rows out.

    ``soft=False`` refuses float labels. Labels of dropped rows are 0.
    """
    axis = check_axis(axis, logits.shape)
    reduced = Reduction(logits.shape[:axis] + logits.shape[axis + 1 :], where, weights, reduction, normalizer)
    labels = check_class_labels(labels, logits, axis, ignore_index, where, soft=soft)
    labels = labels if is_hard(labels) else jnp.moveaxis(labels, axis, -1)
    if ignore_index is not None:
        reduced = reduced.drop(labels == ignore_index)
    return jnp.moveaxis(logits, axis, -1), keep(labels, reduced.mask), reduced


def class_images(
    logits: Float[Array, "*n"],
    labels: ArrayLike,
    *,
    axis: int,
    ignore_index: int | None,
    where: ArrayLike | None,
    weights: ArrayLike | None,
    reduction: str,
    normalizer: ArrayLike | None,
    soft: bool = True,
) -> tuple[Float[Array, "b p c"], Array, Bool[Array, "b p"] | None, Reduction]:
    """Logits ``(b, p, c)``, labels ``(b, p)`` or ``(b, p, c)``, the pixels kept, and the reduction of images ``(b)``.

    ``where`` is of pixels, and so is ``ignore_index``; an image that keeps no pixel is dropped.
    """
    if logits.ndim < 2:
        raise ValueError(f"logits must have images along axis 0 and a class axis, got shape {logits.shape}")
    if where is not None and np.ndim(where) != logits.ndim - 1:
        raise ValueError(
            f"where must have the dimensions of the pixels, {logits.ndim - 1}, got shape {np.shape(where)}; "
            f"a mask of whole images is where[:, None, None] for (B, H, W)"
        )
    last, labels, pixels = class_rows(
        logits,
        labels,
        axis=axis,
        ignore_index=ignore_index,
        where=where,
        weights=None,
        reduction="none",
        normalizer=None,
        soft=soft,
    )
    if last.shape[-1] < 2:
        raise ValueError(
            "logits must have at least two classes: for one foreground logit x a pixel, "
            "jnp.stack([jnp.zeros_like(x), x], axis=-1)"
        )
    flat = (len(last), math.prod(last.shape[1:-1]))
    labels = labels.reshape(flat if is_hard(labels) else (*flat, last.shape[-1]))
    kept = None if pixels.mask is None else pixels.mask.reshape(flat)
    return last.reshape(*flat, last.shape[-1]), labels, kept, pixels.images(weights, reduction, normalizer)


def class_index(labels: Int[Array, "*n"]) -> Int[Array, "*n"]:
    """Labels as int32, which holds any class whatever integer dtype they came in."""
    return labels.astype(jnp.int32)


def at_class(option: Array, index: Int[Array, "*n"], logits: Float[Array, "*n c"]) -> Array:
    """A hyperparameter that broadcasts against the logits, at one class a row ``(*n)``; scalars as they are."""
    if option.ndim == 0:
        return option
    return jnp.take_along_axis(jnp.broadcast_to(option, logits.shape), index[..., None], axis=-1)[..., 0]


def label_margin(logits: Float[Array, "*n c"], labels: Int[Array, "*n"]) -> Float[Array, "*n"]:
    """The margin of the label's class; NaN, in the row's gradient too, for a label that is no class."""
    # a factor, not a select: through the chain rule it marks the whole row of the gradient
    one_or_nan = jnp.where(_is_class(labels, logits), 1, jnp.nan).astype(logits.dtype)
    return softmax_margin(logits, class_index(labels)) * one_or_nan


def label_distribution(labels: Array, logits: Float[Array, "*n c"]) -> Float[Array, "*n c"]:
    """Soft labels as they are, integer labels one-hot; NaN where they are out of range."""
    if not is_hard(labels):
        return probability_or_nan(labels, logits)
    one_hot = jax.nn.one_hot(class_index(labels), logits.shape[-1], dtype=logits.dtype)
    return jnp.where(_is_class(labels, logits)[..., None], one_hot, jnp.nan)


def one_or_nan(labels: Array, logits: Float[Array, "b p c"]) -> Float[Array, "b"]:
    """A factor for the loss of each image: NaN, in its whole gradient too, where a label is out of range."""
    known = _is_class(labels, logits) if is_hard(labels) else (labels >= 0) & (labels <= 1)
    known = jnp.all(known, axis=tuple(range(1, known.ndim)))
    return jnp.where(known, 1, jnp.nan).astype(logits.dtype)


def _is_class(labels: Array, logits: Array) -> Array:
    return (labels >= 0) & (labels < logits.shape[-1])
