"""A batch cut into sub-batches along the leading axis of its arrays."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ._keys import is_key


def split_batches(args: Any, n_steps: int) -> tuple[dict[int, Array], tuple[Any, Any]]:
    """The arrays by their place, of shapes (n_steps, rows / n_steps, ...), and what goes to every sub-batch.

    Sub-batch j has the rows j, j + n_steps, ...: of rows spread over devices, each device has its share of every one.
    """
    leaves, treedef = jax.tree_util.tree_flatten_with_path(args)
    parts = {
        i: _cut(leaf, n_steps, "args" + jax.tree_util.keystr(path))
        for i, (path, leaf) in enumerate(leaves)
        if isinstance(leaf, jax.Array | np.ndarray) and jnp.ndim(leaf)
    }
    return parts, (treedef, [None if i in parts else leaf for i, (_, leaf) in enumerate(leaves)])


def merge_batches(rows: dict[int, Array], whole: tuple[Any, list[Any]], number: Array) -> Any:
    """One sub-batch in the form of the whole; a random key in it folded with the number of the sub-batch."""
    treedef, shared = whole
    leaves = [rows.get(i, jax.random.fold_in(leaf, number) if is_key(leaf) else leaf) for i, leaf in enumerate(shared)]
    return jax.tree.unflatten(treedef, leaves)


def _cut(array: Any, n_steps: int, name: str) -> Array:
    shape = jnp.shape(array)
    if shape == (2,) and jnp.result_type(array) == jnp.uint32:
        raise ValueError(
            f"n_steps cuts arrays along their leading axis, and {name}, of shape (2,) and dtype uint32, may be an "
            "old-style random key, which is not to be cut: pass a key made by jax.random.key"
        )
    if shape[0] % n_steps or not shape[0]:
        empty = "" if shape[0] else " and that is not empty"
        raise ValueError(
            f"n_steps={n_steps} needs arrays with a leading axis that it divides{empty}, got shape {shape} at {name}"
        )
    return jnp.moveaxis(jnp.reshape(array, (shape[0] // n_steps, n_steps, *shape[1:])), 1, 0)
