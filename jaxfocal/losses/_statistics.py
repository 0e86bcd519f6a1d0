"""Running statistics of the labels seen: made, checked, counted, and summed over devices.

They are NamedTuples of vectors that a loss takes and returns; no gradient flows through them.
"""

from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float, Int

from ._checks import NON_NEGATIVE, check_values

AxisName = str | tuple[str, ...]
Statistics = TypeVar("Statistics", bound=tuple)


def zeros(name: str, length: int) -> Float[Array, "length"]:
    """A vector of nothing seen, in float32."""
    if isinstance(length, bool) or not isinstance(length, int | np.integer) or length < 1:
        raise ValueError(f"{name} must be a positive integer, got {length!r}")
    return jnp.zeros(length, jnp.float32)


def check_state(state: Any, kind: type[Statistics], length: int | None = None) -> Statistics:
    """The vectors of ``state``, float32 or float64 and >= 0, as constants; any length but 0 where none is given."""
    if not isinstance(state, kind):
        raise ValueError(
            f"state must be a {kind.__name__}, as its init or the call before returned it, got {type(state).__name__}"
        )
    return kind(*(_check_vector(f"state.{name}", leaf, length) for name, leaf in state._asdict().items()))  # type: ignore[attr-defined]


def _check_vector(name: str, values: Any, length: int | None) -> Array:
    array = jnp.asarray(values)
    if array.dtype not in (jnp.float32, jnp.float64):  # half precision stops counting at a few hundred
        raise ValueError(f"{name} must be float32 or float64, got dtype {array.dtype}")
    if length is not None and array.shape != (length,):
        raise ValueError(f"{name} must have one entry a class, shape ({length},), got shape {array.shape}")
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must be a vector, got shape {array.shape}")
    check_values(name, values, NON_NEGATIVE)
    return jax.lax.stop_gradient(array)


def count(index: Int[Array, "*n"], length: int, mask: Bool[Array, "*n"] | None) -> Int[Array, "length"]:
    """How often each of ``0, ..., length - 1`` occurs where ``mask`` is True; nothing else is counted.

    In integers, since float32 stops counting at ``2**24``.
    """
    known = (index >= 0) & (index < length)
    known = known if mask is None else known & mask
    return jnp.zeros(length, jnp.int32).at[jnp.where(known, index, length).ravel()].add(1, mode="drop")


def over_devices(x: Array, axis_name: AxisName | None) -> Array:
    """The sum over a mapped axis, where there is one."""
    return x if axis_name is None else jax.lax.psum(x, axis_name)
