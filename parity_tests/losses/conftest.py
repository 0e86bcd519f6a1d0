"""Where only the losses run, JAX may not promote dtypes silently."""

import jax
import pytest


@pytest.fixture(autouse=True)
def strict_dtypes():
    with jax.numpy_dtype_promotion("strict"):
        yield
