"""Float32 values and gradients against 90-digit arithmetic, for margins from -1e4 to 1e4."""

import jax
import numpy as np
import pytest

import jaxfocal as jf
from parity_tests.cases import CASES, EPS, SMALLEST_NORMAL, variants_of
from parity_tests.compiling import jit_as_usual
from parity_tests.losses.float32_error import GAMMAS, worst_errors

SPANS = (0.01, 1.0, 20.0, 90.0)


@pytest.mark.parametrize("case", [case for case in CASES if case.any_size], ids=lambda case: case.id)
def test_within_the_bound(case):
    for worst in worst_errors(case):
        assert worst.value <= 1, worst
        assert worst.gradient <= 1, worst


@pytest.mark.parametrize("span", SPANS)
def test_within_the_bound_everywhere(span):
    """On a grid too dense for many digits: float64, which the other laws hold to them, says what is right."""
    function = jit_as_usual(value_and_slope)
    for gamma in np.float32(GAMMAS):
        assert_within_the_bound(lambda z, gamma=gamma: function(z, z.dtype.type(gamma)), span, np.float64(gamma))


@pytest.mark.parametrize("gamma", [1.5, 2.0])
def test_within_the_bound_by_products(gamma):
    """Where the exponent is a number when the loss is traced."""
    function = jit_as_usual(lambda z: value_and_slope(z, gamma))
    for span in SPANS:
        assert_within_the_bound(function, span, gamma)


def value_and_slope(z, gamma):
    return jax.vmap(jax.value_and_grad(lambda z: jf.sigmoid_focal_loss(z, np.array(1), gamma=gamma)))(z)


def assert_within_the_bound(function, span, gamma):
    z = np.linspace(-span, span, 200_001, dtype=np.float32)
    bound = 4 * EPS * (1 + (1 + gamma) * np.abs(np.float64(z)))
    for got, right in zip(function(z), function(np.float64(z)), strict=True):
        normal = np.abs(right) >= SMALLEST_NORMAL
        assert (np.abs(np.float64(got) - right)[normal] <= (bound * np.abs(right))[normal]).all()


@pytest.mark.parametrize(("case", "options"), variants_of())
def test_ordinary_logits(case, options):
    """Every loss and every option: float32 against float64 at the same logits."""

    def value_and_gradient(x, y, options, compiled):
        def loss(x):
            values = case.loss(x, y, **options)
            return values.sum(), values

        return jax.tree.map(np.float64, compiled(jax.grad(loss, has_aux=True))(x)[::-1])

    logits, labels = (np.float32(a) if a.dtype.kind == "f" else a for a in case.example())
    options32 = {name: np.float32(option) for name, option in options.items()}
    options64 = {name: np.float64(option) for name, option in options32.items()}
    got = value_and_gradient(logits, labels, options32, jit_as_usual)
    labels64 = np.float64(labels) if labels.dtype.kind == "f" else labels
    right = value_and_gradient(np.float64(logits), labels64, options64, jax.jit)
    relative, absolute = case.float32_tolerance(np.float64(logits), labels, np.max(options.get("gamma", 2.0)))
    assert (np.abs(got[0] - right[0]) <= relative * np.abs(right[0]) + absolute).all()
    assert np.abs(got[1] - right[1]).max() <= np.max(relative) * np.abs(right[1]).max() + absolute
