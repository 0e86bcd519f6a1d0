"""What is special to the losses of regions, and what their peers compute."""

import re
from functools import partial

import jax
import numpy as np
import pytest

import jaxfocal as jf
from parity_tests.cases import EPS
from parity_tests.compiling import jit_as_usual

RNG = np.random.default_rng(0)
LOGITS, LABELS = RNG.normal(scale=2, size=(3, 5, 6, 4)), RNG.integers(0, 4, (3, 5, 6))
SOFT = RNG.dirichlet(np.ones(4), size=LABELS.shape)
WEIGHTS = np.array([0.2, 1.0, 3.0, 0.5])
REGION = ["dice_loss", "tversky_loss", "focal_tversky_loss", "unified_focal_loss"]
OF_IMAGES = [*REGION, "lovasz_softmax_loss"]
by_region = pytest.mark.parametrize("name", REGION)
by_image_loss = pytest.mark.parametrize("name", OF_IMAGES)


def with_ignored():
    labels = LABELS.copy()
    labels[0, 0], labels[1, :, 3], labels[2, 1, 1] = 255, 255, 255
    return labels


def value_and_gradient(loss, x):
    def total(x):
        value = loss(x)
        return value.sum(), value

    gradient, value = jax.jit(jax.grad(total, has_aux=True))(x)
    return np.asarray(value), np.asarray(gradient)


@pytest.mark.parametrize("name", [*OF_IMAGES, "softmax_focal_loss", "softmax_poly_focal_loss"])
def test_images_with_ignored_pixels(name):
    """(B, H, W, C) with label 255 is as ``where``, and channels may come first."""
    loss, labels = jax.jit(getattr(jf, name), static_argnames=("ignore_index", "axis")), with_ignored()
    value, gradient = value_and_gradient(lambda x: loss(x, labels, ignore_index=255), LOGITS)
    assert value.shape == (labels.shape if name.startswith("softmax") else (3,))
    assert not np.any(gradient[labels == 255])
    assert np.all(np.any(gradient[labels != 255], axis=-1))
    np.testing.assert_allclose(value, loss(LOGITS, LABELS, where=labels != 255), rtol=1e-13)
    channels_first = np.moveaxis(LOGITS, -1, 1)
    np.testing.assert_allclose(value, loss(channels_first, labels, ignore_index=255, axis=1), rtol=1e-13)


@by_image_loss
def test_a_dropped_pixel_is_as_if_not_there(name):
    loss, labels = getattr(jf, name), with_ignored()
    value, gradient = value_and_gradient(lambda x: loss(x, labels, ignore_index=255), LOGITS)
    kept = labels[1] != 255
    alone = value_and_gradient(lambda x: loss(x, labels[1][kept][None]), LOGITS[1][kept][None])
    np.testing.assert_allclose(value[1], alone[0][0], rtol=1e-13)
    np.testing.assert_allclose(gradient[1][kept], alone[1][0], rtol=1e-11, atol=1e-16)


@by_image_loss
def test_an_image_without_a_pixel_does_not_count(name):
    loss, labels = getattr(jf, name), LABELS.copy()
    labels[1] = 255
    value, gradient = value_and_gradient(lambda x: loss(x, labels, ignore_index=255), LOGITS)
    assert value[1] == 0
    assert not np.any(gradient[1])
    mean = loss(LOGITS, labels, ignore_index=255, reduction="mean")
    np.testing.assert_allclose(mean, (value[0] + value[2]) / 2, rtol=1e-14)


@by_image_loss
@pytest.mark.parametrize("label", [-1, 4])
def test_traced_class_out_of_range_is_nan_in_its_image(name, label):
    labels = LABELS.copy()
    labels[1, 2, 3] = label
    value_of = jax.jit(getattr(jf, name))
    value, gradient = value_and_gradient(lambda x: value_of(x, labels), LOGITS)
    np.testing.assert_array_equal(np.isnan(value), [False, True, False])
    np.testing.assert_array_equal(np.isnan(gradient).all(axis=(1, 2, 3)), [False, True, False])
    assert np.isfinite(gradient[[0, 2]]).all()


@by_region
@pytest.mark.parametrize("mass", [1.1, np.nan])
def test_traced_soft_label_out_of_range_is_nan_in_its_image(name, mass):
    soft = SOFT.copy()
    soft[1, 2, 3, 0] = mass
    value_of = jax.jit(getattr(jf, name))
    value, gradient = value_and_gradient(lambda x: value_of(x, soft), LOGITS)
    np.testing.assert_array_equal(np.isnan(value), [False, True, False])
    np.testing.assert_array_equal(np.isnan(gradient).all(axis=(1, 2, 3)), [False, True, False])
    assert np.isfinite(gradient[[0, 2]]).all()


@by_region
def test_hard_and_soft_labels_agree_at_the_corners(name):
    loss = getattr(jf, name)
    np.testing.assert_allclose(loss(LOGITS, np.eye(4)[LABELS]), loss(LOGITS, LABELS), rtol=1e-13)


