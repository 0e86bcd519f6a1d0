"""What the sum of an elementwise loss and its gradient cost in memory, and the polynomials in it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxfocal
from jaxfocal.losses._logarithms import log1p_down, log1p_up

from ..compiling import USUAL

EPS32 = float(np.finfo(np.float32).eps)


def sum_and_gradient(logits, labels):
    return jax.value_and_grad(lambda x: jaxfocal.sigmoid_focal_loss(x, labels, alpha=0.25, reduction="sum"))(logits)


@pytest.mark.parametrize("dtype", [jnp.uint8, jnp.float32])
def test_one_array_beside_the_gradient(dtype):
    logits = jax.ShapeDtypeStruct((2, 5000, 80), jnp.float32)
    labels = jax.ShapeDtypeStruct(logits.shape, dtype)
    compiled = jax.jit(sum_and_gradient).lower(logits, labels).compile(compiler_options=USUAL)
    assert compiled.memory_analysis().temp_size_in_bytes <= 1.25 * 4 * logits.size


@pytest.mark.parametrize(("log1p", "low", "high"), [(log1p_up, 0.0, 1.0), (log1p_down, -0.5, 0.0)])
def test_logarithms_to_the_rounding_of_float32(log1p, low, high):
    u = np.append(np.linspace(low, high, 200_001), [np.copysign(1e-30, low + high), 0.0]).astype(np.float32)
    right = np.log1p(u.astype(np.float64))
    np.testing.assert_allclose(np.asarray(jax.jit(log1p)(u), np.float64), right, rtol=1.5 * EPS32, atol=0)
