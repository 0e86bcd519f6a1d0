"""The expected focal loss of a label distribution for GPUs: no array as large as the logits but the gradient.

With ``t`` the row's top class, ``e_c = exp(x_c - x_t)``, ``s`` the sum of all of them but ``e_t = 1``, and ``o_c`` the
sum of those other than ``c``, which is ``s`` for ``t`` and ``1 + (s - e_c)`` for the rest:

    loss = sum_c w_c L(z_c)        z_c = x_c - x_t - log o_c        d_c = w_c L'(z_c)        R = sum_{c != t} d_c / o_c
    dloss/dx_t = d_t - R           dloss/dx_j = d_j - e_j R + e_j d_j / o_j - d_t e_j / s

Each line is computed from the logits and the row's sums again: on GPUs that is quicker than to keep what they share.
"""

from functools import partial, reduce
from operator import add

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Float

from .._tangents import tangent
from ._classes import at_class
from ._margin import is_top_class, log_odds_against, poly_curve, shares, softmax_margins
from ._online import top_and_total
from ._passes import own_pass
from ._reduce import weigh


def expected_curve(
    logits: Float[Array, "*n c"],
    w: Float[Array, "*n c"],
    gamma: Float[Array, "..."],
    epsilon: Float[Array, "..."] | None,
) -> Float[Array, "*n"]:
    """``sum_c w_c L(z_c)``, in which ``w = 0`` outweighs an infinite loss."""
    return jnp.sum(weigh(w, poly_curve(softmax_margins(logits), gamma, epsilon)), axis=-1)


@jax.custom_jvp
def expected_curve_by_readings(logits: Array, w: Array, gamma: Array, epsilon: Array | None) -> Float[Array, "*n"]:
    """``expected_curve``; the logits are read for the top class, for the sum of the others, and for the value."""
    z, _, _ = _margins(logits, *_row_sums(logits))
    return jnp.sum(weigh(w, poly_curve(z, gamma, epsilon)), axis=-1)


@partial(expected_curve_by_readings.defjvp, symbolic_zeros=True)
def _expected_curve_jvp(primals, tangents):
    (logits, *rest), (logits_dot, *rest_dot), terms = primals, tangents, []
    if not isinstance(logits_dot, SymbolicZero):
        terms.append(jnp.sum(_slope(*primals) * logits_dot, axis=-1))
    if any(not isinstance(dot, SymbolicZero) for dot in jax.tree.leaves(rest_dot)):
        terms.append(tangent(partial(expected_curve, logits), rest, rest_dot))
    return expected_curve_by_readings(*primals), reduce(add, terms)


@jax.custom_jvp
def _slope(logits: Array, w: Array, gamma: Array, epsilon: Array | None) -> Float[Array, "*n c"]:
    top, is_top, rest = _row_sums(logits)

    def slopes(x: Array) -> tuple[Array, Array, Array]:
        z, e, others = _margins(x, top, is_top, rest)
        return w * _curve_slope(z, gamma, epsilon), e, others

    again = own_pass(logits)
    d, _, others = slopes(again)
    ratio = jnp.sum(jnp.where(is_top, 0, shares(d, others)), axis=-1, keepdims=True)
    at_top = partial(at_class, index=jnp.argmax(logits, axis=-1), logits=logits)
    w_top, *options = jax.tree.map(at_top, (w, gamma, epsilon))
    of_top = (w_top * _curve_slope(log_odds_against(top, top, rest)[..., 0], *options))[..., None]
    d, e, others = slopes(own_pass(again))
    return d - e * ratio + jnp.where(is_top, 0, e * shares(d, others) - of_top * shares(e, rest))


@_slope.defjvp
def _slope_jvp(primals, tangents):
    def slope(*args):
        return jax.grad(lambda logits, *rest: jnp.sum(expected_curve(logits, *rest)))(*args)

    return _slope(*primals), jax.jvp(slope, primals, tangents)[1]


def _curve_slope(z: Array, gamma: Array, epsilon: Array | None) -> Array:
    return jax.jvp(lambda z: poly_curve(z, gamma, epsilon), (z,), (jnp.ones_like(z),))[1]


def _row_sums(logits: Array) -> tuple[Array, Array, Array]:
    """``x_t (*n 1)``, which class is ``t (*n c)``, and ``s (*n 1)``."""
    is_top = is_top_class(logits)
    top, rest = top_and_total(logits, is_top)
    return top, is_top, rest


def _margins(logits: Array, top: Array, is_top: Array, rest: Array) -> tuple[Array, Array, Array]:
    """``z``, ``e`` and ``o``, each ``(*n c)``."""
    e = jnp.exp(logits - top)
    others = jnp.where(is_top, rest, 1 + (rest - e))
    return log_odds_against(logits, top, others), e, others
