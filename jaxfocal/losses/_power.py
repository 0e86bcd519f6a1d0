"""Powers with finite derivatives of every order, where a difference is zero and where a share is tiny."""

from functools import partial
from typing import TypeGuard

import jax
import jax.numpy as jnp
from jax import Array, lax
from jaxtyping import Float

from ._rules import Known, Number, along

MOST_PRODUCTS = 8


def by_products(b: Number) -> TypeGuard[Known]:
    """Whether ``x**b`` is taken as products, and a square root if ``b`` is half an odd number.

    From 1 on: a probability underflows before its root does.
    """
    return isinstance(b, Known) and b % 0.5 == 0 and (b == 0 or 1 <= b <= MOST_PRODUCTS)


def _products(x: Array, b: Known) -> Array:
    whole = lax.integer_pow(x, int(b))
    return whole if b % 1 == 0 else whole * jnp.sqrt(x)


def ratio_power(w: Float[Array, "*n"], v: Float[Array, "*n"], log: Float[Array, "*n"], b: Number) -> Array:
    """``(w / v)**b`` of a probability ``w / v`` with logarithm ``log``; the slope is ``b (w / v)**b dlog``."""
    return _known_ratio_power(w, v, log, b) if by_products(b) else jnp.exp(b * log)


@jax.custom_jvp
def _known_ratio_power(w: Array, v: Array, log: Array, b: Known) -> Array:
    """One quotient, used once: XLA's CPU compiler would store one that is multiplied with itself."""
    return _products(w, b) / _products(v, b)


@_known_ratio_power.defjvp
def _known_ratio_power_jvp(primals, tangents):
    value = _known_ratio_power(*primals)
    return value, primals[-1] * value * tangents[2]


@jax.custom_jvp
def abs_power(x: Float[Array, "*n"], b: Number) -> Float[Array, "*n"]:
    """``|x|**b``; at 0 it is 1 for ``b = 0`` and 0 for every other ``b``, negative ones included.

    The slope ``b sign(x) |x|**(b - 1)`` is thereby finite everywhere: 0 at the cusp of ``b < 1``.
    """
    if by_products(b):
        return _products(jnp.abs(x), b)
    b = jnp.asarray(b, x.dtype)
    return jnp.where(x == 0, jnp.where(b == 0, 1.0, 0.0), jnp.where(x == 0, 1, jnp.abs(x)) ** b)


@partial(abs_power.defjvp, symbolic_zeros=True)
def _abs_power_jvp(primals, tangents):
    x, b = primals
    value = abs_power(x, b)
    return value, along((lambda: b * signed_power(x, b - 1), lambda: value * _log(x)), tangents)


@jax.custom_jvp
def signed_power(x: Float[Array, "*n"], b: Number) -> Float[Array, "*n"]:
    """``sign(x) |x|**b``, with slope ``b |x|**(b - 1)``."""
    return jnp.sign(x) * abs_power(x, b)


@partial(signed_power.defjvp, symbolic_zeros=True)
def _signed_power_jvp(primals, tangents):
    x, b = primals
    value = signed_power(x, b)
    return value, along((lambda: b * abs_power(x, b - 1), lambda: value * _log(x)), tangents)


def _log(x: Array) -> Array:
    return jnp.log(jnp.where(x == 0, 1, jnp.abs(x)))


@jax.custom_jvp
def inverse(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """``1 / x`` of ``x >= 0``; 0 where ``x`` is no normal number.

    Its square is never formed: it may overflow where the tangent is as small as ``x``.
    """
    return jnp.where(_is_tiny(x), 0, 1 / jnp.where(_is_tiny(x), 1, x))


@inverse.defjvp
def _inverse_jvp(primals, tangents):
    r = inverse(*primals)
    return r, -(r * (r * tangents[0]))


@jax.custom_jvp
def share(x: Float[Array, "*n"], y: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """``x / (x + y)`` of ``x, y >= 0``; nothing of nothing is 0.

    ``dx`` and ``dy`` are weighed by ``share(y, x)`` and ``-share(x, y)`` over the sum: 1 less a share is a share.
    """
    return x * inverse(x + y)


@partial(share.defjvp, symbolic_zeros=True)
def _share_jvp(primals, tangents):
    x, y = primals
    r = inverse(x + y)
    return share(x, y), along((lambda: share(y, x) * r, lambda: -share(x, y) * r), tangents)


@jax.custom_jvp
def share_power(x: Float[Array, "*n"], b: Float[Array, "..."]) -> Float[Array, "*n"]:
    """``x**b`` of ``x >= 0``, ``b >= 0``; the slope ``b x**b / x`` stays finite, and is 0 at 0 unless ``b = 1``."""
    return jnp.where(_is_tiny(x), jnp.where(b == 0, 1.0, 0.0), jnp.where(_is_tiny(x), 1, x) ** b)


@partial(share_power.defjvp, symbolic_zeros=True)
def _share_power_jvp(primals, tangents):
    x, b = primals
    value = share_power(x, b)
    return value, along((lambda: b * jnp.where(b == 1, 1, value * inverse(x)), lambda: value * _log(x)), tangents)


def _is_tiny(x: Array) -> Array:
    return x < jnp.finfo(x.dtype).smallest_normal
