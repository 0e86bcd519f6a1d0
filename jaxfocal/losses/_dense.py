"""Losses of dense detectors: soft targets at every location, most of them background."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Float

from ._checks import NON_NEGATIVE, check_binary_labels, check_exponent, check_logits, check_option, is_hard
from ._margin import CROSS_ENTROPY, focal_curve, odds, probability_or_nan, sigmoid_margin
from ._power import abs_power
from ._reduce import Reduction, weigh
from ._residual import one_residual
from ._rules import Number, along


def quality_focal_loss(
    logits: Float[ArrayLike, "*n"],
    labels: ArrayLike,
    *,
    beta: ArrayLike = 2.0,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    reduction: str = "none",
    normalizer: ArrayLike | None = None,
) -> Float[Array, "..."]:
    r"""Quality focal loss: cross-entropy with a soft target, turned down where the prediction is close to it.

    With ``p = sigmoid(x)`` and ``CE = -y log p - (1 - y) log(1 - p)``:

    .. math::
        QFL = |y - p|^\beta \, CE \qquad
        \frac{\partial QFL}{\partial x} = |y - p|^\beta (p - y)
        - \beta \, \mathrm{sign}(y - p) |y - p|^{\beta - 1} p (1 - p) \, CE

    At ``y`` in {0, 1} it is ``sigmoid_focal_loss`` with ``gamma=beta``; in between it differs, being least, 0, where
    ``p = y``. ``beta=0`` is cross-entropy. Where ``p = y`` and ``beta`` is small, derivatives that do not exist are 0.

    Args:
      logits: floating point, any shape. float16 and bfloat16 are computed in float32.
      labels: of the same shape; the quality (IoU of the predicted box, 0 for background) as float in [0, 1], or bool or
        integer in {0, 1}. May be differentiated.
      beta: the focusing exponent, >= 0; broadcasts against ``logits``, may be traced and differentiated.
      where, weights, reduction, normalizer: as in ``sigmoid_focal_loss``.

    Returns:
      The loss in float32 (float64 for float64 logits): of the logits' shape for "none", else a scalar.

    Raises:
      ValueError: as ``sigmoid_focal_loss``, and for beta < 0.

    >>> import jax.numpy as jnp
    >>> logits, labels = jnp.array([2.0, -1.0, 0.5]), jnp.array([0.9, 0.0, 0.1])
    >>> with jnp.printoptions(precision=4, suppress=True):
    ...     print(quality_focal_loss(logits, labels, beta=2.0))
    [0.0001 0.0227 0.2522]

    References:
      Li, Wang, Wu, Chen, Hu, Li, Tang, Yang, "Generalized Focal Loss: Learning Qualified and Distributed Bounding Boxes
      for Dense Object Detection", 2020, https://arxiv.org/abs/2006.04388
    """
    logits = check_logits(logits)
    reduced = Reduction(logits.shape, where, weights, reduction, normalizer)
    labels = check_binary_labels(labels, logits, where)
    beta = check_exponent("beta", beta, logits)
    loss = _hard_quality if is_hard(labels) else _soft_quality
    return reduced.elementwise(loss, logits, labels, beta)


def varifocal_loss(
    logits: Float[ArrayLike, "*n"],
    labels: ArrayLike,
    *,
    gamma: ArrayLike = 2.0,
    alpha: ArrayLike = 0.75,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    reduction: str = "none",
    normalizer: ArrayLike | None = None,
) -> Float[Array, "..."]:
    r"""Varifocal loss: negatives as in the focal loss, positives with all their loss, weighed by their quality.

    With ``p = sigmoid(x)`` and ``CE = -y log p - (1 - y) log(1 - p)``:

    .. math::
        VFL = y \, CE \text{ if } y > 0, \; -\alpha p^\gamma \log(1 - p) \text{ if } y = 0

        \frac{\partial VFL}{\partial x} = y (p - y) \text{ if } y > 0, \;
        \alpha p^\gamma (p - \gamma (1 - p) \log(1 - p)) \text{ if } y = 0

    Args:
      logits: floating point, any shape. float16 and bfloat16 are computed in float32.
      labels: of the same shape; the quality (IoU of the predicted box, 0 for background) as float in [0, 1], or bool or
        integer in {0, 1}. May be differentiated where > 0.
      gamma: the focusing exponent of the negatives, >= 0; broadcasts against ``logits``, may be traced and
        differentiated.
      alpha: a factor on the negatives, >= 0 and finite. Not a balance: the positives keep the factor 1, whatever it is.
        Broadcasts against ``logits``, may be traced and differentiated.
      where, weights, reduction, normalizer: as in ``sigmoid_focal_loss``.

    Returns:
      The loss in float32 (float64 for float64 logits): of the logits' shape for "none", else a scalar.

    Raises:
      ValueError: as ``sigmoid_focal_loss``, and for alpha < 0.

    >>> import jax.numpy as jnp
    >>> logits, labels = jnp.array([2.0, -1.0, 0.5]), jnp.array([0.9, 0.0, 0.1])
    >>> with jnp.printoptions(precision=4, suppress=True):
    ...     print(varifocal_loss(logits, labels))
    [0.2942 0.017  0.0924]

    References:
      Zhang, Wang, Dayoub, Sünderhauf, "VarifocalNet: An IoU-aware Dense Object Detector", 2021,
      https://arxiv.org/abs/2008.13367
    """
    logits = check_logits(logits)
    reduced = Reduction(logits.shape, where, weights, reduction, normalizer)
    labels = check_binary_labels(labels, logits, where)
    gamma = check_exponent("gamma", gamma, logits)
    alpha = check_option("alpha", alpha, logits, NON_NEGATIVE)
    return reduced.elementwise(_varifocal, logits, labels, gamma, alpha)


def gaussian_focal_loss(
    logits: Float[ArrayLike, "*n"],
    labels: ArrayLike,
    *,
    alpha: ArrayLike = 2.0,
    beta: ArrayLike = 4.0,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    reduction: str = "none",
    normalizer: ArrayLike | None = None,
) -> Float[Array, "..."]:
    r"""Gaussian focal loss of heat maps: positives at the peaks, negatives turned down around them.

    With ``p = sigmoid(x)``:

    .. math::
        GFL = -(1 - p)^\alpha \log p \text{ if } y = 1, \; -(1 - y)^\beta p^\alpha \log(1 - p) \text{ if } y < 1

        \frac{\partial GFL}{\partial x} = (1 - p)^\alpha (\alpha p \log p + p - 1) \text{ if } y = 1, \;
        (1 - y)^\beta p^\alpha (p - \alpha (1 - p) \log(1 - p)) \text{ if } y < 1

    Args:
      logits: floating point, any shape. float16 and bfloat16 are computed in float32.
      labels: of the same shape; the heat map as float in [0, 1], exactly 1 at the peaks and nowhere else, which wants
        float32 (bfloat16 rounds 0.999 to 1); or bool or integer in {0, 1}.
        May be differentiated where < 1.
      alpha: the focusing exponent, >= 0; broadcasts against ``logits``, may be traced and differentiated.
      beta: how steeply negatives are turned down near a peak, >= 0; broadcasts against ``logits``, may be traced and
        differentiated.
      where, weights, reduction, normalizer: as in ``sigmoid_focal_loss``.

    Returns:
      The loss in float32 (float64 for float64 logits): of the logits' shape for "none", else a scalar.

    Raises:
      ValueError: as ``sigmoid_focal_loss``, and for alpha or beta < 0.

    The papers divide the sum by the number of peaks; a map without any divides by 1:

    >>> import jax.numpy as jnp
    >>> logits, labels = jnp.array([2.0, -1.0, 0.5]), jnp.array([1.0, 0.8, 0.0])
    >>> loss = gaussian_focal_loss(logits, labels, reduction="sum", normalizer=jnp.sum(labels == 1))
    >>> print(f"{loss:.4f}")
    0.3793

    References:
      Law, Deng, "CornerNet: Detecting Objects as Paired Keypoints", 2018, https://arxiv.org/abs/1808.01244
      Zhou, Wang, Krähenbühl, "Objects as Points", 2019, https://arxiv.org/abs/1904.07850
    """
    logits = check_logits(logits)
    reduced = Reduction(logits.shape, where, weights, reduction, normalizer)
    labels = check_binary_labels(labels, logits, where)
    alpha = check_exponent("alpha", alpha, logits)
    beta = check_exponent("beta", beta, logits)
    return reduced.elementwise(_gaussian, logits, labels, alpha, beta)


@one_residual
def _hard_quality(logits: Array, labels: Array, beta: Number) -> Array:
    return focal_curve(sigmoid_margin(logits, labels), beta)


@one_residual
def _soft_quality(logits: Array, labels: Array, beta: Number) -> Array:
    y = probability_or_nan(labels, logits)
    _, _, s, r, _ = odds(logits)
    ce = y * s + (1 - y) * r
    # added, so that the slope at an infinite logit is that of a large one
    return _error_power(0, 0, logits, y, beta) * ce + jnp.where(jnp.isinf(logits) & (ce > 0), jnp.inf, 0)


@one_residual
def _varifocal(logits: Array, labels: Array, gamma: Number, alpha: Array) -> Array:
    y = probability_or_nan(labels, logits)
    ce = weigh(y, focal_curve(logits, CROSS_ENTROPY)) + weigh(1 - y, focal_curve(-logits, CROSS_ENTROPY))
    return jnp.where(y == 0, weigh(alpha, focal_curve(-logits, gamma)), y * ce)


@one_residual
def _gaussian(logits: Array, labels: Array, alpha: Number, beta: Number) -> Array:
    y = probability_or_nan(labels, logits)
    negative = weigh(abs_power(1 - y, beta), focal_curve(-logits, alpha))
    return jnp.where(y == 1, focal_curve(logits, alpha), negative)


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _error_power(j: int, k: int, x: Array, y: Array, b: Number) -> Array:
    """``sign(e)**j |e|**(b - j) (p q)**k`` of the error ``e = y - p``, for ``j >= k``; what does not exist at 0 is 0.

    For a background label ``e`` is ``-p``, and vanishes with its own slope ``p q``. ``|e|**(b - j)`` alone may then
    overflow where the product is small, and so each factor ``p q`` is multiplied with its part of the power first.
    """
    e, p, q = _error(x, y)
    some = jnp.where(e == 0, 1, e)
    power = abs_power(some, b - j) if k == 0 else (abs_power(some, b / k - 1) * (p * q)) ** k / jnp.abs(some) ** (j - k)
    at_zero = jnp.where(b == j, (p * q) ** k, 0) if j % 2 == 0 else jnp.zeros_like(e)
    return jnp.where(e == 0, at_zero, jnp.sign(e) ** j * power)


@partial(_error_power.defjvp, symbolic_zeros=True)
def _error_power_jvp(j, k, primals, tangents):
    x, y, b = primals
    e, p, q = _error(x, y)
    value = _error_power(j, k, *primals)
    slopes = (
        lambda: k * (q - p) * value - (b - j) * _error_power(j + 1, k + 1, *primals),
        lambda: (b - j) * _error_power(j + 1, k, *primals),
        lambda: value * jnp.log(jnp.where(e == 0, 1, jnp.abs(e))),
    )
    return value, along(slopes, tangents)


def _error(x: Array, y: Array) -> tuple[Array, Array, Array]:
    """``y - p``, ``p`` and ``q``.

    One subtraction, from the smaller probability: exact for ``y`` 0 and 1, and no compiler can round it in two ways.
    Subnormal errors are 0, so that the others have a reciprocal.
    """
    p, q, *_ = odds(x)
    e = jnp.where(x > 0, q - (1 - y), y - p)
    return jnp.where(jnp.abs(e) < jnp.finfo(e.dtype).smallest_normal, 0, e), p, q
