"""Powers of a difference, with derivatives of every order where it is zero."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from ._rules import along


@jax.custom_jvp
def abs_power(x: Float[Array, "*n"], b: Float[Array, "..."]) -> Float[Array, "*n"]:
    """``|x|**b``; at 0 it is 1 for ``b = 0`` and 0 for every other ``b``, negative ones included.

    The slope ``b sign(x) |x|**(b - 1)`` is thereby finite everywhere: 0 at the cusp of ``b < 1``.
    """
    return jnp.where(x == 0, jnp.where(b == 0, 1.0, 0.0), jnp.where(x == 0, 1, jnp.abs(x)) ** b)


@partial(abs_power.defjvp, symbolic_zeros=True)
def _abs_power_jvp(primals, tangents):
    x, b = primals
    value = abs_power(x, b)
    return value, along((lambda: b * signed_power(x, b - 1), lambda: value * _log(x)), tangents)


@jax.custom_jvp
def signed_power(x: Float[Array, "*n"], b: Float[Array, "..."]) -> Float[Array, "*n"]:
    """``sign(x) |x|**b``, with slope ``b |x|**(b - 1)``."""
    return jnp.sign(x) * abs_power(x, b)


@partial(signed_power.defjvp, symbolic_zeros=True)
def _signed_power_jvp(primals, tangents):
    x, b = primals
    value = signed_power(x, b)
    return value, along((lambda: b * abs_power(x, b - 1), lambda: value * _log(x)), tangents)


def _log(x: Array) -> Array:
    return jnp.log(jnp.where(x == 0, 1, jnp.abs(x)))
