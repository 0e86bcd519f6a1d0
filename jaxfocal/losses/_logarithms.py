"""``log(1 + u)`` over two short intervals, in float32 by a polynomial.

XLA's own takes two branches, with a logarithm and a quotient, and a quotient that is used twice is stored by XLA's CPU
compiler rather than fused. A polynomial is all products and sums.
"""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float
from numpy.polynomial import Chebyshev, Polynomial

DEGREE = 10  # log(1 + u) / u is then off by 1e-9 at most, relative: by 1/60 of float32's spacing


def _log1p_over(low: float, high: float) -> Callable[[Float[Array, "*n"]], Float[Array, "*n"]]:
    """``log(1 + u)`` for ``u`` in ``[low, high]``, which includes 0."""
    ratio = Chebyshev.interpolate(_ratio, DEGREE, domain=[low, high])
    leading, *rest = ratio.convert(kind=Polynomial, domain=[-1, 1]).coef[::-1]

    def log1p(u: Float[Array, "*n"]) -> Float[Array, "*n"]:
        if u.dtype != jnp.float32:
            return jnp.log1p(u)
        value = jnp.full_like(u, leading)
        for coefficient in rest:
            value = value * u + u.dtype.type(coefficient)
        return u * value

    return log1p


def _ratio(u: np.ndarray) -> np.ndarray:
    """``log(1 + u) / u``."""
    return np.where(u == 0, 1.0, np.log1p(u) / np.where(u == 0, 1.0, u))


log1p_up = _log1p_over(0.0, 1.0)
log1p_down = _log1p_over(-0.5, 0.0)
