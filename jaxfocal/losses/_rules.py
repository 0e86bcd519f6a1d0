"""What the custom derivative rules of the losses have in common."""

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import Any, Union

import jax
from jax import Array
from jax.custom_derivatives import SymbolicZero

Number = Union[Array, "Known"]


@jax.tree_util.register_static
class Known(float):
    """A hyperparameter known when the loss is traced: no array, and so nothing that could move.

    It passes through the rules as it is. A number added to it, or taken off, or dividing it leaves it known; an array
    that it multiplies stands on its right.
    """

    def __add__(self, other: float) -> "Known":
        return Known(float(self) + other)

    def __sub__(self, other: float) -> "Known":
        return Known(float(self) - other)

    def __truediv__(self, other: float) -> "Known":
        return Known(float(self) / other)

    def __mul__(self, other: Any) -> Any:
        return float(self) * other


def along(slopes: Sequence[Callable[[], Array]], tangents: Sequence[Any]) -> Array:
    """The sum of ``slope() * tangent``; a slope whose argument does not move is not computed."""
    live = [s() * dot for s, dot in zip(slopes, tangents, strict=True) if not isinstance(dot, SymbolicZero | Known)]
    return reduce(add, live)
