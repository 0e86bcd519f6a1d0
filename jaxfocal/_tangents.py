"""Custom derivative rules that compute nothing for what does not move."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import Array
from jax.custom_derivatives import SymbolicZero


def tangent(fn: Callable[..., Array], primals: Sequence[Any], tangents: Sequence[Any]) -> Array:
    """``jax.jvp`` of ``fn`` along the tangents that are not symbolic zeros."""
    leaves, treedef = jax.tree.flatten(primals)
    dots = jax.tree.leaves(tangents)
    live = [i for i, dot in enumerate(dots) if not isinstance(dot, SymbolicZero)]

    def of_live(*values: Array) -> Array:
        filled = list(leaves)
        for i, value in zip(live, values, strict=True):
            filled[i] = value
        return fn(*jax.tree.unflatten(treedef, filled))

    return jax.jvp(of_live, [leaves[i] for i in live], [dots[i] for i in live])[1]
