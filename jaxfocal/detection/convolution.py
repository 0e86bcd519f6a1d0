"""The square convolutions that the network is made of."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array
from jax.typing import DTypeLike
from jaxtyping import Float

from ._checks import check_float_dtype


def conv(
    channels: int,
    out_channels: int,
    size: int,
    stride: int = 1,
    *,
    kernel_init: jax.nn.initializers.Initializer,
    dtype: DTypeLike | None = None,
    param_dtype: DTypeLike = jnp.float32,
    rngs: nnx.Rngs,
    **options: Any,
) -> nnx.Conv:
    """A square convolution padded by half its size on every side, as PyTorch does whatever the stride."""
    check_float_dtype("dtype", dtype)
    check_float_dtype("param_dtype", param_dtype)
    if not isinstance(rngs, nnx.Rngs):
        raise ValueError(f"rngs must be nnx.Rngs, as nnx.Rngs(0), got {rngs!r}")
    return nnx.Conv(
        channels,
        out_channels,
        (size, size),
        strides=stride,
        padding=((size // 2, size // 2),) * 2,
        kernel_init=kernel_init,
        dtype=dtype,
        param_dtype=param_dtype,
        conv_general_dilated=_of_pixels if size == 1 else jax.lax.conv_general_dilated,
        rngs=rngs,
        **options,
    )


def _of_pixels(
    images: Float[Array, "b h w c"],
    kernel: Float[Array, "1 1 c d"],
    strides: tuple[int, int],
    padding: Any,
    *,
    precision: Any,
    out_sharding: Any = None,
    **_: Any,
) -> Float[Array, "b i j d"]:
    """A 1x1 convolution as the product of matrices that it is.

    The gradient of the convolution takes several times as long from XLA's CPU compiler.
    """
    rows, columns = strides
    pixels = images[:, ::rows, ::columns]
    contracted = (((3,), (0,)), ((), ()))
    return jax.lax.dot_general(pixels, kernel[0, 0], contracted, precision=precision, out_sharding=out_sharding)
