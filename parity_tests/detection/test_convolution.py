"""Convolutions computed as products of matrices, 1x1 ones always and others in bfloat16 on CPUs, are convolutions."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from jaxfocal.detection import _bfloat16
from jaxfocal.detection.convolution import LEAST_CHANNELS, conv

ROOT = Path(__file__).parents[2]
DIMENSIONS = ("NHWC", "HWIO", "NHWC")
BFLOAT16 = {"dtype": jnp.bfloat16, "param_dtype": jnp.bfloat16}


def layer(size, stride, channels=5, **dtypes):
    normal = nnx.initializers.normal(1.0)
    return conv(channels, 7, size, stride, kernel_init=normal, bias_init=normal, rngs=nnx.Rngs(0), **dtypes)


def convolution(images, kernel, stride):
    pad = kernel.shape[0] // 2
    return jax.lax.conv_general_dilated(images, kernel, (stride,) * 2, ((pad, pad),) * 2, dimension_numbers=DIMENSIONS)


def images_and_layer(shape, size, stride, **dtypes):
    channels = shape[-1]
    images = jnp.asarray(np.random.default_rng(0).normal(size=shape), dtypes["param_dtype"])
    graphdef, params = nnx.split(layer(size, stride, channels, **dtypes))
    return images, params, lambda images, params: nnx.merge(graphdef, params)(images)


def plain(images, params, stride):
    return convolution(images, params["kernel"][...], stride) + params["bias"][...].reshape(1, 1, 1, -1)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("shape", [(1, 6, 9), (2, 7, 5), (2, 1, 1)])
def test_value_and_gradients(shape, stride):
    images, params, of_layer = images_and_layer((*shape, 5), 1, stride, param_dtype=jnp.float64)
    y, pullback = jax.vjp(of_layer, images, params)
    right, right_pullback = jax.vjp(partial(plain, stride=stride), images, params)
    cotangent = jnp.asarray(np.random.default_rng(1).normal(size=right.shape))
    results, expected = (
        jax.tree.leaves(tree) for tree in ((y, pullback(cotangent)), (right, right_pullback(cotangent)))
    )
    for a, b in zip(results, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-13 * np.abs(b).max())


@pytest.mark.parametrize("size", [1, 3, 5])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("shape", [(1, 23, 9), (2, 10, 14), (2, 1, 1), (0, 4, 4)])
def test_bfloat16_rounds_once(shape, stride, size, monkeypatch):
    """Products are added up in float32, whatever the strips: the last one overlaps, or one is all there is."""
    monkeypatch.setattr(_bfloat16, "LEAST_PIXELS", 40)
    monkeypatch.setattr(_bfloat16, "STRIP", 1)
    images, params, _ = images_and_layer((*shape, LEAST_CHANNELS), size, stride, **BFLOAT16)
    kernel = params["kernel"][...]
    if size == 1:
        y = _bfloat16.multiply(images[:, ::stride, ::stride], kernel[0, 0])
    else:
        y = _bfloat16.convolve(images, kernel, stride)
    images, kernel = images.astype(jnp.float64), kernel.astype(jnp.float64)
    right, magnitude = convolution(images, kernel, stride), convolution(jnp.abs(images), jnp.abs(kernel), stride)
    roundings_of_the_sum = size**2 * LEAST_CHANNELS * 2.0**-24 * magnitude
    assert y.dtype == jnp.bfloat16
    assert y.shape == right.shape
    assert np.all(np.abs(y.astype(jnp.float64) - right) <= 2.0**-8 * np.abs(right) + roundings_of_the_sum)


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("stride", [1, 2])
def test_bfloat16_has_the_derivatives_of_the_convolution(size, stride):
    shape = (2, 9, 6, LEAST_CHANNELS)
    images, params, of_layer = images_and_layer(shape, size, stride, **BFLOAT16)
    _, right_pullback = jax.vjp(partial(plain, stride=stride), images, params)
    y, pullback = jax.vjp(of_layer, images, params)
    _, tangent = jax.jvp(of_layer, (images, params), (images, params))
    _, right_tangent = jax.jvp(partial(plain, stride=stride), (images, params), (images, params))
    ones = jnp.ones_like(y)
    results, expected = (
        jax.tree.leaves(tree) for tree in ((pullback(ones), tangent), (right_pullback(ones), right_tangent))
    )
    for a, b in zip(results, expected, strict=True):
        largest = float(jnp.abs(b).max())
        np.testing.assert_allclose(a.astype(jnp.float64), b.astype(jnp.float64), rtol=0, atol=2.0**-7 * largest)


def primitives(module, channels=5, dtype=jnp.float32):
    program = jax.make_jaxpr(module)(jnp.ones((1, 8, 8, channels), dtype))
    return {equation.primitive.name for equation in program.eqns}


def test_only_larger_kernels_are_convolutions():
    assert "conv_general_dilated" not in primitives(layer(1, 2))
    assert "conv_general_dilated" in primitives(layer(3, 2))


@pytest.mark.parametrize("size", [1, 3])
def test_the_programs_of_bfloat16(size):
    """On a CPU products of bfloat16 with float32 results and no convolution; elsewhere no trace of that."""
    module = layer(size, 1, LEAST_CHANNELS, **BFLOAT16)
    traced = jax.jit(lambda images: module(images)).trace(jnp.ones((1, 8, 8, LEAST_CHANNELS), jnp.bfloat16))
    on_cpu, on_gpu = (traced.lower(lowering_platforms=(platform,)).as_text() for platform in ("cpu", "cuda"))
    assert f"x{LEAST_CHANNELS * size}xbf16>" in on_cpu
    assert "xf32>" in on_cpu
    assert "stablehlo.convolution" not in on_cpu
    assert "xf32>" not in on_gpu
    assert "stablehlo.while" not in on_gpu
    assert ("stablehlo.convolution" in on_gpu) == (size > 1)


def test_few_channels_are_convolved_in_bfloat16_too():
    assert "conv_general_dilated" in primitives(layer(3, 1, 3, **BFLOAT16), 3, jnp.bfloat16)


def test_the_dtype_of_the_computation():
    images = jnp.ones((1, 4, 4, 5), jnp.float32)
    for size in (1, 3):
        assert layer(size, 1, dtype=jnp.bfloat16)(images).dtype == jnp.bfloat16


MESH = """
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from jaxfocal.detection.convolution import conv

layer = conv(64, 8, 3, kernel_init=nnx.initializers.normal(1.0), dtype=jnp.bfloat16, rngs=nnx.Rngs(0))
graphdef, params = nnx.split(layer)
images = jnp.asarray(np.random.default_rng(0).normal(size=(8, 50, 40, 64)), jnp.bfloat16)
of_layer = jax.jit(lambda params, images: nnx.merge(graphdef, params)(images))
alone = of_layer(params, images)
for kind in (AxisType.Auto, AxisType.Explicit):
    mesh = jax.make_mesh((8,), ("batch",), axis_types=(kind,))
    placed = jax.device_put(params, NamedSharding(mesh, P())), jax.device_put(images, NamedSharding(mesh, P("batch")))
    compiled = of_layer.lower(*placed).compile()
    assert "bf16[1," in compiled.as_text() and "all-gather" not in compiled.as_text()
    np.testing.assert_array_equal(np.asarray(compiled(*placed)), np.asarray(alone))
print("same")
"""


def test_a_batch_in_bfloat16_over_eight_devices():
    """Each device convolves its own images, strip by strip."""
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", MESH], capture_output=True, text=True, env=environment, cwd=ROOT)
    assert done.stdout == "same\n", done.stderr
