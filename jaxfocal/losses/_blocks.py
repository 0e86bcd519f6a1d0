"""The sum of an elementwise loss on one CPU, block by block.

XLA's CPU compiler writes all terms into an array before it adds them up, and an array of that size is fresh memory:
its pages alone take as long as the terms. The terms of a block stay in the cache, in memory that is used again.
With several devices the axis that the blocks are cut from might be divided among them, and compilers for GPUs keep no
terms: there it is a plain sum.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jaxtyping import Float

from .._tangents import tangent
from ._passes import on_cpu, one_pass
from ._rules import Number

BLOCK = 2**18  # elements
LEAST_BLOCKS = 4  # fewer terms stay in the cache by themselves


def total(terms: Callable[..., Array], x: Array, *rest: Number | None) -> Float[Array, ""]:
    """``sum(terms(x, *rest))`` of an elementwise function, where ``rest`` broadcasts to ``x``."""
    divided = on_cpu() and jax.device_count() == 1 and x.size >= LEAST_BLOCKS * BLOCK
    return _by_blocks(terms, x, *rest) if divided else _at_once(terms, x, *rest)


def _at_once(terms: Callable[..., Array], x: Array, *rest: Number | None) -> Float[Array, ""]:
    return jnp.sum(one_pass(terms(x, *rest)))


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _by_blocks(terms: Callable[..., Array], x: Array, *rest: Number | None) -> Float[Array, ""]:
    axis = int(np.argmax(x.shape)) - x.ndim  # from the right, as shapes broadcast
    length = x.shape[axis]
    size = max(1, BLOCK // (x.size // length))

    def of_block(start: Array | int, size: int) -> Array:
        def block(a: Array) -> Array:
            whole = a.ndim < -axis or a.shape[axis] == 1
            return a if whole else lax.dynamic_slice_in_dim(a, start, size, a.ndim + axis)

        return _at_once(terms, *jax.tree.map(block, (x, *rest)))

    head = length % size or size
    return lax.fori_loop(
        0, (length - head) // size, lambda i, sum_: sum_ + of_block(head + i * size, size), of_block(0, head)
    )


@partial(_by_blocks.defjvp, symbolic_zeros=True)
def _by_blocks_jvp(terms, primals, tangents):
    return _by_blocks(terms, *primals), tangent(partial(_at_once, terms), primals, tangents)
