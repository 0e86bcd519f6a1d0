"""How XLA's CPU compiler divides the work into passes over memory.

There a fused loop has one output. What the value and the slope of an elementwise loss have in common would be computed
once and stored, several arrays of it, and a sum would take apart the loop whose result it adds up. Both cost more than
computing the pieces again in registers. Compilers for GPUs make one pass of it by themselves: nothing changes there.
"""

import jax
import jax.numpy as jnp
from jax import Array


def own_pass(x: Array) -> Array:
    """``x`` for a computation that shares no intermediate result with another one of ``x``."""
    return jax.lax.optimization_barrier(x) if on_cpu() else x


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
