"""How XLA divides the work into passes over memory.

What the value and the slope of an elementwise loss have in common would be computed once and stored, several arrays of
it, which costs more than computing the pieces again in registers. On CPUs a fused loop has one output, and value and
slope are a pass each; on GPUs the compiler fuses each whole and then makes one pass of the two.

On CPUs alone, a sum would take apart the loop whose result it adds up.
"""

import jax
import jax.numpy as jnp
from jax import Array


def own_pass(x: Array) -> Array:
    """``x`` for a computation that shares no intermediate result with another one of ``x``.

    It is ``x`` times a 1 that the compiler does not see through. A barrier before ``x`` itself would do the same, but
    an ``x`` that is widened from half precision would be stored for it.
    """
    return x * jax.lax.optimization_barrier(jnp.ones((), x.dtype))


@jax.custom_jvp
def one_pass(x: Array) -> Array:
    """``x``, computed in one loop before it is added up: a select is nothing that a library would take over."""
    return jnp.where(x != x, jnp.nan, x) if on_cpu() else x


@one_pass.defjvp
def _one_pass_jvp(primals, tangents):
    return one_pass(*primals), tangents[0]


def on_cpu() -> bool:
    """Asked when a function is traced, so that the program for another platform holds no trace of it."""
    return jax.default_backend() == "cpu"
