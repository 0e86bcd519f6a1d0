"""The gradient penalty of WGAN-GP."""

from collections.abc import Callable
from numbers import Real
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ._keys import check_key
from ._kinds import kind
from ._routes import reaches


def gradient_penalty(
    critic: Callable[[Array], Array], real: Array, fake: Array, key: Array, *, target: float = 1.0
) -> Array:
    """How far the critic's slope is from ``target`` between real and fake examples, squared.

    With one u_i a row, uniform in [0, 1), and points x_i = u_i real_i + (1 - u_i) fake_i:

        penalty    = mean_i (||d critic(x)_i / d x_i||_2 - target)^2
        d/dtheta   = mean_i 2 (n_i - target) dn_i/dtheta,   n_i the norm of row i over all its axes

    The norm's own derivative is taken as 0 where the norm is 0, as PyTorch does. It can be differentiated again by all
    that the critic depends on, and by ``real`` and ``fake``: in a critic's loss the fakes are constants, as all that
    belongs to other players.

    Args:
      critic: from (B, ...) to one score a row, (B,) or (B, 1). A score must not depend on other rows (no BatchNorm).
      real: (B, ...), floating point.
      fake: of the shape and dtype of ``real``.
      key: a random key, for the B numbers u.
      target: the slope that costs nothing, >= 0.

    Returns:
      The penalty, a scalar of the dtype of ``real``, at least float32.

    Raises:
      ValueError: where shapes or dtypes are not of that form, ``target`` is negative or not finite, or ``critic`` does
        not depend on its examples.

    >>> import jax, jax.numpy as jnp
    >>> real, fake = jnp.ones((4, 3)), jnp.zeros((4, 3))
    >>> print(gradient_penalty(lambda x: x @ jnp.array([0.0, 0.0, 3.0]), real, fake, jax.random.key(0)))
    4.0

    Gulrajani, Ahmed, Arjovsky, Dumoulin, Courville: Improved Training of Wasserstein GANs, 2017.
    """
    if not callable(critic):
        raise ValueError(f"critic must be a function of examples, got {kind(critic)}")
    real, fake = (jnp.asarray(x) if isinstance(x, np.ndarray) else x for x in (real, fake))
    _check_examples(real, fake)
    _check_target(target)
    check_key(key)
    u = jax.random.uniform(key, (len(real),) + (1,) * (real.ndim - 1), real.dtype)

    def total(x: Array) -> Array:
        scores = critic(x)
        _check_scores(scores, len(real))
        return jnp.sum(scores)

    between = u * real + (1 - u) * fake
    if not reaches(total, between):
        raise ValueError(
            "critic must depend on the examples that it is given, but no gradient of its scores gets to them"
        )
    slopes = jax.grad(total)(between)
    slopes = slopes.astype(jnp.promote_types(slopes.dtype, jnp.float32)).reshape(len(real), -1)
    return jnp.mean((_norm(slopes) - target) ** 2)


def _norm(rows: Array) -> Array:
    """Of each row; the root's infinite slope at 0 is kept out of the derivative."""
    squares = jnp.sum(rows**2, axis=1)
    positive = squares > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, squares, 1)), 0)


def _check_examples(real: Any, fake: Any) -> None:
    if not _is_floating(real) or real.ndim == 0 or len(real) == 0:
        raise ValueError(f"real must be floating-point examples (B, ...), B >= 1, got {kind(real)}")
    if not _is_floating(fake) or (fake.shape, fake.dtype) != (real.shape, real.dtype):
        raise ValueError(f"fake must be as real is, {kind(real)}, got {kind(fake)}")


def _check_scores(scores: Any, rows: int) -> None:
    if not _is_floating(scores) or scores.shape not in ((rows,), (rows, 1)):
        raise ValueError(
            f"critic must return one floating-point score a row, shape {(rows,)} or {(rows, 1)}, got {kind(scores)}"
        )


def _check_target(target: Any) -> None:
    if isinstance(target, bool) or not (isinstance(target, Real) or (_is_floating(target) and target.ndim == 0)):
        raise ValueError(f"target must be a number, got {kind(target)}")
    if isinstance(target, Real) and not 0 <= float(target) < float("inf"):
        raise ValueError(f"target must be >= 0 and finite, got {target!r}")


def _is_floating(x: Any) -> bool:
    return isinstance(x, jax.Array | np.generic) and jnp.issubdtype(x.dtype, jnp.floating)
