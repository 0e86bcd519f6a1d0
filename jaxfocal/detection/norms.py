"""Batch normalisation as PyTorch computes it: running statistics that move, or that do not."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array
from jax.typing import DTypeLike
from jaxtyping import Float

EPS = 1e-5
MOMENTUM = 0.1  # the share of the newest batch


class FrozenStat(nnx.Variable):
    """A number of a normalisation that is not trained."""


class BatchNorm(nnx.Module):
    r"""Batch normalisation over all dimensions but the last, with PyTorch's running statistics.

    .. math:: y = s \frac{x - \mu}{\sqrt{\sigma^2 + 10^{-5}}} + b

    In training, mean and (biased) variance are those of the batch, and the running ones move a tenth of the way to
    them, the variance to the unbiased one. Under ``jax.jit`` with the batch sharded over a mesh they are those of the
    whole batch. Statistics of bfloat16 images are computed in float32.

    Args:
      num_features: channels.
      param_dtype: of parameters and statistics.

    The source is ``torch.nn.BatchNorm2d``.
    """

    def __init__(self, num_features: int, *, param_dtype: DTypeLike = jnp.float32):
        """Scale 1, bias 0, mean 0, variance 1."""
        self.scale = nnx.Param(jnp.ones(num_features, param_dtype))
        self.bias = nnx.Param(jnp.zeros(num_features, param_dtype))
        self.mean = nnx.BatchStat(jnp.zeros(num_features, param_dtype))
        self.var = nnx.BatchStat(jnp.ones(num_features, param_dtype))
        self.count = nnx.BatchStat(jnp.zeros((), jnp.int32))  # of batches; PyTorch keeps it

    def __call__(self, x: Float[Array, "*b c"], *, train: bool = False) -> Float[Array, "*b c"]:
        """Normalise; ``train=True`` by the batch, and moves the running statistics."""
        mean, var = self.mean[...], self.var[...]
        if train:
            axes = tuple(range(x.ndim - 1))
            count = x.size // x.shape[-1]
            if count < 2:
                raise ValueError(f"training needs more than one value a channel, got a batch of shape {x.shape}")
            wide = x.astype(mean.dtype)
            batch_mean = jnp.mean(wide, axis=axes)
            batch_var = jnp.mean(jnp.square(wide - _last(batch_mean, x)), axis=axes)
            stats = jax.lax.stop_gradient((batch_mean, batch_var * (count / (count - 1))))
            self.mean[...] = (1 - MOMENTUM) * mean + MOMENTUM * stats[0]
            self.var[...] = (1 - MOMENTUM) * var + MOMENTUM * stats[1]
            self.count[...] = self.count[...] + 1
            mean, var = batch_mean, batch_var
        return _normalize(x, mean, var, self.scale[...], self.bias[...], EPS)


class FrozenBatchNorm(nnx.Module):
    """Batch normalisation whose statistics, scale and bias are constants, in training too.

    Args:
      num_features: channels.
      eps: added to the variance. torchvision computes with 0 after loading its COCO weights of version 1;
        to follow it, set ``module.eps = 0.0`` for every ``FrozenBatchNorm`` of ``model.iter_modules()``.
      param_dtype: of the constants.

    The source is ``torchvision.ops.FrozenBatchNorm2d``.
    """

    def __init__(self, num_features: int, *, eps: float = EPS, param_dtype: DTypeLike = jnp.float32):
        """Scale 1, bias 0, mean 0, variance 1."""
        self.scale = FrozenStat(jnp.ones(num_features, param_dtype))
        self.bias = FrozenStat(jnp.zeros(num_features, param_dtype))
        self.mean = FrozenStat(jnp.zeros(num_features, param_dtype))
        self.var = FrozenStat(jnp.ones(num_features, param_dtype))
        self.eps = eps

    def __call__(self, x: Float[Array, "*b c"], *, train: bool = False) -> Float[Array, "*b c"]:
        """Normalise by the constants."""
        return _normalize(x, self.mean[...], self.var[...], self.scale[...], self.bias[...], self.eps)


def _normalize(x: Array, mean: Array, var: Array, scale: Array, bias: Array, eps: float) -> Array:
    factor = scale * jax.lax.rsqrt(var + eps)
    return x * _last(factor.astype(x.dtype), x) + _last((bias - mean * factor).astype(x.dtype), x)


def _last(channels: Array, x: Array) -> Array:
    return channels.reshape((1,) * (x.ndim - 1) + channels.shape)
