"""Which elements take part in the loss: the hardest, or so many positives and negatives drawn at random."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Bool, Float, Int

from ._checks import NON_NEGATIVE, as_array, broadcasts_to, check_values


def ohem_mask(
    losses: Float[ArrayLike, "*n"],
    labels: ArrayLike | None = None,
    *,
    num_samples: ArrayLike | None = None,
    negative_ratio: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Bool[Array, "*n"]:
    """Online hard example mining: the mask of the elements whose loss is largest, for ``where``.

    With ``num_samples=k`` the ``k`` largest losses of all, with ``negative_ratio=r`` every positive and the
    ``floor(r * number of positives)`` largest losses of negatives. All dimensions are one pool: for a choice in each
    image use ``jax.vmap``. Of equal losses those that come first are chosen, so the number is exact; where there are
    fewer elements than asked for, all are chosen. A NaN counts as an infinite loss: it is chosen, and so seen.

    A loss under this mask has the gradient of the chosen elements alone; choosing has none.

    Args:
      losses: floating point, any shape.
      labels: of the same shape, bool or integer: >= 1 positive, 0 negative, below 0 never chosen. Needed with
        ``negative_ratio``.
      num_samples: how many to choose, an integer scalar >= 0; may be traced.
      negative_ratio: negatives for each positive, a scalar >= 0; may be traced. The product is computed in float32.
      where: bool, broadcasts to ``losses``; elements where it is False are never chosen.

    Returns:
      bool, of the shape of ``losses``.

    Raises:
      ValueError: for shapes or dtypes that do not fit, or unless exactly one of ``num_samples`` and ``negative_ratio``
        is given, in its range where it is not traced.

    >>> import jax.numpy as jnp
    >>> losses, labels = jnp.array([0.1, 2.0, 0.3, 0.9, 0.2]), jnp.array([1, 0, 0, 0, -1])
    >>> print(ohem_mask(losses, num_samples=2))
    [False  True False  True False]
    >>> print(ohem_mask(losses, labels, negative_ratio=2.0))
    [ True  True False  True False]

    References:
      Shrivastava, Gupta, Girshick, "Training Region-based Object Detectors with Online Hard Example Mining", 2016,
      https://arxiv.org/abs/1604.03540
      Liu, Anguelov, Erhan, Szegedy, Reed, Fu, Berg, "SSD: Single Shot MultiBox Detector", 2016 (three negatives for
      each positive), https://arxiv.org/abs/1512.02325
    """
    losses = jax.lax.stop_gradient(jnp.asarray(losses))
    if not jnp.issubdtype(losses.dtype, jnp.floating):
        raise ValueError(f"losses must be floating point, got dtype {losses.dtype}")
    kept = _check_where(where, losses.shape)
    if labels is not None:
        labels = _check_labels(labels)
        if labels.shape != losses.shape:
            raise ValueError(f"labels must have the shape of losses, {losses.shape}, got shape {labels.shape}")
        kept &= labels >= 0
    if num_samples is not None and negative_ratio is None:
        return _hardest(losses, kept, _check_num_samples(num_samples, losses.size))
    if negative_ratio is not None and num_samples is None:
        if labels is None:
            raise ValueError("negative_ratio needs labels, got labels=None")
        positive = kept & (labels >= 1)
        return positive | _hardest(losses, kept & (labels == 0), _num_negatives(negative_ratio, positive))
    given = "neither" if num_samples is None else "both"
    raise ValueError(f"exactly one of num_samples and negative_ratio must be given, got {given}")


def balanced_sample_mask(
    key: Array, labels: Int[ArrayLike, "*n"], *, num_samples: int, positive_fraction: float
) -> Bool[Array, "*n"]:
    """Positives and negatives drawn at random, at most so many positives, for ``where``.

    At most ``int(num_samples * positive_fraction)`` positives are drawn, then negatives up to ``num_samples`` in all;
    where there are too few of either, all of them are chosen. Every choice of that many is equally likely. All
    dimensions are one pool: for a choice in each image use ``jax.vmap`` over keys and labels. The numbers are those of
    torchvision's ``BalancedPositiveNegativeSampler``. The region proposals of Faster R-CNN take 256 anchors at 1/2,
    its heads 512 boxes at 1/4.

    Args:
      key: of ``jax.random``.
      labels: any shape, bool or integer: >= 1 positive, 0 negative, below 0 never chosen. They may be traced.
      num_samples: a Python integer >= 0.
      positive_fraction: a Python number in [0, 1].

    Returns:
      bool, of the shape of ``labels``.

    Raises:
      ValueError: for labels of another dtype, or num_samples or positive_fraction out of range.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> labels = jnp.array([0, 2, 0, 1, -1, 0, 0, 1])
    >>> mask = balanced_sample_mask(jax.random.key(0), labels, num_samples=4, positive_fraction=0.5)
    >>> int(jnp.sum(mask & (labels >= 1))), int(jnp.sum(mask & (labels == 0)))
    (2, 2)

    References:
      Ren, He, Girshick, Sun, "Faster R-CNN: Towards Real-Time Object Detection with Region Proposal Networks", 2015,
      https://arxiv.org/abs/1506.01497
    """
    labels = _check_labels(labels)
    if isinstance(num_samples, bool) or not isinstance(num_samples, int | np.integer) or num_samples < 0:
        raise ValueError(f"num_samples must be a Python integer >= 0, got {num_samples!r}")
    if not isinstance(positive_fraction, int | float | np.number) or not 0 <= positive_fraction <= 1:
        raise ValueError(f"positive_fraction must be a Python number in [0, 1], got {positive_fraction!r}")
    positive, negative = labels >= 1, labels == 0
    num_positive = jnp.minimum(_count(positive), min(int(num_samples * positive_fraction), labels.size))
    high, low = jax.random.bits(key, (2, *labels.shape), jnp.uint32)  # 64 bits: equal ones are out of reach
    place = _places(low, high, negative, ~(positive | negative))  # positives, then negatives, each in random order
    chosen_negative = negative & (place - _count(positive) < min(num_samples, labels.size) - num_positive)
    return positive & (place < num_positive) | chosen_negative


def _hardest(losses: Float[Array, "*n"], candidates: Bool[Array, "*n"], k: Int[Array, ""]) -> Bool[Array, "*n"]:
    """The ``k`` candidates of largest loss, or all where there are fewer."""
    ascending = jnp.where(jnp.isnan(losses), -jnp.inf, -losses)
    return candidates & (_places(ascending, ~candidates) < k)


def _places(*keys: Array) -> Int[Array, "*n"]:
    """The place of each element in ascending order of the last key, ties by the one before, in the end by position."""
    order = jnp.lexsort([key.ravel() for key in keys])
    ascending = jnp.arange(order.size, dtype=jnp.int32)
    return jnp.zeros_like(ascending).at[order].set(ascending, unique_indices=True).reshape(keys[0].shape)


def _num_negatives(negative_ratio: ArrayLike, positive: Bool[Array, "*n"]) -> Int[Array, ""]:
    if np.ndim(negative_ratio) != 0:
        raise ValueError(f"negative_ratio must be a scalar, got shape {np.shape(negative_ratio)}")
    check_values("negative_ratio", negative_ratio, NON_NEGATIVE)
    product = jnp.floor(jnp.asarray(negative_ratio, jnp.float32) * _count(positive).astype(jnp.float32))
    return jnp.minimum(product, positive.size).astype(jnp.int32)


def _count(mask: Bool[Array, "*n"]) -> Int[Array, ""]:
    return jnp.sum(mask, dtype=jnp.int32)


def _check_num_samples(num_samples: ArrayLike, size: int) -> Int[Array, ""]:
    """The number of samples, at most ``size``."""
    array = as_array(num_samples)
    if array.ndim != 0 or not jnp.issubdtype(array.dtype, jnp.integer):
        raise ValueError(f"num_samples must be an integer scalar, got dtype {array.dtype} and shape {array.shape}")
    check_values("num_samples", num_samples, NON_NEGATIVE)
    wide = array.astype(jnp.int32) if array.dtype.itemsize < 4 else array  # holds size too
    return jnp.minimum(wide, size).astype(jnp.int32)


def _check_labels(labels: ArrayLike) -> Array:
    array = as_array(labels)
    if array.dtype == jnp.bool_:
        return array.astype(jnp.int8)
    if not jnp.issubdtype(array.dtype, jnp.integer):
        raise ValueError(f"labels must be bool or integer, got dtype {array.dtype}")
    return array


def _check_where(where: ArrayLike | None, shape: tuple[int, ...]) -> Bool[Array, "*n"]:
    array = jnp.asarray(True if where is None else where)
    if array.dtype != jnp.bool_:
        raise ValueError(f"where must be bool, got dtype {array.dtype}")
    if not broadcasts_to(array.shape, shape):
        raise ValueError(f"where must broadcast to the shape of losses, {shape}, got shape {array.shape}")
    return jnp.broadcast_to(array, shape)
