"""The focal curve of a margin, and the margins it is taken at.

Every focal loss with hard labels is one scalar curve of a margin ``z``, the log-odds of the true label:

    p = sigmoid(z) = p_t        q = sigmoid(-z) = 1 - p_t        s = -log p        r = -log q
    FL(z) = q**gamma * s
    dFL/dz = -q**gamma * (q + gamma * p * s)
    dFL/dgamma = -q**gamma * s * r

``q`` is never formed by subtraction and ``q**gamma`` never divided by ``q``, so value, slope and curvature keep their
digits for margins of any size and every ``gamma >= 0``. The power is ``2**-gamma * exp(-gamma * d)`` with
``d = r - log 2``: ``gamma`` multiplies the rounding of what it stands before, and ``d`` is small where the margin is.
A small ``gamma`` that is known when the loss is traced takes products instead.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int

from ._logarithms import log1p_down, log1p_up
from ._online import top_and_total
from ._passes import on_cpu
from ._power import by_products, ratio_power
from ._rules import Known, Number, along

CROSS_ENTROPY = Known(0)  # the exponent of the curve
MOST_PRODUCTS_OF_Q = 2  # every product rounds, and near margin 0 all of the bound on float32 errors is a few roundings


@jax.custom_jvp
def odds(margin: Float[Array, "*n"]) -> tuple[Float[Array, "*n"], ...]:
    """``(p, q, s, r, d)`` of the margin: both probabilities and their negative logarithms, from one exponential.

    An infinite margin counts as the largest finite one, so that ``0 * s`` and ``0 * r`` are 0.
    """
    z = finite(margin)
    e = jnp.exp(-jnp.abs(z))
    p = jnp.where(z >= 0, 1, e) / (1 + e)
    q = jnp.where(z >= 0, e, 1) / (1 + e)
    s, r = jnp.maximum(-z, 0) + log1p_up(e), jnp.maximum(z, 0) + log1p_up(e)
    return p, q, s, r, jnp.maximum(z, 0) + log1p_down((e - 1) / 2)


@odds.defjvp
def _odds_jvp(primals, tangents):
    (z_dot,) = tangents
    p, q, s, r, d = odds(*primals)
    return (p, q, s, r, d), (p * q * z_dot, -p * q * z_dot, -q * z_dot, p * z_dot, p * z_dot)


def finite(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """``x``, an infinite one as the largest finite one of its sign."""
    largest = float(jnp.finfo(x.dtype).max)
    return jnp.clip(x, -largest, largest)


def power_of_q(margin: Float[Array, "*n"], gamma: Number) -> Float[Array, "*n"]:
    """``q**gamma``, and 1 for ``gamma`` 0; for large ``gamma`` straight from ``r``, since ``2**-gamma`` underflows."""
    if isinstance(gamma, Known) and gamma == CROSS_ENTROPY:
        return jnp.ones_like(margin)
    _, _, _, r, d = odds(margin)
    if by_products(gamma) and 1 < gamma <= MOST_PRODUCTS_OF_Q:  # not 1: a quotient that is q itself would be stored
        z = finite(margin)
        e = jnp.exp(-jnp.abs(z))
        return ratio_power(jnp.where(z >= 0, e, 1), 1 + e, -r, gamma)
    split = gamma < 64
    return jnp.where(split, jnp.exp2(-gamma), 1) * jnp.exp(-gamma * jnp.where(split, d, r))


@jax.custom_jvp
def focal_curve(margin: Float[Array, "*n"], gamma: Number) -> Float[Array, "*n"]:
    """``q**gamma * s``; a margin of minus infinity costs infinity, one of plus infinity nothing."""
    _, _, s, _, _ = odds(margin)
    return jnp.where(margin == -jnp.inf, jnp.inf, power_of_q(margin, gamma) * s)


def _focal_slope(margin: Float[Array, "*n"], gamma: Number) -> Float[Array, "*n"]:
    """``dFL/dz = -q**gamma * (q + gamma * p * s)``."""
    p, q, s, _, _ = odds(margin)
    return -power_of_q(margin, gamma) * (q + gamma * p * s)


def _focal_gamma_slope(margin: Array, gamma: Array) -> Array:
    """``dFL/dgamma = -q**gamma * s * r``."""
    _, _, s, r, _ = odds(margin)
    return -power_of_q(margin, gamma) * s * r


@partial(focal_curve.defjvp, symbolic_zeros=True)
def _focal_curve_jvp(primals, tangents):
    return focal_curve(*primals), along(
        (lambda: _focal_slope(*primals), lambda: _focal_gamma_slope(*primals)), tangents
    )


def poly_curve(margin: Float[Array, "*n"], gamma: Number, epsilon: Array | None) -> Float[Array, "*n"]:
    """``q**gamma * s + epsilon * q**(gamma + 1)``; without the second term for None."""
    if epsilon is None:
        return focal_curve(margin, gamma)
    return focal_curve(margin, gamma) + epsilon * power_of_q(margin, gamma + 1)


def probability_or_nan(labels: Array, logits: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Labels in [0, 1] in the logits' dtype; NaN, and so in value and gradient, for any other."""
    return jnp.where((labels >= 0) & (labels <= 1), labels.astype(logits.dtype), jnp.nan)


def sigmoid_margin(logits: Float[Array, "*n"], labels: Array) -> Float[Array, "*n"]:
    """``x`` where the label is 1, ``-x`` where it is 0; NaN, in the gradient too, for any other label."""
    sign = jnp.where((labels == 0) | (labels == 1), jnp.where(labels == 1, 1.0, -1.0), jnp.nan)
    return sign.astype(logits.dtype) * logits


