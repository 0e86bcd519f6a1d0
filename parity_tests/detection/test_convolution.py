"""A 1x1 convolution is computed as a product of matrices, and equals the convolution."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from jaxfocal.detection.convolution import conv


def layer(size, stride, **dtypes):
    normal = nnx.initializers.normal(1.0)
    return conv(5, 7, size, stride, kernel_init=normal, bias_init=normal, rngs=nnx.Rngs(0), **dtypes)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("shape", [(1, 6, 9), (2, 7, 5), (2, 1, 1)])
def test_value_and_gradients(shape, stride):
    rng = np.random.default_rng(0)
    images = jnp.asarray(rng.normal(size=(*shape, 5)))
    graphdef, params = nnx.split(layer(1, stride, param_dtype=jnp.float64))

    def convolution(images, params):
        dimensions = ("NHWC", "HWIO", "NHWC")
        y = jax.lax.conv_general_dilated(
            images, params["kernel"][...], (stride,) * 2, "VALID", dimension_numbers=dimensions
        )
        return y + params["bias"][...].reshape(1, 1, 1, -1)

    y, pullback = jax.vjp(lambda images, params: nnx.merge(graphdef, params)(images), images, params)
    right, right_pullback = jax.vjp(convolution, images, params)
    cotangent = jnp.asarray(rng.normal(size=right.shape))
    results, expected = (
        jax.tree.leaves(tree) for tree in ((y, pullback(cotangent)), (right, right_pullback(cotangent)))
    )
    for a, b in zip(results, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-13 * np.abs(b).max())


def test_only_larger_kernels_are_convolutions():
    def primitives(size):
        program = jax.make_jaxpr(layer(size, 2))(jnp.ones((1, 8, 8, 5), jnp.float32))
        return {equation.primitive.name for equation in program.eqns}

    assert "conv_general_dilated" not in primitives(1)
    assert "conv_general_dilated" in primitives(3)


def test_the_dtype_of_the_computation():
    images = jnp.ones((1, 4, 4, 5), jnp.float32)
    for size in (1, 3):
        assert layer(size, 1, dtype=jnp.bfloat16)(images).dtype == jnp.bfloat16
