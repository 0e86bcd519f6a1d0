"""The strict configuration that every test runs under."""

import jax
import pytest

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_default_matmul_precision", "highest")


@pytest.fixture(autouse=True, scope="module")
def forget_what_was_compiled():
    """Thousands of small programs would otherwise take gigabytes of each worker."""
    yield
    jax.clear_caches()
