"""Losses of mutually exclusive classes, one logit a class."""

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Float

from ._checks import (
    check_axis,
    check_class_labels,
    check_class_weights,
    check_gamma,
    check_label_smoothing,
    check_logits,
    is_hard,
)
from ._margin import focal_curve, softmax_margin, softmax_margins
from ._reduce import Reduction, keep
from ._residual import one_residual


def softmax_focal_loss(
    logits: Float[ArrayLike, "*n"],
    labels: ArrayLike,
    *,
    gamma: ArrayLike = 2.0,
    class_weights: ArrayLike | None = None,
    label_smoothing: ArrayLike = 0.0,
    ignore_index: int | None = None,
    axis: int = -1,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    reduction: str = "none",
    normalizer: ArrayLike | None = None,
) -> Float[Array, "..."]:
    r"""Focal loss of mutually exclusive classes: softmax cross-entropy, turned down where it is already small.

    For class ``t``, with ``p = softmax(x)`` and the margin ``z = x_t - log sum_{j != t} exp(x_j)``:

    .. math::
        p_t = \sigma(z) \qquad FL = -w_t (1 - p_t)^\gamma \log p_t

        \frac{\partial FL}{\partial x_j} = w_t (1 - p_t)^\gamma
        \left(1 - \frac{\gamma p_t \log p_t}{1 - p_t}\right) (p_j - [j = t])

    For a label distribution ``y`` it is the expectation ``sum_c y_c FL_c``, ``FL_c`` being the loss for class ``c``.
    Label smoothing is that with ``(1 - label_smoothing) y + label_smoothing / C``. With ``gamma=0`` all of it, class
    weights, smoothing, ignored labels and the weighted mean, equals ``torch.nn.functional.cross_entropy``.

    ``1 - p_t`` is never formed by subtraction: value and gradient keep their digits for logits of any size. A logit of
    -inf is a masked class, which takes no part in the others; a masked class as the label, or label mass on one, is an
    infinite loss.

    Args:
      logits: floating point, classes along ``axis``. float16 and bfloat16 are computed in float32.
      labels: integers in [0, C), of the shape of logits without ``axis``, or float distributions of logits' shape.
      gamma: the focusing exponent, >= 0; broadcasts against ``logits``: per class (C,), per example (N, 1). May be
        traced and differentiated.
      class_weights: (C,), >= 0; multiplies the loss of each class. It does not enter ``p_t``.
      label_smoothing: in [0, 1).
      ignore_index: integer labels of this value are dropped; any int32, -100 for PyTorch's default.
      axis: the class axis.
      where: bool, broadcasts to the loss; elements where it is False are dropped, and their values not looked at.
      weights: multiplies the loss; broadcasts to it.
      reduction: "none" (the loss of each example), "sum", or "mean": ``sum(w * loss) / sum(w)`` over the examples kept,
        with ``w`` the weights times, for integer labels, the label's class weight; 0 where no example is kept.
      normalizer: with "sum", divides by ``max(normalizer, 1)``.

    Returns:
      The loss in float32 (float64 for float64 logits): of the logits' shape without ``axis`` for "none", else a scalar.

    Raises:
      ValueError: for shapes that do not match, labels that are not in range, or hyperparameters out of theirs. Labels
        that are traced, or held by an accelerator, give NaN in the loss and the gradient of their row instead;
        hyperparameters that are traced are not checked.

    >>> import jax.numpy as jnp
    >>> logits, labels = jnp.array([[2.0, 0.5, -1.0], [0.1, 0.2, 0.3]]), jnp.array([0, 1])
    >>> with jnp.printoptions(precision=4, suppress=True):
    ...     print(softmax_focal_loss(logits, labels, gamma=2.0))
    [0.0111 0.4914]

    References:
      Lin, Goyal, Girshick, He, Dollár, "Focal Loss for Dense Object Detection", 2017,
      https://arxiv.org/abs/1708.02002
    """
    logits = check_logits(logits)
    axis = check_axis(axis, logits.shape)
    rows = logits.shape[:axis] + logits.shape[axis + 1 :]
    reduced = Reduction(rows, where, weights, reduction, normalizer)
    labels = check_class_labels(labels, logits, axis, ignore_index, where)
    gamma = check_gamma(gamma, logits)
    class_weights = check_class_weights(class_weights, logits, axis)
    smoothing = check_label_smoothing(label_smoothing, logits)

    hard = is_hard(labels)
    logits = jnp.moveaxis(logits, axis, -1)
    gamma = gamma if gamma.ndim == 0 else jnp.moveaxis(gamma, axis, -1)
    labels = labels if hard else jnp.moveaxis(labels, axis, -1)
    if ignore_index is not None:
        reduced = reduced.drop(labels == ignore_index)
    labels = keep(labels, reduced.mask)

    if hard and smoothing is None:
        loss = _label_focal(logits, reduced.mask, labels, gamma, class_weights)
    else:
        loss = _expected_focal(logits, reduced.mask, labels, gamma, class_weights, smoothing)
    return reduced(loss, class_weights[_index(labels)] if hard and class_weights is not None else None)


@one_residual
def _label_focal(logits: Array, labels: Array, gamma: Array, class_weights: Array | None) -> Array:
    """``w_t FL(z_t)`` of the label ``t``."""
    index = _index(labels)
    if gamma.ndim:
        gamma = jnp.take_along_axis(jnp.broadcast_to(gamma, logits.shape), index[..., None], axis=-1)[..., 0]
    # as a factor, NaN marks the loss and, through the chain rule, the whole row of the gradient
    one_or_nan = jnp.where(_in_range(labels, logits), 1, jnp.nan).astype(logits.dtype)
    z = softmax_margin(logits, index) * one_or_nan
    loss = focal_curve(z, gamma)
    return loss if class_weights is None else _times(class_weights[index], loss, z)


@one_residual
def _expected_focal(
    logits: Array, labels: Array, gamma: Array, class_weights: Array | None, smoothing: Array | None
) -> Array:
    """``sum_c y_c w_c FL(z_c)`` of the label distribution ``y``; a masked class without mass counts 0."""
    y = _distribution(labels, logits)
    if smoothing is not None:
        y = (1 - smoothing) * y + smoothing / logits.shape[-1]
    w = y if class_weights is None else y * class_weights.reshape((1,) * (y.ndim - 1) + (-1,))
    z = softmax_margins(logits)
    return jnp.sum(_times(w, focal_curve(z, gamma), z), axis=-1)


def _times(w: Array, loss: Array, z: Array) -> Array:
    """``w * loss``, and 0 for no weight on a masked class."""
    return w * jnp.where((w == 0) & (z == -jnp.inf), 0, loss)


def _distribution(labels: Array, logits: Array) -> Array:
    if not is_hard(labels):
        return jnp.where((labels >= 0) & (labels <= 1), labels, jnp.nan)
    one_hot = jax.nn.one_hot(_index(labels), logits.shape[-1], dtype=logits.dtype)
    return jnp.where(_in_range(labels, logits)[..., None], one_hot, jnp.nan)


def _index(labels: Array) -> Array:
    """Labels as int32, which holds any class whatever integer dtype they came in."""
    return labels.astype(jnp.int32)


def _in_range(labels: Array, logits: Array) -> Array:
    return (labels >= 0) & (labels < logits.shape[-1])
