"""Losses of mutually exclusive classes, one logit a class."""

from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Float

from ._checks import (
    FINITE,
    NON_NEGATIVE,
    check_class_weights,
    check_label_smoothing,
    check_logits,
    check_option,
    is_hard,
)
from ._classes import class_index, class_rows
from ._residual import one_residual
from ._rows import focal_rows


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

    ``1 - p_t`` is never formed by subtraction: value and gradient keep their digits for logits of any size, as long as
    ``exp`` of a logit less the row's largest is a normal number, from 1.2e-38 in float32; below, it counts as 0. A
    logit of -inf is a masked class, which takes no part in the others; a masked class as the label, or label mass on
    one, is an infinite loss. A logit of inf, as one of NaN, makes its row NaN.

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
    return _softmax_loss(
        logits,
        labels,
        gamma,
        None,
        class_weights,
        label_smoothing,
        axis,
        ignore_index=ignore_index,
        where=where,
        weights=weights,
        reduction=reduction,
        normalizer=normalizer,
    )


def softmax_poly_focal_loss(
    logits: Float[ArrayLike, "*n"],
    labels: ArrayLike,
    *,
    gamma: ArrayLike = 2.0,
    epsilon: ArrayLike = 1.0,
    class_weights: ArrayLike | None = None,
    label_smoothing: ArrayLike = 0.0,
    ignore_index: int | None = None,
    axis: int = -1,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    reduction: str = "none",
    normalizer: ArrayLike | None = None,
) -> Float[Array, "..."]:
    r"""Poly-1 focal loss of mutually exclusive classes: the softmax focal loss with its leading term reweighed.

    .. math::
        PL = w_t \left(-(1 - p_t)^\gamma \log p_t + \epsilon (1 - p_t)^{\gamma + 1}\right)

        \frac{\partial PL}{\partial x_j} = w_t (1 - p_t)^\gamma \left(1 - \frac{\gamma p_t \log p_t}{1 - p_t}
        + \epsilon (\gamma + 1) p_t\right) (p_j - [j = t])

    ``gamma=0`` is Poly-1 cross-entropy, ``epsilon=0`` the focal loss. Class weights multiply both terms. A label
    distribution, or label smoothing, takes the expectation over the classes, as in ``softmax_focal_loss``.

    Args:
      logits: floating point, classes along ``axis``. float16 and bfloat16 are computed in float32.
      labels: integers in [0, C), of the shape of logits without ``axis``, or float distributions of logits' shape.
      gamma: the focusing exponent, >= 0; broadcasts against ``logits``, may be traced and differentiated.
      epsilon: the weight of the added term, finite; broadcasts against ``logits``, may be traced and differentiated.
      class_weights, label_smoothing, ignore_index, axis: as in ``softmax_focal_loss``.
      where, weights, reduction, normalizer: as in ``softmax_focal_loss``.

    Returns:
      The loss in float32 (float64 for float64 logits): of the logits' shape without ``axis`` for "none", else a scalar.

    Raises:
      ValueError: as ``softmax_focal_loss``, and for an epsilon that is not finite.

    >>> import jax.numpy as jnp
    >>> logits, labels = jnp.array([[2.0, 0.5, -1.0], [0.1, 0.2, 0.3]]), jnp.array([0, 1])
    >>> with jnp.printoptions(precision=4, suppress=True):
    ...     print(softmax_poly_focal_loss(logits, labels, gamma=2.0, epsilon=1.0))
    [0.0209 0.7892]

    References:
      Leng, Tan, Liu, Cubuk, Shi, Cheng, Anguelov, "PolyLoss: A Polynomial Expansion Perspective of Classification Loss
      Functions", 2022, https://arxiv.org/abs/2204.12511
    """
    return _softmax_loss(
        logits,
        labels,
        gamma,
        epsilon,
        class_weights,
        label_smoothing,
        axis,
        ignore_index=ignore_index,
        where=where,
        weights=weights,
        reduction=reduction,
        normalizer=normalizer,
    )


def _softmax_loss(
    logits: ArrayLike,
    labels: ArrayLike,
    gamma: ArrayLike,
    epsilon: ArrayLike | None,
    class_weights: ArrayLike | None,
    label_smoothing: ArrayLike,
    axis: int,
    **rows: Any,
) -> Array:
    logits = check_logits(logits)
    last, labels, reduced = class_rows(logits, labels, axis=axis, **rows)
    gamma = _classes_last(check_option("gamma", gamma, logits, NON_NEGATIVE), axis)
    if epsilon is not None:
        epsilon = _classes_last(check_option("epsilon", epsilon, logits, FINITE), axis)
    class_weights = check_class_weights(class_weights, logits, axis)
    smoothing = check_label_smoothing(label_smoothing, logits)

    hard = is_hard(labels)
    loss = _focal_rows(last, reduced.mask, labels, gamma, epsilon, class_weights, smoothing)
    return reduced(loss, class_weights[class_index(labels)] if hard and class_weights is not None else None)


def _classes_last(option: Array, axis: int) -> Array:
    return option if option.ndim == 0 else jnp.moveaxis(option, axis, -1)


_focal_rows = one_residual(focal_rows)
