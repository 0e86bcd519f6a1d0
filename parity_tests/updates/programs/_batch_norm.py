"""BatchNorm in plain arrays, as PyTorch has it: the running variance is the unbiased one."""

import jax
import jax.numpy as jnp
import numpy as np

MOMENTUM, EPS = 0.1, 1e-5


def draw_norm(channels: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Parameters away from 1 and 0, and the statistics at the start."""
    rng = np.random.default_rng(channels)
    params = {"scale": rng.normal(1.0, 0.1, channels), "bias": rng.normal(0.0, 0.1, channels)}
    return params, {"mean": np.zeros(channels), "var": np.ones(channels)}


def batch_norm(params, statistics, x: jax.Array):
    """``x (n, channels, ...)`` by its own mean and variance, and the statistics moved towards those."""
    axes = (0, *range(2, x.ndim))
    mean, var = jnp.mean(x, axis=axes), jnp.var(x, axis=axes)

    def along_channels(array):
        return jnp.expand_dims(array, axes)

    y = (x - along_channels(mean)) * jax.lax.rsqrt(along_channels(var) + EPS)
    n = x.size // len(mean)
    seen = {"mean": mean, "var": var * n / (n - 1)}
    moved = jax.tree.map(lambda old, new: (1 - MOMENTUM) * old + MOMENTUM * new, statistics, seen)
    return y * along_channels(params["scale"]) + along_channels(params["bias"]), moved
