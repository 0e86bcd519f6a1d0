"""Losses of independent yes-or-no labels, one logit a label."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Float

from ._checks import (
    FINITE,
    POSITIVE,
    check_alpha,
    check_binary_labels,
    check_exponent,
    check_logits,
    check_option,
    is_hard,
)
from ._logarithms import log1p_up
from ._margin import CROSS_ENTROPY, finite, focal_curve, odds, poly_curve, probability_or_nan, sigmoid_margin
from ._power import abs_power, inverse, ratio_power
from ._reduce import Reduction
from ._residual import one_residual
from ._rules import Number, along


def sigmoid_focal_loss(
    logits: Float[ArrayLike, "*n"],
    labels: ArrayLike,
    *,
    gamma: ArrayLike = 2.0,
    alpha: ArrayLike | None = None,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    reduction: str = "none",
    normalizer: ArrayLike | None = None,
) -> Float[Array, "..."]:
    r"""Focal loss of independent binary labels: cross-entropy, turned down where the prediction is already right.

    .. math::
        z = x \text{ if } y = 1, \; -x \text{ if } y = 0 \qquad p_t = \sigma(z) \qquad
        \alpha_t = \alpha \text{ if } y = 1, \; 1 - \alpha \text{ if } y = 0

        FL = -\alpha_t (1 - p_t)^\gamma \log p_t \qquad
        \frac{\partial FL}{\partial x} = \pm\alpha_t (1 - p_t)^\gamma (\gamma p_t \log p_t + p_t - 1)

    with ``+`` for ``y = 1`` and ``-`` for ``y = 0``. ``gamma=0`` is (balanced) cross-entropy. For labels between 0 and
    1, ``CE = -y log p - (1 - y) log(1 - p)`` is weighed by ``(y (1 - p) + (1 - y) p)**gamma`` and
    ``y alpha + (1 - y)(1 - alpha)``, which is the same at 0 and 1.

    No probability is clipped or subtracted from 1: value and gradient keep their digits for logits of any size.

    Args:
      logits: floating point, any shape. float16 and bfloat16 are computed in float32.
      labels: of the same shape; bool or integer in {0, 1}, or float in [0, 1].
      gamma: the focusing exponent, >= 0; broadcasts against ``logits``, may be traced and differentiated.
      alpha: the weight of the positives, in [0, 1]; 1 - alpha is that of the negatives. None: no weighting.
        Broadcasts against ``logits``, may be traced and differentiated.
      where: bool, broadcasts to ``logits``; elements where it is False are dropped, and their values not looked at.
      weights: multiplies the loss; broadcasts to ``logits``.
      reduction: "none" (the loss of each element), "sum", or "mean" (``sum(weights * loss) / sum(weights)`` over the
        elements kept, 0 where none is; ``alpha`` does not enter the denominator).
      normalizer: with "sum", divides by ``max(normalizer, 1)``: the number of positives, for a detector.

    Returns:
      The loss in float32 (float64 for float64 logits): of the logits' shape for "none", else a scalar.

    Raises:
      ValueError: for shapes that do not match, labels that are not in range, or hyperparameters out of theirs. Labels
        that are traced, or held by an accelerator, give NaN in the loss and gradient of their element instead;
        hyperparameters that are traced are not checked.

    >>> import jax.numpy as jnp
    >>> logits, labels = jnp.array([2.0, -1.0, 0.5]), jnp.array([1, 0, 0])
    >>> with jnp.printoptions(precision=4, suppress=True):
    ...     print(sigmoid_focal_loss(logits, labels, gamma=2.0, alpha=0.25))
    [0.0005 0.017  0.2831]

    References:
      Lin, Goyal, Girshick, He, Dollár, "Focal Loss for Dense Object Detection", 2017,
      https://arxiv.org/abs/1708.02002
    """
    logits = check_logits(logits)
    reduced = Reduction(logits.shape, where, weights, reduction, normalizer)
    labels = check_binary_labels(labels, logits, where)
    gamma, alpha = check_exponent("gamma", gamma, logits), check_alpha(alpha, logits)
    loss = _hard if is_hard(labels) else _soft
    return reduced.elementwise(loss, logits, labels, gamma, None, alpha)


def sigmoid_poly_focal_loss(
    logits: Float[ArrayLike, "*n"],
    labels: ArrayLike,
    *,
    gamma: ArrayLike = 2.0,
    epsilon: ArrayLike = 1.0,
    alpha: ArrayLike | None = None,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    reduction: str = "none",
    normalizer: ArrayLike | None = None,
) -> Float[Array, "..."]:
    r"""Poly-1 focal loss of independent binary labels: the focal loss with its leading term reweighed.

    .. math::
        PL = \alpha_t \left(-(1 - p_t)^\gamma \log p_t + \epsilon (1 - p_t)^{\gamma + 1}\right) \qquad
        \frac{\partial PL}{\partial x} = \pm\alpha_t (1 - p_t)^\gamma
        \left(\gamma p_t \log p_t + p_t - 1 - \epsilon (\gamma + 1) p_t (1 - p_t)\right)

    with ``+`` for ``y = 1`` and ``-`` for ``y = 0``. ``gamma=0`` is Poly-1 cross-entropy, ``epsilon=0`` the focal loss.
    ``alpha`` multiplies both terms. For labels between 0 and 1, ``1 - p_t`` is ``y (1 - p) + (1 - y) p``, and the first
    term that of ``sigmoid_focal_loss``.

    Args:
      logits: floating point, any shape. float16 and bfloat16 are computed in float32.
      labels: of the same shape; bool or integer in {0, 1}, or float in [0, 1].
      gamma: the focusing exponent, >= 0; broadcasts against ``logits``, may be traced and differentiated.
      epsilon: the weight of the added term, finite; broadcasts against ``logits``, may be traced and differentiated.
      alpha: the weight of the positives, in [0, 1]; 1 - alpha is that of the negatives. None: no weighting.
      where, weights, reduction, normalizer: as in ``sigmoid_focal_loss``.

    Returns:
      The loss in float32 (float64 for float64 logits): of the logits' shape for "none", else a scalar.

    Raises:
      ValueError: as ``sigmoid_focal_loss``, and for an epsilon that is not finite.

    >>> import jax.numpy as jnp
    >>> logits, labels = jnp.array([2.0, -1.0, 0.5]), jnp.array([1, 0, 0])
    >>> with jnp.printoptions(precision=4, suppress=True):
    ...     print(sigmoid_poly_focal_loss(logits, labels, gamma=2.0, epsilon=1.0, alpha=0.25))
    [0.0009 0.0316 0.4639]

    References:
      Leng, Tan, Liu, Cubuk, Shi, Cheng, Anguelov, "PolyLoss: A Polynomial Expansion Perspective of Classification Loss
      Functions", 2022, https://arxiv.org/abs/2204.12511
    """
    logits = check_logits(logits)
    reduced = Reduction(logits.shape, where, weights, reduction, normalizer)
    labels = check_binary_labels(labels, logits, where)
    gamma, alpha = check_exponent("gamma", gamma, logits), check_alpha(alpha, logits)
    epsilon = check_option("epsilon", epsilon, logits, FINITE)
    loss = _hard if is_hard(labels) else _soft
    return reduced.elementwise(loss, logits, labels, gamma, epsilon, alpha)


def sigmoid_focal_star_loss(
    logits: Float[ArrayLike, "*n"],
    labels: ArrayLike,
    *,
    gamma: ArrayLike = 2.0,
    beta: ArrayLike = 1.0,
    alpha: ArrayLike | None = None,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    reduction: str = "none",
    normalizer: ArrayLike | None = None,
) -> Float[Array, "..."]:
    r"""The variant FL* of the focal loss: cross-entropy of a margin that is steeper and shifted.

    .. math::
        FL^* = -\alpha_t \log\sigma(\gamma z + \beta) / \gamma \qquad
        \frac{\partial FL^*}{\partial x} = \mp\alpha_t \, \sigma(-\gamma z - \beta) \qquad
        z = x \text{ if } y = 1, \; -x \text{ if } y = 0

    with ``-`` for ``y = 1`` and ``+`` for ``y = 0``. With ``beta=0`` it is fvcore's ``sigmoid_focal_loss_star``.

    Args:
      logits: floating point, any shape. float16 and bfloat16 are computed in float32.
      labels: of the same shape; bool or integer in {0, 1}.
      gamma: the steepness, > 0; broadcasts against ``logits``, may be traced and differentiated.
      beta: the shift, finite; broadcasts against ``logits``, may be traced and differentiated.
      alpha: the weight of the positives, in [0, 1]; 1 - alpha is that of the negatives. None: no weighting.
      where, weights, reduction, normalizer: as in ``sigmoid_focal_loss``.

    Returns:
      The loss in float32 (float64 for float64 logits): of the logits' shape for "none", else a scalar.

    Raises:
      ValueError: as ``sigmoid_focal_loss``, and for float labels, gamma <= 0, or a beta that is not finite.

    >>> import jax.numpy as jnp
    >>> logits, labels = jnp.array([2.0, -1.0, 0.5]), jnp.array([1, 0, 0])
    >>> with jnp.printoptions(precision=4, suppress=True):
    ...     print(sigmoid_focal_star_loss(logits, labels, gamma=2.0, beta=1.0))
    [0.0034 0.0243 0.3466]

    References:
      Lin, Goyal, Girshick, He, Dollár, "Focal Loss for Dense Object Detection", 2017, appendix A,
      https://arxiv.org/abs/1708.02002
    """
    logits = check_logits(logits)
    reduced = Reduction(logits.shape, where, weights, reduction, normalizer)
    labels = check_binary_labels(labels, logits, where, soft=False)
    gamma, alpha = check_option("gamma", gamma, logits, POSITIVE), check_alpha(alpha, logits)
    beta = check_option("beta", beta, logits, FINITE)
    return reduced.elementwise(_star, logits, labels, gamma, beta, alpha)


@one_residual
def _hard(logits: Array, labels: Array, gamma: Number, epsilon: Array | None, alpha: Array | None) -> Array:
    return _balanced(poly_curve(sigmoid_margin(logits, labels), gamma, epsilon), labels, alpha)


@one_residual
def _star(logits: Array, labels: Array, gamma: Array, beta: Array, alpha: Array | None) -> Array:
    z = gamma * sigmoid_margin(logits, labels) + beta
    return _balanced(focal_curve(z, CROSS_ENTROPY) / gamma, labels, alpha)


@one_residual
def _soft(logits: Array, labels: Array, gamma: Number, epsilon: Array | None, alpha: Array | None) -> Array:
    y = probability_or_nan(labels, logits)
    loss = _soft_curve(logits, y, gamma)
    if epsilon is not None:
        p, q, *_ = odds(logits)
        loss += epsilon * abs_power(y * q + (1 - y) * p, gamma + 1)
    return _balanced(loss, y, alpha)


def _balanced(loss: Array, labels: Array, alpha: Array | None) -> Array:
    """``alpha_t * loss``: alpha for the positives, 1 - alpha for the negatives, in between for soft labels."""
    if alpha is None:
        return loss
    if is_hard(labels):
        return jnp.where(labels == 1, alpha, 1 - alpha) * loss
    return (labels * alpha + (1 - labels) * (1 - alpha)) * loss


@jax.custom_jvp
def _soft_curve(logits: Array, y: Array, gamma: Number) -> Array:
    """``q_t**gamma * CE`` with ``q_t = y q + (1 - y) p`` and ``CE = y s + (1 - y) r``, all terms positive."""
    at = _SoftOdds.of(logits, y)
    return jnp.where(jnp.isinf(logits) & (at.ce > 0), jnp.inf, at.q_power(gamma) * at.ce)


class _SoftOdds(NamedTuple):
    """What a soft label makes of a logit ``x = sign * m``, ``m >= 0``.

    As ``FL(x, y) = FL(-x, 1 - y)``, all of it is taken at ``m``: with ``e = exp(-m)``, ``c`` the mass of the labels
    that ``m`` is against, ``o`` the other,

        q_t = w / (1 + e) with w = c + o e        CE = c m + log(1 + e)

    ``w`` underflows where ``c = 0`` only, and is ``e`` there.
    """

    sign: Array
    m: Array
    e: Array
    c: Array
    o: Array
    w: Array

    @classmethod
    def of(cls, logits: Array, y: Array) -> "_SoftOdds":
        x = finite(logits)
        positive = x >= 0
        m, sign = jnp.where(positive, x, -x), jnp.where(positive, 1, -1).astype(x.dtype)
        c, o = jnp.where(positive, 1 - y, y), jnp.where(positive, y, 1 - y)
        e = jnp.exp(-m)
        return cls(sign, m, e, c, o, c + o * e)

    @property
    def ce(self) -> Array:
        return self.c * self.m + log1p_up(self.e)

    @property
    def log_q_t(self) -> Array:
        log_w = jnp.where(self.w == 0, -self.m, jnp.log(jnp.where(self.w == 0, 1, self.w)))
        return log_w - log1p_up(self.e)

    def q_power(self, gamma: Number) -> Array:
        """``q_t**gamma``"""
        return ratio_power(self.w, 1 + self.e, self.log_q_t, gamma)


@partial(_soft_curve.defjvp, symbolic_zeros=True)
def _soft_curve_jvp(primals, tangents):
    """With ``k = CE / w``, which is at most max(m, 1), and tends to 1 where both underflow:

    dFL/dx     = sign * q_t**gamma * (gamma * (c - o) * k * e + c - o * e) / (1 + e)
    dFL/dy     = -sign * q_t**gamma * (gamma * k * (1 - e) + m)
    dFL/dgamma = q_t**gamma * CE * log q_t
    """
    x, y, gamma = primals
    at = _SoftOdds.of(x, y)
    sign, m, e, c, o, w = at
    q_gamma = at.q_power(gamma)
    over_w = inverse(w)
    k = jnp.where(over_w == 0, 1, at.ce * over_w)
    slopes = (
        lambda: sign * q_gamma * (gamma * ((c - o) * (k * e)) + (c - o * e)) / (1 + e),
        lambda: -sign * q_gamma * (gamma * (k * (1 - e)) + m),
        lambda: q_gamma * at.ce * at.log_q_t,
    )
    return _soft_curve(x, y, gamma), along(slopes, tangents)
