"""Losses of mutually exclusive classes of which some are rare: margins and weights from how often each is seen."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Float

from ._checks import NON_NEGATIVE, POSITIVE, check_class_weights, check_counts, check_logits, check_scalar
from ._classes import class_index, class_rows, label_margin
from ._margin import CROSS_ENTROPY, focal_curve
from ._reduce import weigh
from ._residual import one_residual
from ._statistics import AxisName, check_state, count, over_devices, zeros


class SeesawState(NamedTuple):
    """What ``seesaw_loss`` has seen.

    Attributes:
      counts: (C,), how many labels of each class.
    """

    counts: Float[Array, "c"]


def ldam_loss(
    logits: Float[ArrayLike, "*n"],
    labels: ArrayLike,
    *,
    counts: ArrayLike,
    max_margin: ArrayLike = 0.5,
    scale: ArrayLike = 30.0,
    class_weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    axis: int = -1,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    reduction: str = "none",
    normalizer: ArrayLike | None = None,
) -> Float[Array, "..."]:
    r"""Label-distribution-aware margin loss (LDAM): cross-entropy that asks a larger margin of rarer classes.

    .. math::
        \Delta_j = m \left(\frac{\min_k n_k}{n_j}\right)^{1/4} \qquad x'_j = x_j - [j = t] \Delta_t \qquad
        p = \mathrm{softmax}(s x')

        L = -w_t \log p_t \qquad \frac{\partial L}{\partial x_j} = w_t s (p_j - [j = t])

    with ``n = counts``, ``m = max_margin`` and ``s = scale``. The smallest count is that over the classes that occur; a
    class with count 0 has the margin ``max_margin``. The paper's logits are cosines, which ``scale`` spreads.

    Args:
      logits: floating point, classes along ``axis``. float16 and bfloat16 are computed in float32.
      labels: integers in [0, C), of the shape of logits without ``axis``.
      counts: (C,), >= 0, integer or floating point: how many examples of each class the training set has. A constant:
        no gradient flows through it.
      max_margin: the margin of the rarest class, a scalar >= 0; may be traced and differentiated.
      scale: a scalar > 0; may be traced and differentiated.
      class_weights, ignore_index, axis: as in ``softmax_focal_loss``. The paper's deferred re-weighting is
        ``class_weights`` from a later epoch on.
      where, weights, reduction, normalizer: as in ``softmax_focal_loss``.

    Returns:
      The loss in float32 (float64 for float64 logits): of the logits' shape without ``axis`` for "none", else a scalar.

    Raises:
      ValueError: as ``softmax_focal_loss``, and for float labels, counts that are not one number >= 0 a class, a
        max_margin < 0 or a scale <= 0.

    >>> import jax.numpy as jnp
    >>> logits, labels = jnp.array([[0.8, 0.1, 0.0], [0.1, 0.5, 0.2]]), jnp.array([0, 2])
    >>> with jnp.printoptions(precision=4, suppress=True):
    ...     print(ldam_loss(logits, labels, counts=jnp.array([10000, 100, 1]), max_margin=0.5, scale=10.0))
    [0.0021 8.0185]

    References:
      Cao, Wei, Gaidon, Arechiga, Ma, "Learning Imbalanced Datasets with Label-Distribution-Aware Margin Loss", 2019,
      https://arxiv.org/abs/1906.07413
    """
    logits = check_logits(logits)
    last, labels, reduced = class_rows(
        logits,
        labels,
        axis=axis,
        ignore_index=ignore_index,
        where=where,
        weights=weights,
        reduction=reduction,
        normalizer=normalizer,
        soft=False,
    )
    rarity = _rarity(_check_counts(counts, last))
    max_margin = check_scalar("max_margin", max_margin, logits, NON_NEGATIVE)
    scale = check_scalar("scale", scale, logits, POSITIVE)
    class_weights = check_class_weights(class_weights, logits, axis)
    loss = _ldam(last, reduced.mask, labels, rarity, max_margin, scale, class_weights)
    return reduced(loss, None if class_weights is None else class_weights[class_index(labels)])


def seesaw_init(num_classes: int) -> SeesawState:
    """The state of ``seesaw_loss`` before the first step: no label seen.

    Args:
      num_classes: C, the number of classes.

    Returns:
      Counts (C,) of zero in float32, which counts exactly up to 2**24 labels a class; beyond, to 7 digits, as long as
      a step adds more than a few.

    Raises:
      ValueError: for anything but a positive integer.

    >>> seesaw_init(3).counts.tolist()
    [0.0, 0.0, 0.0]
    """
    return SeesawState(zeros("num_classes", num_classes))


def seesaw_loss(
    logits: Float[ArrayLike, "*n"],
    labels: ArrayLike,
    state: SeesawState,
    *,
    p: ArrayLike = 0.8,
    q: ArrayLike = 2.0,
    axis_name: AxisName | None = None,
    ignore_index: int | None = None,
    axis: int = -1,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    reduction: str = "none",
    normalizer: ArrayLike | None = None,
) -> tuple[Float[Array, "..."], SeesawState]:
    r"""Seesaw loss: cross-entropy that pushes rare classes down less, and those mistaken for the label more.

    .. math::
        L = -\log \hat\sigma_t \qquad
        \hat\sigma_j = \frac{S_{tj} e^{x_j}}{\sum_k S_{tk} e^{x_k}} \qquad
        S_{tj} = \min\left(1, \frac{N_j}{N_t}\right)^p \max\left(1, \frac{\sigma_j}{\sigma_t}\right)^q \qquad
        \frac{\partial L}{\partial x_j} = \hat\sigma_j - [j = t]

    with ``sigma`` the softmax of ``x`` and ``N`` the number of labels of each class seen so far, those of this call
    included, and at least 1. ``S`` is a constant to the derivatives. ``log S`` is taken from the logits, as
    ``q max(0, x_j - x_t)``: ``sigma_t`` is not held away from 0. (MMDetection divides by no less than 0.01, so that it
    pushes less where ``sigma_t`` is smaller; elsewhere both are the same. Its objectness is not part of this loss.)

    Args:
      logits: floating point, classes along ``axis``. float16 and bfloat16 are computed in float32.
      labels: integers in [0, C), of the shape of logits without ``axis``.
      state: from ``seesaw_init``, or from the call before. It is not changed.
      p: the exponent of the counts, a scalar >= 0; may be traced and differentiated.
      q: the exponent of the scores, a scalar >= 0; may be traced and differentiated.
      axis_name: the mapped axis (or axes) to sum the labels of this call over, under ``jax.shard_map`` or ``jax.vmap``.
      ignore_index, axis: as in ``softmax_focal_loss``. Ignored labels are not counted.
      where, weights, reduction, normalizer: as in ``softmax_focal_loss``. Dropped labels are not counted; ``weights``
        do not enter the counts.

    Returns:
      The loss in float32 (float64 for float64 logits): of the logits' shape without ``axis`` for "none", else a scalar;
      and the state for the next call, of the dtype of ``state``. Labels out of range, which make their row NaN, are not
      counted.

    Raises:
      ValueError: as ``softmax_focal_loss``, and for float labels, a state that is not one count >= 0 a class, or p or
        q < 0.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> logits, labels = jnp.array([[2.0, 0.5, -1.0], [0.1, 0.2, 0.3]]), jnp.array([0, 1])
    >>> loss, state = seesaw_loss(logits, labels, seesaw_init(3))
    >>> with jnp.printoptions(precision=4, suppress=True):
    ...     print(loss, state.counts)
    [0.2413 1.1801] [1. 1. 0.]

    In a training step the state goes in and comes out beside the gradient:

    >>> def loss_of(logits, state):
    ...     return seesaw_loss(logits, labels, state, reduction="mean")
    >>> (loss, state), gradient = jax.value_and_grad(loss_of, has_aux=True)(logits, state)
    >>> state.counts.tolist()
    [2.0, 2.0, 0.0]

    References:
      Wang, Zhang, Zang, Cao, Pang, Gong, Chen, Liu, Loy, Lin, "Seesaw Loss for Long-Tailed Instance Segmentation",
      2021, https://arxiv.org/abs/2008.10032
    """
    logits = check_logits(logits)
    last, labels, reduced = class_rows(
        logits,
        labels,
        axis=axis,
        ignore_index=ignore_index,
        where=where,
        weights=weights,
        reduction=reduction,
        normalizer=normalizer,
        soft=False,
    )
    num_classes = last.shape[-1]
    (seen,) = check_state(state, SeesawState, num_classes)
    p, q = check_scalar("p", p, logits, NON_NEGATIVE), check_scalar("q", q, logits, NON_NEGATIVE)

    seen = seen + over_devices(count(labels, num_classes, reduced.mask).astype(seen.dtype), axis_name)
    log_counts = jnp.log(jnp.maximum(seen.astype(logits.dtype), 1))
    return reduced(_seesaw(last, reduced.mask, labels, log_counts, p, q)), SeesawState(seen)


@one_residual
def _ldam(
    logits: Array, labels: Array, rarity: Array, max_margin: Array, scale: Array, class_weights: Array | None
) -> Array:
    index = class_index(labels)
    z = label_margin(scale * logits, labels) - scale * max_margin * rarity[index]
    loss = focal_curve(z, CROSS_ENTROPY)
    return loss if class_weights is None else weigh(class_weights[index], loss)


def _rarity(counts: Float[Array, "c"]) -> Float[Array, "c"]:
    """``(n_min / n)**(1/4)``, and 1 for a class that does not occur."""
    occurs = counts > 0
    fewest = jnp.min(jnp.where(occurs, counts, jnp.inf))
    return jnp.where(occurs, jnp.sqrt(jnp.sqrt(fewest / jnp.where(occurs, counts, 1))), 1)


@one_residual
def _seesaw(logits: Array, labels: Array, log_counts: Array, p: Array, q: Array) -> Array:
    """Cross-entropy of ``x_j + log S_tj``; ``S_tt`` is 1."""
    index = class_index(labels)[..., None]  # (*n 1)
    of_class = log_counts.reshape((1,) * (logits.ndim - 1) + (-1,))
    rarer = jnp.minimum(of_class - log_counts[index], 0)
    x_t = jnp.take_along_axis(logits, index, axis=-1)
    finite = jnp.isfinite(x_t)  # a masked label costs infinity as it is
    stronger = jnp.where(finite, jnp.maximum(logits - jnp.where(finite, x_t, 0), 0), 0)
    z = label_margin(logits + p * rarer + q * jax.lax.stop_gradient(stronger), labels)
    return focal_curve(z, CROSS_ENTROPY)


def _check_counts(counts: ArrayLike, logits: Float[Array, "*n c"]) -> Float[Array, "c"]:
    """One number >= 0 a class, as a constant."""
    n = check_counts(counts, logits.dtype)
    if n.shape != (logits.shape[-1],):
        raise ValueError(f"counts must have one number a class, shape ({logits.shape[-1]},), got shape {n.shape}")
    return jax.lax.stop_gradient(n)
