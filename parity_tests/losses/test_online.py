"""The sums of a row in one reading, which softmax losses take on GPUs, against those in two."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxfocal as jf
from jaxfocal.losses import _margin
from jaxfocal.losses._online import top_and_total

INF, NAN = np.inf, np.nan
ROWS = np.array(
    [
        [0.5, -1.0, 2.0, 0.0],
        [1e4, -1e4, 0.0, 1e4],
        [-1e4, -1e4, -1e4, 30.0],
        [-INF, 1.0, 2.0, -INF],
        [-INF, 3.0, -INF, -INF],
        [-INF, -INF, -INF, -INF],
        [INF, 1.0, 2.0, 3.0],
        [1.0, NAN, 2.0, 3.0],
        [0.0, 0.0, 0.0, 0.0],
    ]
)
LABELS = np.array([0, 3, 1, 1, 1, 2, 1, 0, 3])
FINITE = np.array([0, 1, 2, 3, 8])


@pytest.fixture
def by_both(monkeypatch):
    """Runs a function once in each form, and gives both results."""

    def run(function, *args):
        results = []
        for on_cpu in (True, False):
            monkeypatch.setattr(_margin, "on_cpu", lambda on_cpu=on_cpu: on_cpu)
            results.append(jax.tree.map(np.asarray, jax.jit(lambda *args: function(*args))(*args)))
        return results

    return run


def loss(logits, labels, gamma=2.0):
    return jf.softmax_focal_loss(logits, labels, gamma=gamma)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_values_and_gradients_are_the_same_on_every_row(by_both, gamma, dtype):
    def value_and_gradient(logits, labels):
        value, pullback = jax.vjp(partial(loss, labels=labels, gamma=gamma), logits)
        return value, pullback(jnp.ones_like(value))[0]

    two, one = by_both(value_and_gradient, jnp.asarray(ROWS, dtype), LABELS)
    eps = np.finfo(dtype).eps
    for expected, got in zip(two, one, strict=True):
        np.testing.assert_allclose(got, expected, rtol=16 * eps, atol=0)
    assert np.isfinite(one[0][FINITE]).all()
    assert np.isnan(one[0][[6, 7]]).all()


def test_long_rows_in_any_order_of_joining(by_both):
    logits = np.random.default_rng(0).normal(scale=20, size=(3, 5000))
    two, one = by_both(loss, jnp.asarray(logits), np.array([0, 4999, 77]))
    np.testing.assert_allclose(one, two, rtol=1e-13)


def test_second_derivatives_are_the_same(by_both):
    def hessian(logits, labels):
        return jax.vmap(jax.hessian(loss))(logits, labels)

    two, one = by_both(hessian, jnp.asarray(ROWS[FINITE]), LABELS[FINITE])
    np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-300)


def test_the_sums_of_a_row():
    left_out = np.zeros(ROWS.shape, bool)
    left_out[np.arange(len(ROWS)), LABELS] = True
    top, total = top_and_total(jnp.asarray(ROWS), jnp.asarray(left_out))
    assert top[:, 0].tolist()[:6] == [2.0, 1e4, 30.0, 2.0, 3.0, 0.0]
    right = [np.exp(-3) + 1 + np.exp(-2), 1.0, 1.0, 1.0, 0.0, 0.0, NAN, NAN, 3.0]
    np.testing.assert_allclose(total[:, 0], right, rtol=1e-15)
