"""The largest logit of a row and the sum of exponentials in one reading of the row.

On GPUs, where reading is what takes the time. On CPUs a second exponential a logit costs more than a second reading.
"""

import jax.numpy as jnp
from jax import Array, lax
from jaxtyping import Bool, Float


def top_and_total(
    logits: Float[Array, "*n c"], left_out: Bool[Array, "*n c"]
) -> tuple[Float[Array, "*n 1"], Float[Array, "*n 1"]]:
    """``top = max x``, 0 where every class is masked, and ``sum exp(x - top)`` over the classes not left out.

    Two parts of a row join as ``top = max(top_a, top_b)``, ``total = sum_i total_i exp(top_i - top)``. There is no
    derivative rule. A row with a logit of inf has a total of NaN.
    """

    def join(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
        top = jnp.maximum(a[0], b[0])
        return top, _moved(*a, top) + _moved(*b, top)

    terms = jnp.where(left_out | (logits == -jnp.inf), 0, 1).astype(logits.dtype)
    start = jnp.array(-jnp.inf, logits.dtype), jnp.zeros((), logits.dtype)
    top, total = lax.reduce((logits, terms), start, join, (logits.ndim - 1,))
    top, total = jnp.where(top == -jnp.inf, 0, top), jnp.where(top == jnp.inf, jnp.nan, total)
    return top[..., None], total[..., None]


def _moved(top: Array, total: Array, new_top: Array) -> Array:
    """``total * exp(top - new_top)``; as it is where both are the same, infinite ones too."""
    return total * jnp.exp(jnp.where(top == new_top, 0, top - new_top))
