"""Lovász losses: one value an image, the Jaccard loss of its regions extended from right or wrong to errors between."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Bool, Float

from ._checks import check_binary_labels, check_logits
from ._classes import class_images, one_or_nan
from ._margin import sigmoid_margin, softmax_odds
from ._overlap import class_numbers
from ._reduce import Reduction, keep
from ._residual import one_residual

CLASSES = ("present", "all")


def lovasz_softmax_loss(
    logits: Float[ArrayLike, "*n"],
    labels: ArrayLike,
    *,
    classes: str = "present",
    ignore_index: int | None = None,
    axis: int = -1,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    reduction: str = "none",
    normalizer: ArrayLike | None = None,
) -> Float[Array, "..."]:
    r"""Lovász-softmax loss of each image: a surrogate of 1 less the mean intersection over union.

    For each class ``c``, with ``p`` the softmax and the errors ``e_i = 1 - p_{ic}`` of the pixels labelled ``c``,
    ``e_i = p_{ic}`` of the others, in descending order:

    .. math::
        L_c = \sum_i e_i (J_i - J_{i-1}) \qquad J_i = 1 - \frac{n - f_i}{n + i - f_i} \qquad
        \frac{\partial L_c}{\partial p_{ic}} = \mp (J_i - J_{i-1})

    with ``-`` for the pixels labelled ``c`` and ``+`` for the others; ``n`` pixels are labelled ``c``, ``f_i`` of them
    among the first ``i``. The loss is the mean of ``L_c`` over the classes that ``classes`` names. Neither ``1 - p``
    nor the difference of two ``J`` is formed by subtraction, so that images of millions of pixels keep their digits.

    Args:
      logits: floating point, (B, ..., C) with classes along ``axis``, as in ``dice_loss``.
      labels: integers in [0, C), of the shape of logits without ``axis``.
      classes: "present" (the classes that label a pixel of the image) or "all"; of a class that labels none, the loss
        is its largest probability.
      ignore_index, axis: as in ``dice_loss``.
      where, weights, reduction, normalizer: as in ``dice_loss``.

    Returns:
      The loss in float32 (float64 for float64 logits): (B,) for "none", else a scalar.

    Raises:
      ValueError: as ``dice_loss``, and for float labels or an unknown ``classes``.

    >>> import jax.numpy as jnp
    >>> logits = jnp.array([[[2.0, 0.0], [0.0, 1.0]], [[0.5, 0.0], [0.0, 0.0]]])
    >>> with jnp.printoptions(precision=4, suppress=True):
    ...     print(lovasz_softmax_loss(logits, jnp.array([[0, 1], [0, 255]]), ignore_index=255))
    [0.2315 0.3775]

    References:
      Berman, Rannen Triki, Blaschko, "The Lovász-Softmax loss: A tractable surrogate for the optimization of the
      intersection-over-union measure in neural networks", 2018, https://arxiv.org/abs/1705.08790
    """
    if classes not in CLASSES:
        raise ValueError(f"classes must be one of {', '.join(CLASSES)}, got {classes!r}")
    pixels, labels, kept, reduced = class_images(
        check_logits(logits),
        labels,
        axis=axis,
        ignore_index=ignore_index,
        where=where,
        weights=weights,
        reduction=reduction,
        normalizer=normalizer,
        soft=False,
    )
    loss = _softmax_of_present if classes == "present" else _softmax_of_all
    return reduced(loss(pixels, reduced.mask, labels, kept))


def lovasz_hinge_loss(
    logits: Float[ArrayLike, "*n"],
    labels: ArrayLike,
    *,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    reduction: str = "none",
    normalizer: ArrayLike | None = None,
) -> Float[Array, "..."]:
    r"""Lovász hinge loss of each image: a surrogate of 1 less the intersection over union of one foreground.

    With the errors ``e_i = 1 - z_i``, ``z = x`` where the label is 1 and ``-x`` where it is 0, in descending order:

    .. math::
        L = \sum_i \max(e_i, 0) (J_i - J_{i-1}) \qquad
        \frac{\partial L}{\partial x_i} = \mp (J_i - J_{i-1}) [e_i > 0]

    with ``-`` for label 1 and ``+`` for label 0, and ``J`` as in ``lovasz_softmax_loss``, label 1 being the class. It
    is 0 only where every margin is at least 1.

    Args:
      logits: floating point, (B, ...). float16 and bfloat16 are computed in float32.
      labels: of the same shape; bool or integer in {0, 1}.
      where: bool, of pixels, with the dimensions of ``logits``, to which it broadcasts; pixels where it is False are
        dropped, and their values not looked at: ``where=labels != 255``. An image that keeps no pixel is dropped.
      weights, reduction, normalizer: as in ``dice_loss``.

    Returns:
      The loss in float32 (float64 for float64 logits): (B,) for "none", else a scalar.

    Raises:
      ValueError: for shapes that do not match, labels that are not 0 or 1, or options out of range. Labels that are
        traced, or held by an accelerator, give NaN in the loss and the gradient of their image instead.

    >>> import jax.numpy as jnp
    >>> logits, labels = jnp.array([[2.0, -1.0, 0.5], [0.3, -3.0, -2.0]]), jnp.array([[1, 0, 0], [1, 0, 0]])
    >>> with jnp.printoptions(precision=4, suppress=True):
    ...     print(lovasz_hinge_loss(logits, labels))
    [0.75 0.7 ]

    References:
      Berman, Rannen Triki, Blaschko, "The Lovász-Softmax loss: A tractable surrogate for the optimization of the
      intersection-over-union measure in neural networks", 2018, https://arxiv.org/abs/1705.08790
    """
    logits = check_logits(logits)
    if logits.ndim < 1:
        raise ValueError("logits must have images along axis 0, got a scalar")
    if where is not None and np.ndim(where) != logits.ndim:
        raise ValueError(f"where must have the dimensions of logits, {logits.ndim}, got shape {np.shape(where)}")
    pixels = Reduction(logits.shape, where, None, "none", None)
    labels = keep(check_binary_labels(labels, logits, where, soft=False), pixels.mask)
    flat = (len(logits), math.prod(logits.shape[1:]))
    kept = None if pixels.mask is None else pixels.mask.reshape(flat)
    reduced = pixels.images(weights, reduction, normalizer)
    return reduced(_hinge(logits.reshape(flat), reduced.mask, labels.reshape(flat), kept))


@one_residual
def _softmax_of_present(logits: Array, labels: Array, kept: Array | None) -> Array:
    of_class, present = _softmax_of_class(logits, labels, kept)
    number = jnp.sum(present, axis=-1).astype(logits.dtype)
    return one_or_nan(labels, logits) * jnp.sum(keep(of_class, present), axis=-1) / jnp.maximum(number, 1)


@one_residual
def _softmax_of_all(logits: Array, labels: Array, kept: Array | None) -> Array:
    of_class, _ = _softmax_of_class(logits, labels, kept)
    return one_or_nan(labels, logits) * jnp.mean(of_class, axis=-1)


@one_residual
def _hinge(logits: Array, labels: Array, kept: Array | None) -> Array:
    z = sigmoid_margin(keep(logits, kept), labels)
    known = ~jnp.any(jnp.isnan(z), axis=-1, keepdims=True)  # labels too: the margin of an unknown one is NaN
    errors = 1 - jnp.where(known, 1, jnp.nan).astype(z.dtype) * z
    slopes = _jaccard_slopes(errors, labels == 1, kept)
    return jnp.sum(slopes * jnp.where(errors <= 0, 0, errors), axis=-1)


def _softmax_of_class(
    logits: Float[Array, "b p c"], labels: Array, kept: Bool[Array, "b p"] | None
) -> tuple[Float[Array, "b c"], Bool[Array, "b c"]]:
    """The loss of each class, and whether it labels a pixel. One class is sorted at a time."""
    p, q = softmax_odds(keep(logits, kept))
    label = labels[..., None] == class_numbers(logits, labels.dtype)
    errors = jnp.where(label, q, p)

    def slopes_of(of_class: tuple[Array, Array]) -> Array:
        ranks, number = of_class
        return _jaccard_slopes(ranks, labels == number, kept)

    ranks = jnp.moveaxis(_finer(jax.lax.stop_gradient(errors), jax.lax.stop_gradient(jnp.where(label, p, q))), -1, 0)
    slopes = jax.lax.map(slopes_of, (ranks, jnp.arange(logits.shape[-1], dtype=labels.dtype)))
    present = jnp.any(keep(label, kept), axis=1)
    return jnp.sum(jnp.moveaxis(slopes, 0, -1) * errors, axis=1), present


def _finer(error: Array, rest: Array) -> Array:
    """What orders as ``error`` and tells errors apart that round to 1, by their ``rest = 1 - error``."""
    smallest = float(jnp.finfo(error.dtype).smallest_normal)
    return jnp.where(error > rest, error / jnp.maximum(rest, smallest), -rest / jnp.maximum(error, smallest))


def _jaccard_slopes(
    errors: Float[Array, "b p"], foreground: Bool[Array, "b p"], kept: Bool[Array, "b p"] | None
) -> Float[Array, "b p"]:
    """What the Jaccard loss rises by as each pixel goes wrong, in descending order of the errors; a constant.

    ``(n - f) / (n + i - f)`` falls by ``1 / (n + i - f)`` at a pixel of the foreground, and at another by
    ``(n - f) / ((n + i - f) (n + i - f - 1))``. Dropped pixels come last and count nowhere.
    """
    key = -jax.lax.stop_gradient(errors)
    key = key if kept is None else jnp.where(kept, key, jnp.inf)
    order = jnp.argsort(key, axis=-1)
    true = jnp.take_along_axis(keep(foreground, kept), order, axis=-1)
    false = jnp.take_along_axis(keep(~foreground, kept), order, axis=-1)
    found, added = (jnp.cumsum(pixels, axis=-1, dtype=jnp.int32) for pixels in (true, false))
    n = found[..., -1:]
    missed, union = (count.astype(errors.dtype) for count in (n - found, n + added))
    by_false = missed / jnp.maximum(union * (union - 1), 1)
    by_false = jnp.where(n == 0, jnp.where(added == 1, 1.0, 0.0).astype(errors.dtype), by_false)
    slopes = jnp.where(true, 1 / jnp.maximum(union, 1), keep(by_false, false))
    images = jnp.arange(len(errors)).reshape(-1, 1)
    return jnp.zeros_like(errors).at[images, order].set(slopes, unique_indices=True)
