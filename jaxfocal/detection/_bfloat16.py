"""Convolutions in bfloat16 at the speed that a CPU has for it.

XLA's CPU compiler runs a convolution of bfloat16, and a product of matrices with a bfloat16 result, as one of float32.
A product with a float32 result goes to the processor's own instructions for bfloat16, in about half the time. What only
moves bfloat16 numbers the compiler widens to float32 and back; integers of 16 bits it moves as they are.
"""

import math
from collections.abc import Callable
from functools import partial, reduce

import jax
import jax.numpy as jnp
from jax import Array, lax
from jaxtyping import BFloat16, Float, UInt16

from .._tangents import tangent

STRIP = 2**17  # numbers read for one strip: more of them, and the float32 sums leave the cache
LEAST_PIXELS = 512  # of a strip: a product of fewer rows is slower


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def faster_on_cpu(fast: Callable[..., Array], product: Callable[..., Array], a: Array, b: Array) -> Array:
    """``product(a, b)``, linear in both, on CPUs by ``fast``; derivatives everywhere are those of ``product``."""
    return lax.platform_dependent(a, b, cpu=fast, default=product)


@partial(faster_on_cpu.defjvp, symbolic_zeros=True)
def _faster_on_cpu_jvp(fast, product, primals, tangents):
    """``d(a b) = da b + a db``; the term of what does not move is left out."""
    return faster_on_cpu(fast, product, *primals), tangent(product, primals, tangents)


def multiply(pixels: BFloat16[Array, "*n c"], matrix: BFloat16[Array, "c d"]) -> BFloat16[Array, "*n d"]:
    """``pixels @ matrix``, added up in float32."""
    return _in_float32(pixels, matrix).astype(jnp.bfloat16)


def convolve(
    images: BFloat16[Array, "b h w c"], kernel: BFloat16[Array, "k k c d"], stride: int
) -> BFloat16[Array, "b i j d"]:
    """The convolution that pads by half the kernel's size, added up in float32, a strip of rows at a time."""
    size, _, channels, out_channels = kernel.shape
    pad = (size // 2, size // 2)
    padded = jnp.pad(_bits(images), ((0, 0), pad, pad, (0, 0)))
    batch, height, width = (images.shape[0], *((n - size) // stride + 1 for n in padded.shape[1:3]))
    strips = math.ceil(batch * height * width / max(STRIP // channels, LEAST_PIXELS))
    rows = math.ceil(height / max(1, min(strips, height)))

    def with_strip(i: Array, out: Array) -> Array:
        start = jnp.minimum(i * rows, height - rows)  # the last strip overlaps the one before
        windows = lax.dynamic_slice_in_dim(padded, start * stride, (rows - 1) * stride + size, axis=1)
        strip = _convolve_padded(windows, kernel, stride).astype(jnp.bfloat16)
        return lax.dynamic_update_slice_in_dim(out, _bits(strip), start, axis=1)

    out = jnp.broadcast_to(padded[:, :1, :1, :1], (batch, height, width, out_channels))  # sharded as the images are
    return _numbers(lax.fori_loop(0, math.ceil(height / rows), with_strip, out))


def _convolve_padded(padded: UInt16[Array, "b h w c"], kernel: Array, stride: int) -> Float[Array, "b i j d"]:
    """The pixels of a window's row side by side, times that row of the kernel, for each of its rows."""
    size, _, channels, out_channels = kernel.shape

    def every(axis: int, offset: int, x: Array) -> Array:
        return lax.slice_in_dim(x, offset, x.shape[axis] - size + 1 + offset, stride, axis)

    window_rows = jnp.concatenate([every(2, j, padded) for j in range(size)], axis=-1)
    kernel_rows = kernel.reshape(size, size * channels, out_channels)
    products = [_in_float32(_numbers(every(1, i, window_rows)), kernel_rows[i]) for i in range(size)]
    return reduce(jnp.add, products)


def _in_float32(a: Array, b: Array) -> Float[Array, "*n d"]:
    return jnp.matmul(a, b, preferred_element_type=jnp.float32)


def _bits(numbers: BFloat16[Array, "*n"]) -> UInt16[Array, "*n"]:
    return lax.bitcast_convert_type(numbers, jnp.uint16)


def _numbers(bits: UInt16[Array, "*n"]) -> BFloat16[Array, "*n"]:
    return lax.bitcast_convert_type(bits, jnp.bfloat16)