@pytest.mark.parametrize("name", REGION[:3])
def test_class_weights(name):
    """Zeros and one 1 pick the loss of a class; the loss is their weighted mean, and no weight at all is no loss."""
    loss = jax.jit(getattr(jf, name))
    of_class = np.stack([loss(LOGITS, LABELS, class_weights=row) for row in np.eye(4)], axis=-1)
    np.testing.assert_allclose(loss(LOGITS, LABELS), of_class.mean(-1), rtol=1e-14)
    expected = np.average(of_class, axis=-1, weights=WEIGHTS)
    np.testing.assert_allclose(loss(LOGITS, LABELS, class_weights=WEIGHTS), expected, rtol=1e-14)
    value, gradient = value_and_gradient(lambda x: loss(x, LABELS, class_weights=np.zeros(4)), LOGITS)
    assert not np.any(value)
    assert not np.any(gradient)


def test_alpha_weighs_false_positives_and_beta_false_negatives():
    """Class 1 labels one pixel of two, and gets a quarter of the one and none of the other; then the other way round.

    A loss of ``alpha + beta``, or of ``FP + FN``, would not tell the two apart.
    """
    quarter, none = [np.log(3.0), 0.0], [1e4, 0.0]
    options = {"alpha": 0.9, "beta": 0.2, "smooth": 0.0, "class_weights": [0.0, 1.0]}
    missed = jf.tversky_loss(np.array([[quarter, none]]), np.array([[1, 0]]), **options)
    np.testing.assert_allclose(missed, 0.2 * 0.75 / (0.25 + 0.2 * 0.75), rtol=1e-15)
    sure = [0.0, 1e4]
    invented = jf.tversky_loss(np.array([[sure, quarter]]), np.array([[1, 0]]), **options)
    np.testing.assert_allclose(invented, 0.9 * 0.25 / (1 + 0.9 * 0.25), rtol=1e-15)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@by_region
def test_a_class_neither_labelled_nor_predicted_costs_nothing(name, dtype):
    """With logits of 50 against it, and with ``smooth=0`` where its probabilities are 0: 0 / 0 is 0."""
    loss, labels = getattr(jf, name), np.array([[0, 0, 1, 1]])
    logits = np.array([[[50, 0, 0], [50, 0, 0], [0, 50, 0], [0, 50, 0]]], dtype)
    value, gradient = value_and_gradient(lambda x: loss(x, labels), logits)
    assert value < 1e-8
    assert np.abs(gradient).max() < 1e-8
    for extreme in (200 * logits, np.where(logits == 0, -np.inf, logits)):
        value, gradient = value_and_gradient(lambda x: loss(x, labels, smooth=0.0), extreme.astype(dtype))
        assert value == 0
        assert not np.any(gradient)


@by_region
def test_without_smoothing_everything_stays_finite(name):
    """Logits at which probabilities, their sums and the squares of these underflow, one after the other."""
    loss = getattr(jf, name)

    def total(x):
        return loss(x, np.array([[0, 0]]), smooth=0.0).sum()

    functions = jax.jit(lambda x: (*jax.value_and_grad(total)(x), jax.grad(lambda x: jax.grad(total)(x).sum())(x)))
    for against in np.linspace(0, 120, 61):
        x = np.array([[[against, 0, -3], [against, 1, 0]]], np.float32)
        for result in functions(x):
            assert np.isfinite(result).all(), against


def test_the_focal_power_keeps_its_slope_where_the_loss_vanishes():
    """A power 3/4 of a loss of about ``2e-30``: ``L**(3/4)`` is right, and its slope is 3/4 of it, as of any tail."""
    labels = np.array([[0, 0]])
    value, gradient = value_and_gradient(
        lambda x: jf.focal_tversky_loss(x, labels), np.array([[[70, 0], [70, 0]]], np.float32)
    )
    rest = np.exp(-70.0)  # of class 0 two pixels miss it each, and class 1 gets as much
    of_class = np.array([0.7 * 2 * rest / 2, 0.3 * 2 * rest / (0.3 * 2 * rest + 1e-5)]) ** 0.75
    np.testing.assert_allclose(value, [of_class.mean()], rtol=1e-5)
    np.testing.assert_allclose(gradient.sum(axis=1), 0.75 * of_class.mean() * np.array([[-1, 1]]), rtol=1e-5)


