"""Random keys, of both kinds that JAX has: those of ``jax.random.key``, and the older arrays of uint32."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._kinds import kind


def is_key(leaf: Any) -> bool:
    """Whether it is what ``jax.random.key`` makes, one or many."""
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def check_key(key: Any) -> None:
    """ValueError for anything but one random key, of either kind."""
    is_array = isinstance(key, jax.Array | np.ndarray)
    if not (is_array and (is_key(key) or _is_key_data(key)) and key.ndim == (0 if is_key(key) else 1)):
        raise ValueError(f"key must be one random key, such as jax.random.key(0), got {kind(key)}")


def _is_key_data(array: Any) -> bool:
    """Whether it is what ``jax.random.PRNGKey`` makes, one or many: how long a key is depends on JAX's generator."""
    length = jax.eval_shape(lambda: jax.random.key_data(jax.random.key(0))).shape
    return array.dtype == jnp.uint32 and array.shape[-1:] == length
