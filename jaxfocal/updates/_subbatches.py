"""A batch cut into sub-batches along the leading axis of its arrays."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array


def split_batches(args: Any, n_steps: int) -> tuple[dict[int, Array], tuple[Any, Any]]:
    """The arrays by their place, of shapes (n_steps, rows / n_steps, ...), and what goes to every sub-batch.

    Sub-batch j has the rows j, j + n_steps, ...: of rows spread over devices, each device has its share of every one.
    """
    leaves, treedef = jax.tree.flatten(args)
    arrays = {i: leaf for i, leaf in enumerate(leaves) if isinstance(leaf, jax.Array | np.ndarray) and jnp.ndim(leaf)}
    parts = {i: _cut(array, n_steps) for i, array in arrays.items()}
    return parts, (treedef, [None if i in parts else leaf for i, leaf in enumerate(leaves)])


def merge_batches(rows: dict[int, Array], whole: tuple[Any, list[Any]], number: Array) -> Any:
    """One sub-batch in the form of the whole; a random key in it folded with the number of the sub-batch."""
    treedef, shared = whole
    leaves = [rows.get(i, jax.random.fold_in(leaf, number) if _is_key(leaf) else leaf) for i, leaf in enumerate(shared)]
    return jax.tree.unflatten(treedef, leaves)


def _cut(array: Any, n_steps: int) -> Array:
    shape = jnp.shape(array)
    if shape == (2,) and jnp.result_type(array) == jnp.uint32:
        raise ValueError(
            "n_steps cuts arrays along their leading axis, and a batch with an array of shape (2,) and dtype uint32, "
            "which may be an old-style random key, cannot be told apart: pass a key made by jax.random.key"
        )
    if shape[0] % n_steps:
        raise ValueError(
            f"n_steps={n_steps} needs a leading axis that it divides, got an array of shape {shape} in the batch"
        )
    return jnp.moveaxis(jnp.reshape(array, (shape[0] // n_steps, n_steps, *shape[1:])), 1, 0)


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