def largest(logits: Array) -> Array:
    """The row's maximum as a constant to subtract; 0 where every class is masked."""
    top = jax.lax.stop_gradient(jnp.max(logits, axis=-1, keepdims=True))
    return jnp.where(top == -jnp.inf, 0, top)


def shares(e: Array, total: Array) -> Array:
    """``e / total``, and ``e`` where the total is 0."""
    return e / jnp.where(total == 0, 1, total)


def log_odds_against(x: Array, top: Array, total: Array) -> Array:
    """``x - log(sum of the others)``, where ``top`` is taken off before any digit is lost; -inf stays -inf."""
    largest = float(jnp.finfo(x.dtype).max)
    return (x - top) + jnp.where(total == 0, largest, -jnp.log(jnp.where(total == 0, 1, total)))


@jax.custom_jvp
def softmax_margin(logits: Float[Array, "*n c"], labels: Int[Array, "*n"]) -> Float[Array, "*n"]:
    """``x_t - logsumexp_{j != t} x_j``; the labels must lie in ``[0, c)``."""
    top, _, total = _others(logits, labels)
    x_t = jnp.take_along_axis(logits, labels[..., None], axis=-1)
    return log_odds_against(x_t, top, total)[..., 0]


@softmax_margin.defjvp
def _softmax_margin_jvp(primals, tangents):
    """``dz/dx_t = 1``, ``dz/dx_j = -softmax`` over the others."""
    logits, labels = primals
    row = jnp.where(_one_hot(labels, logits.shape[-1]), 1, -_softmax_of_others(logits, labels))
    return softmax_margin(logits, labels), jnp.sum(row * tangents[0], axis=-1)


@jax.custom_jvp
def _softmax_of_others(logits: Float[Array, "*n c"], labels: Int[Array, "*n"]) -> Float[Array, "*n c"]:
    """The softmax over the classes other than the label; 0 for the label."""
    _, e, total = _others(logits, labels)
    return shares(e, total)


@_softmax_of_others.defjvp
def _softmax_of_others_jvp(primals, tangents):
    """``dp_j = p_j (dx_j - sum_k p_k dx_k)``."""
    p = _softmax_of_others(*primals)
    return p, p * (tangents[0] - jnp.sum(p * tangents[0], axis=-1, keepdims=True))


def _others(logits: Array, labels: Array) -> tuple[Array, Array, Array]:
    """``top (*n 1)`` of the row, ``e = exp(x - top) (*n c)`` with 0 for the label, and ``sum(e) (*n 1)``."""
    is_label = _one_hot(labels, logits.shape[-1])
    top, total = (largest(logits), None) if on_cpu() else top_and_total(logits, is_label)
    e = jnp.where(is_label, 0, jnp.exp(logits - top))
    return top, e, jnp.sum(e, axis=-1, keepdims=True) if total is None else total


def _one_hot(labels: Int[Array, "*n"], num_classes: int) -> Bool[Array, "*n c"]:
    return jax.nn.one_hot(labels, num_classes, dtype=jnp.bool_)


@jax.custom_jvp
def softmax_margins(logits: Float[Array, "*n c"]) -> Float[Array, "*n c"]:
    """The margin of every class against all the others, in O(c).

    Taking a class's own term off the sum loses no digit where the sum holds the largest, ``exp(0) = 1``, too.
    """
    top = largest(logits)
    return log_odds_against(logits, top, _sum_of_other_terms(jnp.exp(logits - top), is_top_class(logits)))


@softmax_margins.defjvp
def _softmax_margins_jvp(primals, tangents):
    """``dz_c/dx_c = 1``, ``dz_c/dx_j = -softmax`` over the classes other than ``c``."""
    (logits,), (x_dot,) = primals, tangents
    is_top, e = is_top_class(logits), jnp.exp(logits - largest(logits))
    others = jnp.where(is_top, 1, _sum_of_other_terms(e, is_top))  # at least 1: the top is among them
    others_dot = shares(jnp.sum(e * x_dot, axis=-1, keepdims=True) - e * x_dot, others)
    row_of_top = _softmax_of_others(logits, jnp.argmax(logits, axis=-1))
    top_dot = jnp.sum(row_of_top * x_dot, axis=-1, keepdims=True)
    return softmax_margins(logits), x_dot - jnp.where(is_top, top_dot, others_dot)


@jax.custom_jvp
def softmax_odds(logits: Float[Array, "*n c"]) -> tuple[Float[Array, "*n c"], Float[Array, "*n c"]]:
    """``(p, q)``: the softmax, and ``1 - p`` as what the other classes share."""
    e = jnp.exp(logits - largest(logits))
    total = jnp.sum(e, axis=-1, keepdims=True)
    return shares(e, total), shares(_sum_of_other_terms(e, is_top_class(logits)), total)


@softmax_odds.defjvp
def _softmax_odds_jvp(primals, tangents):
    """``dp_c = p_c (q_c dx_c - sum_{j != c} p_j dx_j)``, and ``dq = -dp``."""
    (logits,), (x_dot,) = primals, tangents
    p, q = softmax_odds(logits)
    p_dot = p * (q * x_dot - _sum_of_other_terms(p * x_dot, is_top_class(logits)))
    return (p, q), (p_dot, -p_dot)


def _sum_of_other_terms(terms: Array, is_top: Array) -> Float[Array, "*n c"]:
    """For each class the row's sum of all the others' terms; that of the top class is never added and taken off."""
    below = jnp.where(is_top, 0, terms)
    top = jnp.where(is_top, 0, jnp.sum(terms - below, axis=-1, keepdims=True))
    return top + (jnp.sum(below, axis=-1, keepdims=True) - below)


def is_top_class(logits: Array) -> Bool[Array, "*n c"]:
    """True for the class of the largest logit, the first of equal ones."""
    return _one_hot(jnp.argmax(logits, axis=-1), logits.shape[-1])
