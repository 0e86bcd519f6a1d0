"""Memory of an elementwise loss: value and gradient take one array beside the gradient, and shards stay where they are."""

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


@pytest.mark.parametrize("labels_dtype", ["uint8", "float32"])
def test_peak_temporaries(labels_dtype):
    logits = jax.ShapeDtypeStruct((2, 5000, 80), jnp.float32)
    labels = jax.ShapeDtypeStruct(logits.shape, labels_dtype)
    compiled = jax.jit(sum_and_gradient).lower(logits, labels).compile(compiler_options=USUAL)
    assert compiled.memory_analysis().temp_size_in_bytes <= 1.25 * 4 * logits.size


@pytest.mark.parametrize(("log1p", "low", "high"), [(log1p_up, 0.0, 1.0), (log1p_down, -0.5, 0.0)])
def test_logarithms(log1p, low, high):
    u = np.append(np.linspace(low, high, 200_001), [np.copysign(1e-30, low + high), 0.0]).astype(np.float32)
    right = np.log1p(u.astype(np.float64))
    got = np.asarray(jax.jit(log1p)(u), np.float64)
    np.testing.assert_allclose(got, right, rtol=1.5 * EPS32, atol=0)
    np.testing.assert_allclose(jax.jit(log1p)(u.astype(np.float64)), right * (1 + 0 * u), rtol=1e-15)
