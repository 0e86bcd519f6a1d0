"""Losses of a distribution over bins, from which a detector reads a continuous value."""

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Float

from ._checks import Accepted, as_array, check_axis, check_logits, check_values, is_hard
from ._margin import CROSS_ENTROPY, focal_curve, softmax_margin
from ._reduce import Reduction, keep, weigh
from ._residual import one_residual


def distribution_focal_loss(
    logits: Float[ArrayLike, "*n"],
    labels: ArrayLike,
    *,
    axis: int = -1,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    reduction: str = "none",
    normalizer: ArrayLike | None = None,
) -> Float[Array, "..."]:
    r"""Distribution focal loss: cross-entropy with the two bins on either side of a continuous target.

    With ``p = softmax(x)`` over the bins at 0, 1, ..., n - 1 and ``l`` the bin at or below ``y``:

    .. math::
        DFL = -(l + 1 - y) \log p_l - (y - l) \log p_{l+1} \qquad
        \frac{\partial DFL}{\partial x_j} = p_j - (l + 1 - y) [j = l] - (y - l) [j = l + 1]

    It is least where the distribution has mean ``y`` on these two bins. A target on a bin is ``softmax_focal_loss`` of
    that class with ``gamma=0``, the last bin included.

    Args:
      logits: floating point, the n bins along ``axis``. float16 and bfloat16 are computed in float32.
      labels: the targets in units of bins, float (or integer) in [0, n - 1], of the shape of logits without ``axis``.
        May be differentiated: the loss is piecewise linear in them.
      axis: the axis of the bins.
      where, weights, reduction, normalizer: as in ``softmax_focal_loss``.

    Returns:
      The loss in float32 (float64 for float64 logits): of the logits' shape without ``axis`` for "none", else a scalar.

    Raises:
      ValueError: as ``softmax_focal_loss``, and for targets outside [0, n - 1].

    >>> import jax.numpy as jnp
    >>> logits, labels = jnp.array([[2.0, 0.5, -1.0], [0.1, 0.2, 0.3]]), jnp.array([0.25, 2.0])
    >>> with jnp.printoptions(precision=4, suppress=True):
    ...     print(distribution_focal_loss(logits, labels))
    [0.6163 1.0019]

    References:
      Li, Wang, Wu, Chen, Hu, Li, Tang, Yang, "Generalized Focal Loss: Learning Qualified and Distributed Bounding Boxes
      for Dense Object Detection", 2020, https://arxiv.org/abs/2006.04388
    """
    logits = check_logits(logits)
    axis = check_axis(axis, logits.shape)
    last = jnp.moveaxis(logits, axis, -1)
    reduced = Reduction(last.shape[:-1], where, weights, reduction, normalizer)
    targets = _check_targets(labels, logits, axis, where)
    return reduced(_distribution(last, reduced.mask, keep(targets, reduced.mask)))


def _check_targets(labels: ArrayLike, logits: Array, axis: int, where: ArrayLike | None) -> Array:
    """Targets in [0, n - 1], in the logits' dtype."""
    array = as_array(labels)
    if array.dtype == jnp.bool_:
        raise ValueError("labels must be integer or floating point, got dtype bool")
    is_hard(array)  # an error for any other dtype
    rows, end = logits.shape[:axis] + logits.shape[axis + 1 :], logits.shape[axis] - 1
    if array.shape != rows:
        raise ValueError(
            f"labels must have the shape of logits {logits.shape} without the axis of bins {axis}, {rows}, "
            f"got labels of shape {array.shape}"
        )
    check_values("labels", labels, Accepted(lambda v: (v >= 0) & (v <= end), f"in [0, {end}]"), where)
    return array.astype(logits.dtype)


@one_residual
def _distribution(logits: Array, targets: Array) -> Array:
    """The last two bins share the target on the last one: its derivative by the target is that from below."""
    end = logits.shape[-1] - 1
    ok = (targets >= 0) & (targets <= end)
    left = jnp.clip(jnp.where(ok, targets, 0).astype(jnp.int32), 0, max(end - 1, 0))
    right = jnp.minimum(left + 1, end)
    share = jnp.where(ok, targets, jnp.nan) - left.astype(targets.dtype)
    at_left, at_right = (focal_curve(softmax_margin(logits, bin), CROSS_ENTROPY) for bin in (left, right))
    return weigh(1 - share, at_left) + weigh(share, at_right)
