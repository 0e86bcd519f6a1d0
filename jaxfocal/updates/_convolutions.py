"""Convolutions that XLA's CPU compiler does not slow down inside a loop or a branch.

Its fast convolution takes images as (batch, spatial, channels) and kernels as (spatial, in, out). The gradients of a
convolution come in other orders. XLA transposes those where it meets them outside of loops and branches only; inside,
they run many times slower.
"""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import jax
from jax import Array, lax


def body(fn: Callable[..., Any]) -> Callable[..., Any]:
    """``fn`` for a loop or a branch: on CPUs with its convolutions in the order that is fast."""
    if jax.default_backend() != "cpu":
        return fn
    from jax.extend.core import jaxpr_as_fun  # not above: jax.extend takes a while to import

    @wraps(fn)
    def reordered(*args: Any) -> Any:
        closed, shapes = jax.make_jaxpr(fn, return_shape=True)(*args)
        outputs = jaxpr_as_fun(_reordered(closed))(*jax.tree.leaves(args))
        return jax.tree.unflatten(jax.tree.structure(shapes), outputs)

    return reordered


def _reordered(program: Any) -> Any:
    """A jaxpr with its convolutions reordered, those of the jaxprs in it too; anything else as it is."""
    from jax.extend.core import ClosedJaxpr, Jaxpr

    if isinstance(program, Jaxpr):  # from JAX 0.12 on a closed one is this too
        return program.replace(eqns=[new for equation in program.eqns for new in _equations(equation)])
    if isinstance(program, ClosedJaxpr):
        return program.replace(jaxpr=_reordered(program.jaxpr))
    if isinstance(program, tuple) and any(isinstance(part, ClosedJaxpr | Jaxpr) for part in program):
        return tuple(map(_reordered, program))
    return program


def _equations(equation: Any) -> list[Any]:
    """What the equation is replaced by: itself, or the equations of a convolution in plain order."""
    if equation.primitive is not lax.conv_general_dilated_p:
        return [equation.replace(params={name: _reordered(value) for name, value in equation.params.items()})]
    traced = jax.make_jaxpr(partial(_convolution, **equation.params))(*(atom.aval for atom in equation.invars)).jaxpr
    names = dict(zip((*traced.invars, *traced.outvars), (*equation.invars, *equation.outvars), strict=True))

    def renamed(atoms: Any) -> list[Any]:
        return [names.get(atom, atom) for atom in atoms]

    return [new.replace(invars=renamed(new.invars), outvars=renamed(new.outvars)) for new in traced.eqns]


def _convolution(images: Array, kernel: Array, *, dimension_numbers: lax.ConvDimensionNumbers, **params: Any) -> Array:
    """The same convolution: operands transposed to the plain order, the result back from it."""
    last = images.ndim - 1
    spatial = range(1, last)
    plain = lax.ConvDimensionNumbers((0, last, *spatial), (last, last - 1, *range(last - 1)), (0, last, *spatial))
    (batch, channels, *rest), (out, into, *window), (n, c, *places) = dimension_numbers
    result = lax.conv_general_dilated_p.bind(
        lax.transpose(images, (batch, *rest, channels)),
        lax.transpose(kernel, (*window, into, out)),
        dimension_numbers=plain,
        **params,
    )
    order = (n, *places, c)
    return lax.transpose(result, [order.index(axis) for axis in range(images.ndim)])
