"""Losses of yes-or-no labels that are balanced by how large the gradients have been."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Float, Int

from ._checks import (
    BELOW_ONE,
    NON_NEGATIVE,
    POSITIVE,
    check_alpha,
    check_axis,
    check_binary_labels,
    check_logits,
    check_option,
    check_scalar,
)
from ._margin import CROSS_ENTROPY, focal_curve, odds, sigmoid_margin
from ._reduce import Reduction, keep
from ._residual import one_residual
from ._statistics import AxisName, check_state, count, over_devices, zeros


class EqualizedFocalState(NamedTuple):
    """What ``equalized_focal_loss`` has seen.

    Attributes:
      positive_gradients: (C,), the sum of ``|dL/dx|`` over the positives of each class.
      negative_gradients: (C,), the same over its negatives.
    """

    positive_gradients: Float[Array, "c"]
    negative_gradients: Float[Array, "c"]


class GHMState(NamedTuple):
    """What ``ghm_loss`` has seen.

    Attributes:
      counts: (bins,), the running number of elements in each bin of gradient size.
    """

    counts: Float[Array, "bins"]


def equalized_focal_init(num_classes: int) -> EqualizedFocalState:
    """The state of ``equalized_focal_loss`` before the first step: no gradient seen.

    Args:
      num_classes: C, the number of classes.

    Returns:
      Sums (C,) of zero, in float32: a step that adds less than 1e-7 of what is there no longer moves them.

    Raises:
      ValueError: for anything but a positive integer.

    >>> equalized_focal_init(2).positive_gradients.tolist()
    [0.0, 0.0]
    """
    return EqualizedFocalState(zeros("num_classes", num_classes), zeros("num_classes", num_classes))


def equalized_focal_loss(
    logits: Float[ArrayLike, "*n"],
    labels: ArrayLike,
    state: EqualizedFocalState,
    *,
    gamma: ArrayLike = 2.0,
    scale: ArrayLike = 8.0,
    alpha: ArrayLike | None = None,
    axis_name: AxisName | None = None,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    reduction: str = "none",
    normalizer: ArrayLike | None = None,
) -> tuple[Float[Array, "..."], EqualizedFocalState]:
    r"""Equalized focal loss: a larger focusing exponent for the classes whose negatives outweigh their positives.

    .. math::
        g_j = \min\left(1, \frac{P_j}{N_j}\right) \qquad \gamma_j = \gamma + s (1 - g_j) \qquad
        EFL = -\alpha_t \frac{\gamma_j}{\gamma} (1 - p_t)^{\gamma_j} \log p_t

        \frac{\partial EFL}{\partial x} = \pm\alpha_t \frac{\gamma_j}{\gamma} (1 - p_t)^{\gamma_j}
        (\gamma_j p_t \log p_t + p_t - 1)

    with ``+`` for ``y = 1`` and ``-`` for ``y = 0``, ``s = scale``, and ``P_j`` and ``N_j`` the sums of
    ``|dEFL/dx|`` over the positives and negatives of class ``j`` in the calls before this one. ``g`` is 1 where no
    negative was seen, and a constant to the derivatives.

    Args:
      logits: floating point, (..., C). float16 and bfloat16 are computed in float32.
      labels: of the same shape; bool or integer in {0, 1}.
      state: from ``equalized_focal_init``, or from the call before. It is not changed. (``seesaw_loss`` shows a step.)
      gamma: the focusing exponent of a balanced class, > 0; broadcasts against ``logits``, may be traced and
        differentiated.
      scale: how much is added for a class of negatives alone, >= 0; broadcasts against ``logits``, may be traced and
        differentiated.
      alpha: the weight of the positives, in [0, 1]; 1 - alpha is that of the negatives. None: no weighting.
      axis_name: the mapped axis (or axes) to sum the gradients of this call over, under ``jax.shard_map`` or
        ``jax.vmap``.
      where, weights, reduction, normalizer: as in ``sigmoid_focal_loss``. Dropped elements are not summed;
        ``weights`` do not enter the sums, ``alpha`` does.

    Returns:
      The loss in float32 (float64 for float64 logits): of the logits' shape for "none", else a scalar; and the state
      for the next call, of the dtype of ``state``. Labels out of range, which make their element NaN, and NaN
      logits are not summed.

    Raises:
      ValueError: as ``sigmoid_focal_loss``, and for float labels, a state that is not two numbers >= 0 a class,
        gamma <= 0 or a scale < 0.

    >>> import jax.numpy as jnp
    >>> logits, labels = jnp.array([[2.0, -1.0], [0.5, -3.0]]), jnp.array([[1, 0], [1, 0]])
    >>> loss, state = equalized_focal_loss(logits, labels, equalized_focal_init(2))
    >>> loss, state = equalized_focal_loss(logits, labels, state)
    >>> with jnp.printoptions(precision=4, suppress=True):
    ...     print(loss)
    [[0.0018 0.    ]
     [0.0676 0.    ]]

    References:
      Li, Yao, Tan, Gong, Lu, Luo, "Equalized Focal Loss for Dense Long-Tailed Object Detection", 2022,
      https://arxiv.org/abs/2201.02593
    """
    logits = check_logits(logits)
    num_classes = logits.shape[check_axis(-1, logits.shape)]
    reduced = Reduction(logits.shape, where, weights, reduction, normalizer)
    labels = keep(check_binary_labels(labels, logits, where, soft=False), reduced.mask)
    positive, negative = check_state(state, EqualizedFocalState, num_classes)
    gamma, alpha = check_option("gamma", gamma, logits, POSITIVE), check_alpha(alpha, logits)
    scale = check_option("scale", scale, logits, NON_NEGATIVE)

    imbalance = (1 - _ratio(positive, negative)).astype(logits.dtype).reshape((1,) * (logits.ndim - 1) + (-1,))

    def loss_of(x: Array) -> Array:
        return _equalized(x, reduced.mask, labels, gamma, gamma + scale * imbalance, alpha)

    size = jnp.abs(jax.grad(lambda x: jnp.sum(loss_of(x)))(jax.lax.stop_gradient(logits)))
    size = jax.lax.stop_gradient(size)  # of the hyperparameters too

    def summed(before: Array, label: int) -> Array:
        of_label = jnp.where((labels == label) & ~jnp.isnan(size), size, 0)
        total = jnp.sum(of_label, axis=tuple(range(logits.ndim - 1)), dtype=before.dtype)
        return before + over_devices(total, axis_name)

    return reduced(loss_of(logits)), EqualizedFocalState(summed(positive, 1), summed(negative, 0))


def ghm_init(bins: int = 30) -> GHMState:
    """The state of ``ghm_loss`` before the first step: no element seen.

    Args:
      bins: into how many parts the gradient sizes from 0 to 1 are divided.

    Returns:
      Counts (bins,) of zero, in float32.

    Raises:
      ValueError: for anything but a positive integer.

    >>> ghm_init(3).counts.tolist()
    [0.0, 0.0, 0.0]
    """
    return GHMState(zeros("bins", bins))


def ghm_loss(
    logits: Float[ArrayLike, "*n"],
    labels: ArrayLike,
    state: GHMState,
    *,
    momentum: ArrayLike = 0.75,
    axis_name: AxisName | None = None,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    reduction: str = "none",
    normalizer: ArrayLike | None = None,
) -> tuple[Float[Array, "..."], GHMState]:
    r"""Gradient harmonizing loss (GHM-C): cross-entropy in which every size of gradient has an equal say.

    .. math::
        g = |p - y| \qquad S_b \leftarrow m S_b + (1 - m) R_b \qquad \beta = \frac{N}{n S_{b(g)}} \qquad
        L = -\beta \log p_t \qquad \frac{\partial L}{\partial x} = \beta (p - y)

    with ``R_b`` the number of this call's elements whose gradient size ``g`` falls in bin ``b`` of ``bins`` equal parts
    of [0, 1], ``n`` the number of bins that are not empty, ``N`` the number of elements, and ``m = momentum``. Empty
    bins keep their ``S``. ``beta`` is a constant to the derivatives. The "mean" over the elements is MMDetection's
    ``GHMC``, and ``momentum=0`` the paper's loss without a moving average.

    The state starts at zero, as in the authors' program: the first time that a bin is not empty, its losses are
    ``1 / (1 - momentum)`` times as large as they settle to be.

    Args:
      logits: floating point, any shape. float16 and bfloat16 are computed in float32.
      labels: of the same shape; bool or integer in {0, 1}.
      state: from ``ghm_init``, whose length is the number of bins, or from the call before. It is not changed.
      momentum: how much of ``S`` is kept, a scalar in [0, 1); may be traced.
      axis_name: the mapped axis (or axes) to sum ``R`` and ``N`` over, under ``jax.shard_map`` or ``jax.vmap``.
      where, weights, reduction, normalizer: as in ``sigmoid_focal_loss``. Dropped elements are not counted; ``weights``
        do not enter the counts.

    Returns:
      The loss in float32 (float64 for float64 logits): of the logits' shape for "none", else a scalar; and the state
      for the next call, of the dtype of ``state``. An element whose logit or loss is NaN is in no bin.

    Raises:
      ValueError: as ``sigmoid_focal_loss``, and for float labels, a state that is not a vector of numbers >= 0, or a
        momentum outside [0, 1).

    >>> import jax.numpy as jnp
    >>> logits, labels = jnp.array([-3.0, -3.1, -3.2, 1.0]), jnp.array([0, 0, 0, 0])
    >>> loss, state = ghm_loss(logits, labels, ghm_init(bins=4), momentum=0.5)
    >>> with jnp.printoptions(precision=4, suppress=True):
    ...     print(loss, state.counts)
    [0.0648 0.0588 0.0533 5.253 ] [1.5 0.  0.5 0. ]

    References:
      Li, Liu, Wang, "Gradient Harmonized Single-stage Detector", 2019, https://arxiv.org/abs/1811.05181
    """
    logits = check_logits(logits)
    reduced = Reduction(logits.shape, where, weights, reduction, normalizer)
    labels = keep(check_binary_labels(labels, logits, where, soft=False), reduced.mask)
    (counts,) = check_state(state, GHMState)
    momentum = jax.lax.stop_gradient(check_scalar("momentum", momentum, counts, BELOW_ONE))

    bins = _bins(_gradient_size(logits, labels, reduced), counts.size)
    here = over_devices(count(bins, counts.size, reduced.mask).astype(counts.dtype), axis_name)
    elements = logits.size if reduced.mask is None else jnp.sum(reduced.mask)
    elements = over_devices(jnp.asarray(elements, counts.dtype), axis_name)

    occupied = here > 0
    counts = jnp.where(occupied, momentum * counts + (1 - momentum) * here, counts)
    share = jnp.sum(occupied, dtype=counts.dtype) * counts
    weight_of_bin = jnp.where(occupied, elements / jnp.where(occupied, share, 1), 0).astype(logits.dtype)
    weight = weight_of_bin.at[bins].get(mode="fill", fill_value=0)
    return reduced(_weighted_cross_entropy(logits, reduced.mask, labels, weight)), GHMState(counts)


@one_residual
def _equalized(logits: Array, labels: Array, gamma: Array, gamma_j: Array, alpha: Array | None) -> Array:
    loss = gamma_j / gamma * focal_curve(sigmoid_margin(logits, labels), gamma_j)
    return loss if alpha is None else jnp.where(labels == 1, alpha, 1 - alpha) * loss


@one_residual
def _weighted_cross_entropy(logits: Array, labels: Array, weight: Array) -> Array:
    return weight * focal_curve(sigmoid_margin(logits, labels), CROSS_ENTROPY)


def _gradient_size(logits: Array, labels: Array, reduced: Reduction) -> Array:
    """``|p - y|``, which is ``1 - p_t``; a constant."""
    return odds(sigmoid_margin(jax.lax.stop_gradient(keep(logits, reduced.mask)), labels))[1]


def _ratio(positive: Float[Array, "c"], negative: Float[Array, "c"]) -> Float[Array, "c"]:
    """``min(1, positive / negative)``, and 1 where there is no negative."""
    some = negative > 0
    return jnp.where(some, jnp.minimum(positive, negative) / jnp.where(some, negative, 1), 1)


def _bins(size: Float[Array, "*n"], number: int) -> Int[Array, "*n"]:
    """The bin of each gradient size in [0, 1]; ``number``, which is none, for NaN."""
    bins = jnp.minimum(jnp.floor(size * number), number - 1)
    return jnp.where(jnp.isnan(size), number, bins).astype(jnp.int32)
