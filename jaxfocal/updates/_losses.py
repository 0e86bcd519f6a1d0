"""Calling the user's losses function, and what it must return."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

LossesFn = Callable[..., Any]


def evaluate(losses: LossesFn, has_aux: bool, params: Any, *args: Any) -> tuple[dict[str, Array], Any]:
    """``(losses, aux)`` of one forward pass, with ``aux`` None unless ``has_aux``; checked to be named scalars."""
    returned = losses(params, *args)
    if has_aux:
        if not (isinstance(returned, tuple) and len(returned) == 2):
            raise ValueError(f"with has_aux=True losses must return (dict of losses, aux), got {_kind(returned)}")
        values, aux = returned
    else:
        values, aux = returned, None
    if not isinstance(values, dict) or not values:
        raise ValueError(f"losses must return a dict of scalar losses, got {_kind(values)}")
    for name, value in values.items():
        if not isinstance(name, str) or name == "aux" or name.startswith("grad_norm/"):
            raise ValueError(f"a loss must be named by a string other than 'aux' and 'grad_norm/...', got {name!r}")
        if not isinstance(value, jax.Array | np.ndarray | np.generic | float):
            raise ValueError(f"loss {name!r} must be a floating-point scalar, got {_kind(value)}")
        if jnp.shape(value) != () or not jnp.issubdtype(jnp.result_type(value), jnp.floating):
            raise ValueError(
                f"loss {name!r} must be a floating-point scalar, got shape {jnp.shape(value)} and dtype "
                f"{jnp.result_type(value)}" + ("; reduce it first" if jnp.shape(value) else "")
            )
    return values, aux


def _kind(x: Any) -> str:
    return f"{type(x).__name__} of length {len(x)}" if isinstance(x, tuple | list | dict) else type(x).__name__
