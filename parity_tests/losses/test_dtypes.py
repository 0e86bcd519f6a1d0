"""Half precision is computed in float32, float64 stays, and labels may be of any dtype."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxfocal as jf
from parity_tests.cases import CASES, EPS
from parity_tests.compiling import jit_as_usual

by_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)


@by_case
@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16, jnp.float32, jnp.float64])
def test_loss_and_gradient_dtypes(case, dtype):
    logits, labels = case.example()
    for reduction in ("none", "mean"):
        value_and_gradient = jax.value_and_grad(lambda x, r=reduction: case.loss(x, labels, reduction=r).sum())
        value, gradient = jax.eval_shape(value_and_gradient, jax.ShapeDtypeStruct(logits.shape, dtype))
        assert value.dtype == (jnp.float64 if dtype == jnp.float64 else jnp.float32)
        assert not value.weak_type
        assert gradient.dtype == dtype


@by_case
@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_half_precision_is_as_good_as_float32(case, dtype):
    """Against float64 at the same (rounded) logits: the value to float32, the gradient to its own last bit."""
    logits, labels = case.example()
    logits = jnp.asarray(6 * logits, dtype)
    labels = labels.astype(np.float32) if labels.dtype.kind == "f" else labels

    def loss(x):
        values = case.loss(x, labels)
        return values.sum(), values

    gradient_and_value = jit_as_usual(jax.grad(loss, has_aux=True))
    (got_gradient, got), (right_gradient, right) = map(gradient_and_value, (logits, logits.astype(jnp.float64)))
    right, right_gradient = np.asarray(right), np.asarray(right_gradient)
    relative, absolute = case.float32_tolerance(np.float64(logits), labels)
    least = max(case.smallest, absolute)
    assert (np.abs(np.float64(got) - right) <= relative * right + least).all()

    info = jnp.finfo(dtype)
    least = max(float(info.smallest_subnormal), absolute, case.slope_cancels * EPS)
    error = np.abs(np.float64(got_gradient) - right_gradient)
    assert (error <= float(info.eps) * np.abs(right_gradient) + least).all()


@by_case
def test_float32_options_may_come_in_any_dtype(case):
    """A NumPy float64 or a Python scalar does not turn a float32 loss into float64, nor fail under strict promotion."""
    logits, labels = case.example()
    logits = logits.astype(np.float32)
    weights = np.full(case.shape, 2.0)
    name, (*_, value) = case.sweep or ("weights", (1,))
    assert value == int(value)
    for option in (int(value), float(value), np.float64(value), np.int32(value), jnp.float32(value)):
        loss = case.loss(logits, labels, **{"weights": weights, name: option}, reduction="mean")
        assert loss.dtype == jnp.float32
        np.testing.assert_allclose(loss, case.loss(logits, labels, **{name: value}, reduction="mean"), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integer_labels(dtype):
    logits = np.random.default_rng(0).normal(size=(6, 2))
    binary = np.array([[0, 1], [1, 1], [0, 0], [1, 0], [0, 1], [1, 1]])
    np.testing.assert_array_equal(
        jax.jit(jf.sigmoid_focal_loss)(logits, binary.astype(dtype)), jf.sigmoid_focal_loss(logits, binary)
    )
    if dtype != "bool":
        classes = binary[:, 0]
        np.testing.assert_array_equal(
            jax.jit(jf.softmax_focal_loss)(logits, classes.astype(dtype)), jf.softmax_focal_loss(logits, classes)
        )


def test_small_integer_labels_of_many_classes():
    """An int8 label does not wrap where there are more classes than an int8 can count."""
    logits = np.random.default_rng(0).normal(size=(3, 300))
    labels = np.array([0, 127, 5])
    for dtype in ("int8", "uint8"):
        np.testing.assert_array_equal(
            jf.softmax_focal_loss(logits, labels.astype(dtype), label_smoothing=0.1),
            jf.softmax_focal_loss(logits, labels, label_smoothing=0.1),
        )


def test_hard_and_soft_labels_agree_at_the_corners():
    logits = np.linspace(-30, 30, 25)
    labels = np.arange(25) % 2
    np.testing.assert_allclose(
        jf.sigmoid_focal_loss(logits, labels.astype(float), alpha=0.25),
        jf.sigmoid_focal_loss(logits, labels, alpha=0.25),
        rtol=1e-13,
    )
    rows, classes = logits.reshape(5, 5), np.arange(5)
    np.testing.assert_allclose(jf.softmax_focal_loss(rows, np.eye(5)), jf.softmax_focal_loss(rows, classes), rtol=1e-13)
