"""What reverse mode keeps of a loss: its slope, one array as large as the logits."""

from collections.abc import Callable
from functools import partial, reduce
from operator import add
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_derivatives import SymbolicZero

from .._tangents import tangent
from ._passes import own_pass
from ._reduce import keep


def one_residual(loss: Callable[..., Array]) -> Callable[..., Array]:
    """Make reverse mode save the slope of ``loss(logits, *rest)`` instead of the pieces it is made of.

    ``loss`` maps ``logits (*n, *c)`` to ``(*n)``, each value from its own logits alone: elementwise, or by rows. A
    change of the logits then acts through the slope ``dloss/dlogits (*n, *c)``, and nothing else needs keeping.
    Derivatives with respect to ``rest`` are the ordinary ones, computed (and saved) only where they are asked for.

    The result is called as ``rule(logits, mask, *rest)``: where ``mask (*n)`` is False the logits are not looked at,
    and value and slope are 0. None keeps all.
    """

    def masked(logits: Array, mask: Array | None, *rest: Any) -> Array:
        return keep(loss(keep(logits, mask), *rest), mask)

    rule = jax.custom_jvp(masked)

    @partial(rule.defjvp, symbolic_zeros=True)
    def _slope_rule(primals, tangents):
        (logits, *rest), (logits_dot, *rest_dot) = primals, tangents
        value, terms = rule(*primals), []
        if not isinstance(logits_dot, SymbolicZero):
            elementwise = value.ndim == logits.ndim
            _, pullback = jax.vjp(lambda x: masked(x, *rest), own_pass(logits) if elementwise else logits)
            (slope,) = pullback(jnp.ones_like(value))
            terms.append(jnp.sum(slope * logits_dot, axis=tuple(range(value.ndim, logits.ndim))))
        if any(not isinstance(dot, SymbolicZero) for dot in jax.tree.leaves(rest_dot)):
            terms.append(tangent(partial(masked, logits), rest, rest_dot))
        return value, reduce(add, terms)

    return rule
