"""The strict configuration that every test runs under."""

from pathlib import Path

import jax
import pytest

from parity_tests import compiling

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_default_matmul_precision", "highest")
compiling.quickly()

ENOUGH = 2.5 * 2**30  # bytes of one worker


@pytest.fixture(autouse=True, scope="module")
def forget_what_was_compiled():
    """Thousands of small programs would take gigabytes of each worker; but most modules run the same ones."""
    yield
    statm = Path("/proc/self/statm")
    if not statm.exists() or int(statm.read_text().split()[1]) * 4096 > ENOUGH:
        jax.clear_caches()
