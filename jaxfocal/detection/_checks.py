"""What the functions of this package say of arguments of another kind than theirs."""

from numbers import Real
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def check_array(name: str, value: Any) -> None:
    """ValueError unless ``value`` is a NumPy or JAX array."""
    if not isinstance(value, np.ndarray | np.generic | jax.Array):
        raise ValueError(f"{name} must be a NumPy or JAX array, got {_kind(value)}")


def check_floating(name: str, value: Any) -> None:
    """ValueError unless ``value`` is an array of floating point."""
    check_array(name, value)
    if not jnp.issubdtype(value.dtype, jnp.floating):
        raise ValueError(f"{name} must be floating point, got dtype {value.dtype}")


def check_whole(name: str, value: Any, least: int = 1) -> None:
    """ValueError unless ``value`` is a Python integer of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ValueError(f"{name} must be an integer, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")


def check_number(name: str, value: Any) -> None:
    """ValueError unless ``value`` is a Python number; what is traced or an array is none."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{name} must be a Python number, got {value!r}")


def check_size(name: str, value: Any) -> tuple[int, int]:
    """A height and a width, integers of at least 1."""
    try:
        sides = np.asarray(value).tolist() if isinstance(value, tuple | list | np.ndarray | jax.Array) else value
    except (ValueError, jax.errors.TracerArrayConversionError):  # ragged, or traced
        sides = None
    if not isinstance(sides, list) or len(sides) != 2 or not all(isinstance(n, int) and n >= 1 for n in sides):
        raise ValueError(f"{name} must be a height and a width, integers of at least 1, got {value!r}")
    return sides[0], sides[1]


def check_float_dtype(name: str, dtype: Any) -> None:
    """ValueError unless ``dtype`` is a floating point dtype, or None."""
    try:
        known = dtype is None or jnp.issubdtype(jnp.dtype(dtype), jnp.floating)
    except TypeError:
        known = False
    if not known:
        raise ValueError(f"{name} must be a floating point dtype, got {dtype!r}")


def _kind(value: Any) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
