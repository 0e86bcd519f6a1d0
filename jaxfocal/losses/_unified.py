"""A loss of pixels and regions at once, with one class that is common and others that are rare."""

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Float

from ._checks import BELOW_ONE, NON_NEGATIVE, PROBABILITY, is_hard
from ._classes import label_margin, one_or_nan
from ._margin import focal_curve, softmax_margins
from ._overlap import class_numbers, confusion, region_loss, tversky_of_class
from ._power import share_power
from ._reduce import keep, weigh
from ._residual import one_residual


def unified_focal_loss(
    logits: Float[ArrayLike, "*n"],
    labels: ArrayLike,
    *,
    delta: ArrayLike = 0.6,
    gamma: ArrayLike = 0.5,
    ce_weight: ArrayLike = 0.5,
    smooth: ArrayLike = 1e-5,
    ignore_index: int | None = None,
    axis: int = -1,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    reduction: str = "none",
    normalizer: ArrayLike | None = None,
) -> Float[Array, "..."]:
    r"""Asymmetric unified focal loss of each image: a focal loss of its pixels and a focal Tversky loss of its classes.

    Class 0 is the common one, the background; its pixels are turned down where they are right already. All other
    classes are rare; their regions are turned up where they are nearly right. With ``t`` the label distribution, ``n``
    pixels and ``C`` classes:

    .. math::
        F = -\frac{1}{n} \sum \left((1 - \delta) t_0 (1 - p_0)^\gamma \log p_0
        + \delta \sum_{c > 0} t_c \log p_c\right) \qquad
        T = \frac{1}{C} \left(L_0 + \sum_{c > 0} L_c^{1 - \gamma}\right)

        L = \lambda F + (1 - \lambda) T \qquad
        L_c = 1 - \frac{TP_c + s}{TP_c + \delta FN_c + (1 - \delta) FP_c + s}

    with ``lambda = ce_weight`` and ``TP``, ``FP``, ``FN`` and ``s`` as in ``dice_loss``. The gradient is made of those
    of ``softmax_focal_loss`` and ``focal_tversky_loss``.

    Args:
      logits, labels: as in ``dice_loss``.
      delta: the weight of the rare classes and of false negatives, a scalar in [0, 1]; 1 - delta is that of the
        background and of false positives. May be traced and differentiated, as may all three.
      gamma: how much the background is turned down and the rare classes up, a scalar in [0, 1).
      ce_weight: the paper's lambda, the weight of ``F`` against ``T``, a scalar in [0, 1]. (In the authors' program it
        is that of ``T``.)
      smooth, ignore_index, axis: as in ``dice_loss``.
      where, weights, reduction, normalizer: as in ``dice_loss``.

    Returns:
      The loss in float32 (float64 for float64 logits): (B,) for "none", else a scalar. The paper sums ``T`` over the
      classes; here it is their mean, as in the authors' program.

    Raises:
      ValueError: as ``dice_loss``, and for delta, gamma or ce_weight outside their range.

    >>> import jax.numpy as jnp
    >>> logits = jnp.array([[[2.0, 0.0], [0.0, 1.0]], [[0.5, 0.0], [0.0, 0.0]]])
    >>> with jnp.printoptions(precision=4, suppress=True):
    ...     print(unified_focal_loss(logits, jnp.array([[0, 1], [0, 255]]), ignore_index=255))
    [0.2115 0.375 ]

    References:
      Yeung, Sala, Schönlieb, Rundo, "Unified Focal loss: Generalising Dice and cross entropy-based losses to handle
      class imbalanced medical image segmentation", 2022, https://arxiv.org/abs/2102.04525
    """
    return region_loss(
        _unified,
        logits,
        labels,
        {
            "smooth": (smooth, NON_NEGATIVE),
            "delta": (delta, PROBABILITY),
            "gamma": (gamma, BELOW_ONE),
            "ce_weight": (ce_weight, PROBABILITY),
        },
        class_weights=None,
        ignore_index=ignore_index,
        axis=axis,
        where=where,
        weights=weights,
        reduction=reduction,
        normalizer=normalizer,
    )


@one_residual
def _unified(logits: Array, labels: Array, kept: Array | None, class_weights: None, options: dict[str, Array]) -> Array:
    smooth, delta, gamma, ce_weight = (options[name] for name in ("smooth", "delta", "gamma", "ce_weight"))
    of_class = tversky_of_class(*confusion(logits, labels, kept), 1 - delta, delta, smooth)
    of_class = jnp.where(_is_background(of_class), of_class, share_power(of_class, 1 - gamma))
    of_pixels = _asymmetric_focal(keep(logits, kept), labels, delta, gamma)
    counted = jnp.ones_like(of_pixels) if kept is None else kept.astype(of_pixels.dtype)
    pixel_mean = jnp.sum(keep(of_pixels, kept), axis=1) / jnp.maximum(jnp.sum(counted, axis=1), 1)
    loss = weigh(ce_weight, pixel_mean) + (1 - ce_weight) * jnp.mean(of_class, axis=-1)
    return one_or_nan(labels, logits) * loss


def _asymmetric_focal(logits: Array, labels: Array, delta: Array, gamma: Array) -> Float[Array, "b p"]:
    """Cross-entropy weighed by ``delta``; that of the background by ``1 - delta``, and focal."""
    if is_hard(labels):
        background = labels == 0
        curve = focal_curve(label_margin(logits, labels), jnp.where(background, gamma, 0))
        return jnp.where(background, 1 - delta, delta) * curve
    background = _is_background(logits)
    curves = focal_curve(softmax_margins(logits), jnp.where(background, gamma, 0))
    return jnp.sum(weigh(labels * jnp.where(background, 1 - delta, delta), curves), axis=-1)


def _is_background(x: Array) -> Array:
    return class_numbers(x, jnp.int32) == 0
