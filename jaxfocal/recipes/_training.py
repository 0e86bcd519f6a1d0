"""What training loops share: models as functions, batches that a step's number decides, losses that stay finite."""

import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import Array

from jaxfocal import __version__

Arrays = dict[str, Array]


def pure(module: nnx.Module) -> tuple[Callable[[Any, Array], Array], Any]:
    """The module as a function of its parameters and its input, and the parameters."""
    graphdef, params = nnx.split(module)
    return lambda params, x: nnx.merge(graphdef, params)(x), params


@partial(jax.jit, static_argnames="batch_size")
def sample_batches(data: Arrays, key: Array, steps: Array, batch_size: int) -> Arrays:
    """The batches of ``steps (n,)``, stacked: ``(n, batch_size, ...)``; each step has its own key."""
    num_examples = len(next(iter(data.values())))

    def indices(step: Array) -> Array:
        return jax.random.randint(jax.random.fold_in(key, step), (batch_size,), 0, num_examples, jnp.int32)

    return jax.tree.map(lambda array: array[jax.vmap(indices)(steps)], data)


def measured_on(begin: float) -> dict[str, Any]:
    """What a summary says of a run that began at ``begin`` of ``time.perf_counter``: seconds, device and versions."""
    return {
        "duration_seconds": round(time.perf_counter() - begin, 2),
        "device": jax.devices()[0].device_kind,
        "versions": {"jaxfocal": __version__}
        | {name: version(name) for name in ("jax", "flax", "optax", "numpy", "scikit-learn")},
    }


def check_finite(metrics: dict[str, np.ndarray], start: int) -> None:
    """FloatingPointError where a metric of the steps after ``start`` is not finite."""
    for name, values in metrics.items():
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            found = f"{name} is {values[bad[0]]} at step {start + bad[0] + 1}"
            raise FloatingPointError(f"training diverged: {found}; a lower learning rate may help")
