"""Float32 values and gradients against 90-digit arithmetic, for margins from -1e4 to 1e4."""

import jax
import numpy as np
import pytest

import jaxfocal as jf
from parity_tests.cases import CASES
from parity_tests.losses.float32_error import EPS, GAMMAS, SMALLEST_NORMAL, worst_errors


@pytest.mark.parametrize("case", [case for case in CASES if not case.id.endswith("_soft")], ids=lambda case: case.id)
def test_within_the_bound(case):
    for worst in worst_errors(case):
        assert worst.value <= 1, worst
        assert worst.gradient <= 1, worst


@pytest.mark.parametrize("span", [0.01, 1.0, 20.0, 90.0])
def test_within_the_bound_everywhere(span):
    """On a grid too dense for many digits: float64, which the other laws hold to them, says what is right."""

    def value_and_slope(z, gamma):
        return jax.vmap(jax.value_and_grad(lambda z: jf.sigmoid_focal_loss(z, np.array(1), gamma=gamma)))(z)

    z = np.linspace(-span, span, 200_001, dtype=np.float32)
    function = jax.jit(value_and_slope)
    for gamma in np.float32(GAMMAS):
        bound = 4 * EPS * (1 + (1 + np.float64(gamma)) * np.abs(np.float64(z)))
        for got, right in zip(function(z, gamma), function(np.float64(z), np.float64(gamma)), strict=True):
            normal = np.abs(right) >= SMALLEST_NORMAL
            assert (np.abs(np.float64(got) - right)[normal] <= (bound * np.abs(right))[normal]).all()