def test_written_gradients():
    """The formulas of the docstrings, by the logits of each pixel."""
    p = np.exp(LOGITS) / np.exp(LOGITS).sum(-1, keepdims=True)
    t, s, alpha, beta, gamma = np.eye(4)[LABELS], 0.1, 0.4, 0.9, 1.7
    tp, fp, fn = ((terms).sum((1, 2), keepdims=True) for terms in (p * t, p * (1 - t), (1 - p) * t))
    jacobian = p[..., :, None] * (np.eye(4) - p[..., None, :])  # dp_c / dx_j

    total = 2 * tp + fp + fn + s
    dice = 1 - (2 * tp + s) / total
    by_p = ((1 - 2 * t) - dice) / total
    gradient = value_and_gradient(lambda x: jf.dice_loss(x, LABELS, smooth=s), LOGITS)[1]
    np.testing.assert_allclose(gradient, (by_p[..., None] * jacobian).mean(-2), rtol=1e-10, atol=1e-15)

    total = tp + alpha * fp + beta * fn + s
    tversky = 1 - (tp + s) / total
    by_p = ((1 - tversky) * (alpha * (1 - t) - beta * t) - tversky * t) / total
    options = {"alpha": alpha, "beta": beta, "smooth": s}
    gradient = value_and_gradient(lambda x: jf.tversky_loss(x, LABELS, **options), LOGITS)[1]
    np.testing.assert_allclose(gradient, (by_p[..., None] * jacobian).mean(-2), rtol=1e-10, atol=1e-15)

    by_p = tversky ** (1 / gamma - 1) * by_p / gamma
    gradient = value_and_gradient(lambda x: jf.focal_tversky_loss(x, LABELS, gamma=gamma, **options), LOGITS)[1]
    np.testing.assert_allclose(gradient, (by_p[..., None] * jacobian).mean(-2), rtol=1e-10, atol=1e-15)


X, Y = np.zeros((2, 3, 4)), np.zeros((2, 3), int)
BAD = {
    "smooth": ("dice_loss", X, Y, {"smooth": -1.0}, "smooth must be >= 0 and finite, got smooth = -1.0"),
    "alpha of a class": ("tversky_loss", X, Y, {"alpha": np.ones(4)}, "alpha must be a scalar, got shape (4,)"),
    "beta": ("tversky_loss", X, Y, {"beta": -0.1}, "beta must be >= 0 and finite, got beta = -0.1"),
    "gamma": ("focal_tversky_loss", X, Y, {"gamma": 0.0}, "gamma must be > 0 and finite, got gamma = 0.0"),
    "unified gamma": ("unified_focal_loss", X, Y, {"gamma": 1.0}, "gamma must be in [0, 1), got gamma = 1.0"),
    "delta": ("unified_focal_loss", X, Y, {"delta": 1.5}, "delta must be in [0, 1], got delta = 1.5"),
    "ce_weight": ("unified_focal_loss", X, Y, {"ce_weight": 2.0}, "ce_weight must be in [0, 1], got ce_weight = 2.0"),
    "no images": ("dice_loss", X[0, 0], Y[0, 0], {}, "logits must have images along axis 0 and a class axis"),
    "one class": ("dice_loss", X[..., :1], Y * 0, {}, "logits must have at least two classes: for one"),
    "mask of images": ("dice_loss", X, Y, {"where": np.ones(len(X), bool)}, "where must have the dimensions of the"),
    "pixel weights": ("dice_loss", X, Y, {"weights": np.ones((2, 3))}, "weights must broadcast to the shape of the"),
    "class weights": ("dice_loss", X, Y, {"class_weights": np.ones(3)}, "class_weights must have one weight a class"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "logits", "labels", "options", "message"), BAD.values(), ids=BAD)
def test_message(name, logits, labels, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        getattr(jf, name)(logits, labels, **options)


@pytest.mark.parametrize(
    ("name", "arrays"), [("dice_loss", 1), ("tversky_loss", 1), ("focal_tversky_loss", 1), ("unified_focal_loss", 2)]
)
def test_scratch_memory_of_many_classes(name, arrays):
    """Beside logits and gradient: their exponentials, and for the unified loss its other half's gradient."""
    logits = jax.ShapeDtypeStruct((2, 16, 16, 1000), np.float32)
    labels = jax.ShapeDtypeStruct((2, 16, 16), np.int32)
    value_and_gradient = jax.value_and_grad(partial(getattr(jf, name), reduction="mean"))
    compiled = jit_as_usual(value_and_gradient).lower(logits, labels).compile()
    assert compiled.memory_analysis().temp_size_in_bytes <= (arrays + 0.25) * 4 * logits.size


def test_rounding_does_not_grow_with_the_image():
    """A quarter of a million pixels, added up one after the other, would lose four digits and more."""
    rng = np.random.default_rng(1)
    logits, labels = rng.normal(size=(1, 512, 512, 3)), rng.integers(0, 3, (1, 512, 512))
    value_and_gradient = jit_as_usual(jax.value_and_grad(partial(jf.dice_loss, reduction="mean")))
    value, gradient = value_and_gradient(logits.astype(np.float32), labels)
    right, right_gradient = value_and_gradient(logits.astype(np.float32).astype(np.float64), labels)
    value, gradient = np.float64(value), np.float64(gradient)
    assert abs(value - right) <= 4 * EPS * right
    assert np.linalg.norm(gradient - right_gradient) <= 2 * EPS * np.linalg.norm(right_gradient)
