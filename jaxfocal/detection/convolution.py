"""The square convolutions that the network is made of."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array
from jax.typing import DTypeLike
from jaxtyping import Float

from ._bfloat16 import convolve, faster_on_cpu, multiply
from ._checks import check_float_dtype

LEAST_CHANNELS = 64  # of a convolution that is worth the copies: the first one, of three colours, is not


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
        conv_general_dilated=_of_pixels if size == 1 else _of_windows,
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
    product = partial(jax.lax.dot_general, dimension_numbers=contracted, precision=precision, out_sharding=out_sharding)
    if images.dtype == jnp.bfloat16:
        return faster_on_cpu(multiply, product, pixels, kernel[0, 0])
    return product(pixels, kernel[0, 0])


def _of_windows(
    images: Float[Array, "b h w c"],
    kernel: Float[Array, "k k c d"],
    strides: tuple[int, int],
    padding: Any,
    **options: Any,
) -> Float[Array, "b i j d"]:
    """A convolution; in bfloat16, a CPU does one of many channels as products of matrices too."""

    def convolution(images: Array, kernel: Array) -> Array:
        return jax.lax.conv_general_dilated(images, kernel, strides, padding, **options)

    if images.dtype == jnp.bfloat16 and images.shape[-1] >= LEAST_CHANNELS:
        return faster_on_cpu(partial(convolve, stride=strides[0]), convolution, images, kernel)
    return convolution(images, kernel)
