"""Losses of many yes-or-no labels at once, of which few are yes."""

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Float

from ._checks import BELOW_ONE, check_binary_labels, check_exponent, check_logits, check_option
from ._margin import focal_curve, odds, probability_or_nan
from ._power import abs_power
from ._reduce import Reduction, weigh
from ._residual import one_residual
from ._rules import Number


def asymmetric_loss(
    logits: Float[ArrayLike, "*n"],
    labels: ArrayLike,
    *,
    gamma_pos: ArrayLike = 1.0,
    gamma_neg: ArrayLike = 4.0,
    clip: ArrayLike = 0.05,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    reduction: str = "none",
    normalizer: ArrayLike | None = None,
) -> Float[Array, "..."]:
    r"""Asymmetric loss (ASL): focal loss with an exponent a side, and negatives below a probability left out.

    .. math::
        L_+ = -(1 - p)^{\gamma_+} \log p \qquad
        L_- = -p_m^{\gamma_-} \log(1 - p_m) \qquad p_m = \max(p - m, 0)

        \frac{\partial L_+}{\partial x} = -(1 - p)^{\gamma_+} (1 - p - \gamma_+ p \log p) \qquad
        \frac{\partial L_-}{\partial x} = p (1 - p) \left(\frac{p_m^{\gamma_-}}{1 - p_m}
        - \gamma_- p_m^{\gamma_- - 1} \log(1 - p_m)\right)

    with ``m = clip``; the last is 0 where ``p <= m``. For labels between 0 and 1 it is ``y L_+ + (1 - y) L_-``. The
    positive side is that of ``sigmoid_focal_loss``, so a badly missed label keeps its gradient of about -1.

    Args:
      logits: floating point, any shape. float16 and bfloat16 are computed in float32.
      labels: of the same shape; bool or integer in {0, 1}, or float in [0, 1].
      gamma_pos, gamma_neg: the focusing exponents of positives and negatives, >= 0; broadcast against ``logits``, may
        be traced and differentiated. (The defaults are those of the authors' program.)
      clip: the probability margin ``m``, in [0, 1): negatives predicted below it cost nothing. Broadcasts against
        ``logits``, may be traced and, where > 0, differentiated.
      where, weights, reduction, normalizer: as in ``sigmoid_focal_loss``.

    Returns:
      The loss in float32 (float64 for float64 logits): of the logits' shape for "none", else a scalar. The paper sums
      it over the labels of an example.

    Raises:
      ValueError: as ``sigmoid_focal_loss``, and for a clip outside [0, 1).

    >>> import jax.numpy as jnp
    >>> logits, labels = jnp.array([2.0, -4.0, 0.5]), jnp.array([1, 0, 0])
    >>> with jnp.printoptions(precision=4, suppress=True):
    ...     print(asymmetric_loss(logits, labels))
    [0.0151 0.     0.0913]

    References:
      Ridnik, Ben-Baruch, Zamir, Noy, Friedman, Protter, Zelnik-Manor, "Asymmetric Loss For Multi-Label Classification",
      2021, https://arxiv.org/abs/2009.14119
    """
    logits = check_logits(logits)
    reduced = Reduction(logits.shape, where, weights, reduction, normalizer)
    labels = check_binary_labels(labels, logits, where)
    gamma_pos = check_exponent("gamma_pos", gamma_pos, logits)
    gamma_neg = check_exponent("gamma_neg", gamma_neg, logits)
    clip = check_option("clip", clip, logits, BELOW_ONE)
    return reduced.elementwise(_asymmetric, logits, labels, gamma_pos, gamma_neg, clip)


@one_residual
def _asymmetric(logits: Array, labels: Array, gamma_pos: Number, gamma_neg: Number, clip: Array) -> Array:
    y = probability_or_nan(labels, logits)
    return weigh(y, focal_curve(logits, gamma_pos)) + weigh(1 - y, _shifted_curve(logits, gamma_neg, clip))


def _shifted_curve(logits: Array, gamma: Number, shift: Array) -> Array:
    """``-p_m**gamma * log(1 - p_m)``, ``p_m = max(p - shift, 0)``; ``1 - p_m`` is ``1 - p + shift``, a sum."""
    p, q, _, r, _ = odds(logits)
    p_m = jnp.maximum(jnp.where(q == 0, 1, p) - shift, 0)  # no slope is left there to multiply an infinite logarithm
    small = p_m <= 0.5
    log = jnp.where(small, jnp.log1p(-jnp.where(small, p_m, 0)), jnp.logaddexp(-r, jnp.log(shift)))
    unbounded = jnp.where((logits == jnp.inf) & (shift == 0), jnp.inf, 0)  # added, so that the slope there stays
    return -log * abs_power(p_m, gamma) + unbounded
