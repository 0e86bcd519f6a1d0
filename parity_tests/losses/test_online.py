"""The softmax losses in the form that they take on GPUs, against the one on CPUs."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxfocal as jf
from jaxfocal.losses import _margin, _rows
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
            for module in (_margin, _rows):
                monkeypatch.setattr(module, "on_cpu", lambda on_cpu=on_cpu: on_cpu)
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


def distributions(shape):
    y = np.random.default_rng(1).dirichlet(np.ones(shape[-1]), shape[:-1])
    return np.where(np.isneginf(ROWS), 0, y) if shape == ROWS.shape else y


SOFT = {
    "smoothing": (LABELS, {"label_smoothing": 0.1}),
    "distributions": (distributions(ROWS.shape), {}),
    "class weights": (distributions(ROWS.shape), {"class_weights": np.array([0.5, 0.0, 2.0, 1.0])}),
    "gamma a class": (distributions(ROWS.shape), {"gamma": np.array([0.0, 0.5, 2.0, 3.0])}),
    "gamma a row": (LABELS, {"gamma": np.linspace(0, 4, len(ROWS))[:, None], "label_smoothing": 0.3}),
    "one-hot": (np.eye(4)[LABELS], {}),
}


@pytest.mark.parametrize("loss", [jf.softmax_focal_loss, partial(jf.softmax_poly_focal_loss, epsilon=0.7)])
@pytest.mark.parametrize(("labels", "options"), SOFT.values(), ids=SOFT)
def test_label_distributions(by_both, loss, labels, options):
    def value_and_gradient(logits):
        value, pullback = jax.vjp(lambda x: loss(x, labels, **options), logits)
        return value, pullback(jnp.ones_like(value))[0]

    two, one = by_both(value_and_gradient, jnp.asarray(ROWS))
    for expected, got in zip(two, one, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-13, atol=1e-15)
    assert np.isnan(one[0][[6, 7]]).all()


def test_derivatives_of_label_distributions_by_everything(by_both):
    logits, y = jnp.asarray(ROWS[FINITE[:3]]), jnp.asarray(distributions((3, 4)))

    def total(logits, y, gamma, weights):
        return jf.softmax_focal_loss(logits, y, gamma=gamma, class_weights=weights, reduction="sum")

    arguments = (logits, y, jnp.asarray(1.7), jnp.array([0.5, 1.0, 2.0, 1.0]))
    for derivative in (jax.grad(total, argnums=(0, 1, 2, 3)), jax.hessian(total, argnums=(0, 2))):
        two, one = by_both(derivative, *arguments)
        for expected, got in zip(jax.tree.leaves(two), jax.tree.leaves(one), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-14)
