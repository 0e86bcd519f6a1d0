"""An exponent that is a number when the loss is traced, and may be taken by products, against one that is an array."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxfocal as jf
from jaxfocal.losses._power import by_products
from jaxfocal.losses._rules import Known
from parity_tests.compiling import USUAL

LOSSES = {
    "hard": lambda x, y, b: jf.sigmoid_focal_loss(x, (y > 0.5).astype(jnp.int32), gamma=b),
    "soft": lambda x, y, b: jf.sigmoid_focal_loss(x, y, gamma=b),
    "poly": lambda x, y, b: jf.sigmoid_poly_focal_loss(x, y, gamma=b),
    "quality": lambda x, y, b: jf.quality_focal_loss(x, y, beta=b),
    "varifocal": lambda x, y, b: jf.varifocal_loss(x, y, gamma=b),
    "gaussian": lambda x, y, b: jf.gaussian_focal_loss(x, y, alpha=b, beta=b),
    "asymmetric": lambda x, y, b: jf.asymmetric_loss(x, y, gamma_pos=b, gamma_neg=b),
}
MODERATE = np.linspace(-12.0, 12.0, 49)
FAR = np.array([-np.inf, -1e4, -800.0, -700.0, -104.0, -88.0, 0.0, 88.0, 104.0, 700.0, 800.0, 1e4, np.inf])
LABELS = np.array([0.0, 1e-30, 0.2, 0.5, 0.9, 1.0])


def value_and_derivatives(loss, x, y, b):
    """The loss, its slope and its curvature, and the slope by the label."""

    def slope(x, y):
        return jax.grad(lambda x: loss(x, y, b))(x)

    def of_one(x, y):
        return loss(x, y, b), slope(x, y), jax.grad(slope)(x, y), jax.grad(lambda y: loss(x, y, b))(y)

    return jax.vmap(of_one)(x, y)


@pytest.mark.parametrize("b", [0, 0.5, 1, 1.5, 2, 3.5, 8, 8.5])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_the_same_as_with_an_array(loss, b):
    x, y = (a.ravel() for a in np.meshgrid(np.concatenate([MODERATE, FAR]), LABELS))
    known = jax.jit(lambda x, y: value_and_derivatives(loss, x, y, b))(x, y)
    array = jax.jit(lambda x, y, b: value_and_derivatives(loss, x, y, b))(x, y, jnp.asarray(b, float))
    for ours, theirs in zip(known, array, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-300)


@pytest.mark.parametrize("b", [0, 1, 1.5, 2, 8])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_finite_in_float32(loss, b):
    x, y = (a.ravel().astype(np.float32) for a in np.meshgrid(FAR[1:-1], LABELS))
    for result in jax.jit(lambda x, y: value_and_derivatives(loss, x, y, b))(x, y):
        assert result.dtype == jnp.float32
        assert np.isfinite(result).all()


@pytest.mark.parametrize("labels", [jnp.float32, jnp.uint8])
@pytest.mark.parametrize("gamma", [1.5, 2.0])
def test_the_focal_loss_takes_neither_logarithm_nor_power(labels, gamma):
    x, y = (jax.ShapeDtypeStruct((1000,), dtype) for dtype in (jnp.float32, labels))
    program = jax.jit(jax.grad(lambda x, y: jf.sigmoid_focal_loss(x, y, gamma=gamma, reduction="sum"))).lower(x, y)
    text = program.compile(compiler_options=USUAL).as_text()
    assert " log(" not in text
    assert text.count(" exponential(") == 1


@pytest.mark.parametrize("number", [2, 2.0, np.float32(2), np.int64(2)], ids=lambda number: type(number).__name__)
def test_numbers_of_python_and_numpy_are_known(number):
    jaxpr = jax.make_jaxpr(lambda x: jf.sigmoid_focal_loss(x, x, gamma=number))(np.full(3, 0.25))
    assert "integer_pow" in str(jaxpr)


def test_which_exponents_are_products():
    assert [b for b in np.arange(-1, 9.5, 0.25) if by_products(Known(b))] == [0, *np.arange(1, 8.5, 0.5)]
    assert not by_products(jnp.asarray(2.0))


def test_a_known_number_stays_known():
    b = Known(3)
    for result, value in ((b + 1, 4), (b - 1, 2), (b / 2, 1.5)):
        assert type(result) is Known
        assert result == value
    assert jax.tree.leaves(b) == []
    np.testing.assert_array_equal(b * jnp.arange(3.0), [0, 3, 6])
