"""What the custom derivative rules have in common."""

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import Any

from jax import Array
from jax.custom_derivatives import SymbolicZero


def along(slopes: Sequence[Callable[[], Array]], tangents: Sequence[Any]) -> Array:
    """The sum of ``slope() * tangent``; a slope whose argument does not move is not computed."""
    live = [slope() * dot for slope, dot in zip(slopes, tangents, strict=True) if not isinstance(dot, SymbolicZero)]
    return reduce(add, live)
