"""From the number of examples of each class to weights of the classes, or to offsets of their logits."""

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Float, Real

from .._host import host_values
from ._checks import BELOW_ONE, FINITE, check_counts, check_scalar


def inverse_frequency_weights(counts: Real[ArrayLike, "c"]) -> Float[Array, "c"]:
    r"""Class weights inversely proportional to the number of examples, for ``class_weights``.

    .. math::
        w_c = \frac{K}{n_c \sum_j 1 / n_j}

    over the ``K`` classes that have examples: their weights average 1. A class without any gets weight 0. Up to that
    scale these are scikit-learn's "balanced" weights, ``sum(n) / (K n_c)``, whose average over the examples is 1.

    Args:
      counts: ``(c,)``, examples of each class: integer or floating point, >= 0, not all 0. They may be traced.

    Returns:
      ``(c,)`` in float32 (float64 for float64 counts).

    Raises:
      ValueError: for counts of another shape or dtype, negative, not finite or all 0. Counts that are traced, or held
        by an accelerator, are not checked: bad ones give NaN weights.

    >>> import jax.numpy as jnp
    >>> with jnp.printoptions(precision=4, suppress=True):
    ...     print(inverse_frequency_weights(jnp.array([100, 10, 0, 5])))
    [0.0968 0.9677 0.     1.9355]

    References:
      King, Zeng, "Logistic Regression in Rare Events Data", 2001, https://doi.org/10.1093/oxfordjournals.pan.a004868
    """
    n = _counts(counts)
    return _inverse(n, n == 0)


def effective_number_weights(counts: Real[ArrayLike, "c"], *, beta: ArrayLike = 0.999) -> Float[Array, "c"]:
    r"""Class weights inversely proportional to the effective number of examples, for ``class_weights``.

    .. math::
        E_c = \frac{1 - \beta^{n_c}}{1 - \beta} \qquad w_c = \frac{K}{E_c \sum_j 1 / E_j}

    over the ``K`` classes that have examples: their weights average 1. A class without any gets weight 0. ``beta=0``
    gives all others weight 1; as ``beta`` goes to 1 the weights become those of ``inverse_frequency_weights``.

    Args:
      counts: ``(c,)``, examples of each class: integer or floating point, >= 0, not all 0. They may be traced.
      beta: a scalar in [0, 1); may be traced and differentiated. Near 1 most of its digits are in ``1 - beta``: a
        Python float keeps them where a float32 array has rounded them off.

    Returns:
      ``(c,)`` in float32 (float64 for float64 counts).

    Raises:
      ValueError: for counts of another shape or dtype, negative, not finite or all 0, or a beta outside [0, 1). Counts
        that are traced, or held by an accelerator, are not checked: bad ones give NaN weights.

    >>> import jax.numpy as jnp
    >>> with jnp.printoptions(precision=4, suppress=True):
    ...     print(effective_number_weights(jnp.array([10_000, 1_000, 0, 50]), beta=0.999))
    [0.13   0.2056 0.     2.6644]

    References:
      Cui, Jia, Lin, Song, Belongie, "Class-Balanced Loss Based on Effective Number of Samples", 2019,
      https://arxiv.org/abs/1901.05555
    """
    n = _counts(counts)
    absent = n == 0
    return _inverse(_one_minus_power(beta, jnp.where(absent, 1, n)), absent)


def logit_adjustment(counts: Real[ArrayLike, "c"], *, tau: ArrayLike = 1.0) -> Float[Array, "c"]:
    r"""Offsets to add to the logits in training, so that without them the classes compete as if equally frequent.

    .. math::
        a_c = \tau \log \frac{n_c}{\sum_j n_j}

    ``softmax_focal_loss(logits + logit_adjustment(counts), labels, gamma=0)`` is the logit-adjusted cross-entropy; at
    test time the logits are used as they are. A class without examples has no logarithm: it counts as one with a single
    example, or, should counts be fractions, with as few as the rarest class has. The sum, and with it the offsets of
    the others, is that of the counts given.

    Args:
      counts: ``(c,)``, examples of each class: integer or floating point, >= 0, not all 0. They may be traced.
      tau: the strength, a finite scalar; may be traced and differentiated.

    Returns:
      ``(c,)``, finite, in float32 (float64 for float64 counts).

    Raises:
      ValueError: for counts of another shape or dtype, negative, not finite or all 0, or a tau that is not finite.
        Counts that are traced, or held by an accelerator, are not checked: bad ones give NaN offsets.

    >>> import jax.numpy as jnp
    >>> with jnp.printoptions(precision=4, suppress=True):
    ...     print(logit_adjustment(jnp.array([90, 10, 0])))
    [-0.1054 -2.3026 -4.6052]

    References:
      Menon, Jayasumana, Rawat, Jain, Veit, Kumar, "Long-tail learning via logit adjustment", 2021,
      https://arxiv.org/abs/2007.07314
    """
    n = _counts(counts)
    absent = n == 0
    total = jnp.sum(n)
    fewest = jnp.min(jnp.where(absent, 1, n))
    return check_scalar("tau", tau, n, FINITE) * jnp.log(jnp.where(absent, fewest, n) / total)


def _counts(counts: ArrayLike) -> Float[Array, "c"]:
    """Counts in the dtype that the weights get; all NaN where one of them cannot be a count, or none is positive."""
    n = check_counts(counts)
    return jnp.where(jnp.all((n >= 0) & (n < jnp.inf)) & jnp.any(n > 0), n, jnp.nan)


def _inverse(size: Float[Array, "c"], absent: Array) -> Float[Array, "c"]:
    """Weights proportional to ``1 / size`` that average 1, apart from the absent classes, which get 0."""
    weights = jnp.where(absent, 0, 1 / jnp.where(absent, 1, size))
    return weights * (jnp.sum(~absent, dtype=size.dtype) / jnp.sum(weights))


def _one_minus_power(beta: ArrayLike, n: Float[Array, "c"]) -> Float[Array, "c"]:
    """``1 - beta**n`` with all its digits, also where ``beta**n`` is close to 1."""
    b = check_scalar("beta", beta, n, BELOW_ONE)
    known = host_values(beta)
    if known is None:
        log = jnp.log(jnp.where(b == 0, 1, b))
        return jnp.where(b == 0, 1 - b**n, -jnp.expm1(n * log))
    if known == 0:
        return jnp.ones_like(n)
    return -jnp.expm1(n * np.log(np.float64(known)).astype(n.dtype))  # before beta is rounded to float32
