"""Logits of any size, masked classes and labels that are not labels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxfocal as jf
from parity_tests.cases import CASES
from parity_tests.compiling import jit_as_usual

GAMMAS = (0.0, 0.1, 0.5, 1.0, 2.0, 5.0)
EXTREMES = np.array([-1e4, -1e3, -104.0, -88.0, -1.0, 0.0, 1.0, 88.0, 104.0, 1e3, 1e4])
by_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)


@by_case
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_value_and_both_derivatives_are_finite(case, dtype):
    rng = np.random.default_rng(0)
    logits = rng.choice(EXTREMES, size=(50, *case.logits_shape[1:])).astype(dtype)
    labels = np.stack([case.labels(rng)[0] for _ in range(50)])
    labels = labels.astype(dtype) if labels.dtype.kind == "f" else labels

    name, values = case.sweep or ("weights", (1.0,))

    def total(x, option):
        return case.loss(x, labels, **{name: option}, reduction="sum")

    def curvature(x, option):
        return jax.grad(lambda x: jax.grad(total)(x, option).sum())(x)

    jit = jit_as_usual if dtype == "float32" else jax.jit
    functions = jit(lambda x, o: (*jax.value_and_grad(total, argnums=(0, 1))(x, o), curvature(x, o)))
    for value in values:
        for result in jax.tree.leaves(functions(logits, jnp.asarray(value, dtype))):
            assert np.isfinite(result).all()


@pytest.mark.parametrize("gamma", GAMMAS)
def test_infinite_binary_logits(gamma):
    value_and_gradient = jax.vmap(jax.value_and_grad(lambda x, y: jf.sigmoid_focal_loss(x, y, gamma=gamma)))
    logits, labels = np.array([np.inf, -np.inf, np.inf, -np.inf]), np.array([1, 0, 0, 1])
    values, gradients = value_and_gradient(logits, labels)
    np.testing.assert_array_equal(values, [0, 0, np.inf, np.inf])
    np.testing.assert_allclose(gradients, [0, 0, 1, -1], rtol=1e-15)


@by_case
def test_nan_stays_in_its_element(case):
    logits, labels = case.example()
    at = (1, 2) if case.over == "logit" else (1,)
    logits[at] = np.nan

    def loss(x):
        values = case.loss(x, labels)
        return values.sum(), values

    gradient, values = jax.grad(loss, has_aux=True)(logits)
    for result in (gradient, values):
        expected = np.zeros(result.shape, bool)
        expected[at] = True
        np.testing.assert_array_equal(np.isnan(result), expected)


@pytest.mark.parametrize("soft", [False, True], ids=["hard", "soft"])
def test_a_masked_class_takes_no_part(soft):
    """A logit of -inf is as if the class were not there."""
    logits, masked = np.array([0.3, -1.2, -np.inf, 2.0]), 2
    present = np.delete(np.arange(4), masked)

    def loss(x, label, gamma):
        labels = jax.nn.one_hot(label, x.size, dtype=x.dtype) if soft else label
        return jf.softmax_focal_loss(x, labels, gamma=gamma)

    value_and_gradient, hessian = jax.jit(jax.value_and_grad(loss)), jax.jit(jax.hessian(loss))
    for gamma in GAMMAS:
        for position, label in enumerate(present):
            value, gradient = value_and_gradient(logits[present], position, gamma)
            masked_value, masked_gradient = value_and_gradient(logits, label, gamma)
            np.testing.assert_allclose(masked_value, value, rtol=1e-14)
            np.testing.assert_allclose(masked_gradient[present], gradient, rtol=1e-13, atol=1e-16)
            assert masked_gradient[masked] == 0
            assert np.isfinite(hessian(logits, label, gamma)).all()


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("logits", [[5.0], [5.0, -np.inf], [-np.inf, 5.0, -np.inf]], ids=str)
def test_no_other_class_left(logits, gamma):
    logits = np.array(logits)
    label = np.array(np.argmax(logits))
    for labels in (label, np.eye(logits.size)[label]):
        value, gradient = jax.value_and_grad(lambda x, y=labels: jf.softmax_focal_loss(x, y, gamma=gamma))(logits)
        assert value == 0
        assert not np.any(gradient)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_a_masked_label_costs_infinity(gamma):
    logits = np.array([1.0, -np.inf, 0.0])
    assert jf.softmax_focal_loss(logits, np.array(1), gamma=gamma) == np.inf
    assert jf.softmax_focal_loss(logits, np.array([0.5, 0.5, 0.0]), gamma=gamma) == np.inf
    assert jf.softmax_focal_loss(logits, np.array(0), gamma=gamma, label_smoothing=0.1) == np.inf
    assert np.isfinite(jf.softmax_focal_loss(logits, np.array(0), gamma=gamma))


@pytest.mark.parametrize("label", [-1, 2, 255])
def test_traced_binary_label_out_of_range_is_nan(label):
    logits, labels = np.array([0.3, -0.2]), np.array([label, 1])
    gradient_of = jax.jit(jax.grad(lambda x, y: jf.sigmoid_focal_loss(x, y, alpha=0.25).sum()))
    values = jax.jit(jf.sigmoid_focal_loss)(logits, labels)
    np.testing.assert_array_equal(np.isnan(values), [True, False])
    np.testing.assert_array_equal(np.isnan(gradient_of(logits, labels)), [True, False])


@pytest.mark.parametrize("label", [-0.1, 1.1, np.nan])
@pytest.mark.parametrize("name", ["sigmoid_focal_loss", "softmax_focal_loss"])
def test_traced_soft_label_out_of_range_is_nan(name, label):
    logits, labels = np.array([[0.3, -0.2], [0.1, 0.4]]), np.array([[label, 0.5], [0.5, 0.5]])
    gradient = jax.jit(jax.grad(lambda x, y: getattr(jf, name)(x, y).sum()))(logits, labels)
    assert np.isnan(gradient[0, 0])
    assert np.isfinite(gradient[1]).all()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("label", [-1, 4, 1000])
def test_traced_class_out_of_range_is_nan_in_its_row(label, smoothing):
    logits, labels = np.zeros((2, 4)), np.array([label, 3])

    def loss(x, y):
        values = jf.softmax_focal_loss(x, y, label_smoothing=smoothing, class_weights=np.arange(1.0, 5.0))
        return values.sum(), values

    gradient, values = jax.jit(jax.grad(loss, has_aux=True))(logits, labels)
    np.testing.assert_array_equal(np.isnan(values), [True, False])
    np.testing.assert_array_equal(np.isnan(gradient), [[True] * 4, [False] * 4])


@pytest.mark.parametrize("gamma", [63.0, 64.0, 126.0, 200.0, 1000.0])
def test_large_gamma(gamma):
    """Where ``2**-gamma`` underflows the curve is still there: at a margin of -20 the loss is about 20."""
    for dtype in (np.float32, np.float64):
        value, slope = jax.value_and_grad(lambda x: jf.sigmoid_focal_loss(x, np.array(1), gamma=gamma))(dtype(-20))
        p, s, power = (
            np.exp(-20.0) / (1 + np.exp(-20.0)),
            np.log1p(np.exp(20.0)),
            np.exp(-gamma * np.log1p(np.exp(-20.0))),
        )
        bound = 4 * np.finfo(dtype).eps * (1 + (1 + gamma) * 20)
        np.testing.assert_allclose(value, power * s, rtol=bound)
        np.testing.assert_allclose(slope, -power * (1 - p + gamma * p * s), rtol=bound)
        assert jf.sigmoid_focal_loss(dtype(20), np.array(1), gamma=gamma) < np.finfo(dtype).smallest_normal


def test_infinite_logits_of_soft_labels():
    logits, labels = np.array([np.inf, -np.inf, np.inf, -np.inf, np.inf]), np.array([1.0, 0.0, 0.0, 1.0, 0.5])
    values, slopes = jax.jit(jax.vmap(jax.value_and_grad(jf.sigmoid_focal_loss)))(logits, labels)
    np.testing.assert_array_equal(values, [0, 0, np.inf, np.inf, np.inf])
    np.testing.assert_allclose(slopes, [0, 0, 1, -1, 0.125])
    huge = jax.grad(lambda x: jf.sigmoid_focal_loss(x, np.array([0.0, 0.5])).sum())(np.full(2, 3e38, np.float32))
    np.testing.assert_allclose(huge, [1, 0.125])


@pytest.mark.parametrize(("gamma", "slope"), [(0.0, -200.0), (2.0, 0.0)])
def test_label_slope_where_the_loss_underflows(gamma, slope):
    """``q_t**gamma (gamma k (q - p) - x)`` at ``q_t = exp(-200)``, which float32 cannot hold."""
    of_label = jax.grad(lambda y: jf.sigmoid_focal_loss(jnp.float32(200.0), y, gamma=gamma))
    assert of_label(jnp.float32(1.0)) == slope


def test_no_class_weight_on_a_masked_label():
    logits, weights = np.array([[0.0, 1.0, -np.inf]]), np.array([1.0, 1.0, 0.0])
    for labels in (np.array([2]), np.array([[0.0, 0.0, 1.0]])):
        assert jf.softmax_focal_loss(logits, labels, class_weights=weights) == 0


@by_case
def test_a_right_call_makes_no_nan_on_the_way(case):
    logits, labels = case.example()
    with jax.debug_nans(True):
        jax.block_until_ready(jax.value_and_grad(lambda x: case.loss(x, labels, reduction="mean"))(logits))
