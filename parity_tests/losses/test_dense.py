"""The losses of dense detectors: where targets meet predictions, hard labels, and what is refused."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mpmath import mp, mpf

import jaxfocal as jf
from parity_tests.cases import EPS
from parity_tests.cases.dense import exact_gaussian, exact_quality

BETAS = [0.0, 0.1, 0.5, 1.0, 1.5, 2.0, 4.0]
LOGITS = np.array([-1e4, -200.0, -50.0, -3.0, -0.1, 0.0, 0.7, 4.0, 50.0, 200.0, 1e4])
QUALITY, VARIFOCAL, GAUSSIAN = jf.quality_focal_loss, jf.varifocal_loss, jf.gaussian_focal_loss


@partial(jax.jit, static_argnums=0, static_argnames="order")
def derivatives(loss, logits, labels, options=None, order=2):
    """Values, slopes and curvatures, element by element."""

    def values(x):
        return loss(x, labels, **(options or {}))

    def slope(x):
        return jax.grad(lambda x: values(x).sum())(x)

    results = values(logits), slope(logits)
    return results if order == 1 else (*results, jax.grad(lambda x: slope(x).sum())(logits))


def assert_same(ours, theirs, **tolerance):
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, **tolerance)


# quality focal loss


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_quality_where_the_prediction_is_the_target(beta, dtype):
    """|y - p|^beta and its derivatives at 0: those that exist are right, the others are 0."""
    x, y = jnp.zeros((), dtype), jnp.full((), 0.5, dtype)
    value, slope, curvature = derivatives(QUALITY, x, y, {"beta": beta})
    cross_entropy = np.log(2)
    right = {0.0: (cross_entropy, 0.0, 0.25), 2.0: (0.0, 0.0, 2 * 0.25**2 * cross_entropy)}
    assert_same((value, slope, curvature), right.get(beta, (0.0, 0.0, 0.0)), rtol=1e-6 if dtype == "float32" else 1e-15)


@pytest.mark.parametrize("x", [-6.0, -0.4, 0.0, 1.3, 5.0])
def test_quality_curvature_at_the_target(x):
    """At beta=2 it is 2 (p q)^2 CE."""
    target = float(jax.nn.sigmoid(jnp.float64(x)))
    curvature = derivatives(QUALITY, x, jnp.float64(target))[2]
    with mp.workdps(60):
        p = 1 / (1 + mp.exp(-mpf(x)))
        formula = 2 * (p * (1 - p)) ** 2 * -(p * mp.log(p) + (1 - p) * mp.log(1 - p))
        right = mp.diff(lambda t: ((mpf(target) - 1 / (1 + mp.exp(-t))) ** 2) * _cross_entropy(t, target), mpf(x), 2)
    np.testing.assert_allclose(float(right), float(formula), rtol=1e-12)
    np.testing.assert_allclose(curvature, float(right), rtol=1e-12)


def _cross_entropy(t, y):
    return exact_quality(t, y, beta=0.0)


@pytest.mark.parametrize("beta", [1.0, 2.0])
def test_quality_near_the_target_in_float32(beta):
    """The difference cancels, so that the error is small beside 1, not beside the loss."""
    logits = np.random.default_rng(0).uniform(-8, 8, 1000).astype(np.float32)
    nearby = 1 + np.random.default_rng(1).choice([0.0, 1e-7, 1e-5, 1e-3], 1000)
    labels = np.clip(nearby / (1 + np.exp(-np.float64(logits))), 0, 1).astype(np.float32)
    with mp.workdps(50):
        right = [
            (exact_quality(x, y, beta=beta), mp.diff(lambda t, y=y: exact_quality(t, y, beta=beta), x))
            for x, y in zip(logits.tolist(), labels.tolist(), strict=True)
        ]
    right_value, right_slope = np.array(right, float).T
    value, slope = map(np.float64, derivatives(QUALITY, logits, labels, {"beta": beta}, order=1))
    assert np.abs(value - right_value).max() <= 8 * EPS
    away = np.abs(np.float64(labels) - 1 / (1 + np.exp(-np.float64(logits)))) > 4 * EPS
    # at the target itself the slope of beta = 1 jumps, and its sign is that of a rounding error
    compared = away if beta == 1 else np.full(away.shape, True)
    assert 300 < away.sum() < away.size
    assert np.abs(slope - right_slope)[compared].max() <= 8 * EPS


@pytest.mark.parametrize("beta", [0.1, 0.5, 0.9])
def test_quality_is_finite_at_the_target_where_torch_is_not(beta):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    import torchref

    x = torch.zeros((), dtype=torch.float64, requires_grad=True)
    torchref.quality_focal_loss(x, torch.tensor(0.5, dtype=torch.float64), beta=beta).backward()
    assert torch.isnan(x.grad)  # beta * 0**(beta - 1) * sign(0), as in every program that writes abs().pow(beta)
    for result in derivatives(QUALITY, 0.0, np.array(0.5), {"beta": beta}):
        assert result == 0


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_quality_of_hard_labels_is_the_focal_loss(beta, dtype):
    """Curvature too, where a power of p alone would overflow; float 0 and 1 as well as integers."""
    logits, labels = np.tile(LOGITS, 2).astype(dtype), np.repeat([0, 1], LOGITS.size)
    theirs = derivatives(jf.sigmoid_focal_loss, logits, labels, {"gamma": beta})
    ours = derivatives(QUALITY, logits, labels.astype(dtype), {"beta": beta})
    rtol = 1e-12 if dtype == "float64" else 4 * EPS * (1 + (1 + beta) * 50)
    assert_same(ours, theirs, rtol=rtol, atol=16 * float(np.finfo(dtype).smallest_normal))
    for kind in (int, bool):
        assert_same(derivatives(QUALITY, logits, labels.astype(kind), {"beta": beta}), theirs, rtol=0)


@pytest.mark.parametrize("beta", [0.0, 0.5, 2.0])
def test_quality_by_a_label_at_the_corner(beta):
    """A float label of exactly 0 or 1 still has its derivative, and the mixed one."""
    x, y = np.repeat([-1.2, 0.4, 3.0], 2), np.tile([0.0, 1.0], 3)
    by_label = jax.grad(lambda x, y: QUALITY(x, y, beta=beta), argnums=1)
    by_both = jax.grad(by_label, argnums=0)
    with mp.workdps(60):
        slope, slope_by_x = (
            [
                float(mp.diff(lambda a, b: exact_quality(a, b, beta=beta), (v, w), order))
                for v, w in zip(x, y, strict=True)
            ]
            for order in ((0, 1), (1, 1))
        )
    np.testing.assert_allclose(jax.vmap(by_label)(x, y), slope, rtol=1e-12)
    np.testing.assert_allclose(jax.vmap(by_both)(x, y), slope_by_x, rtol=1e-12)


# varifocal and Gaussian focal loss


def test_varifocal_of_hard_labels():
    """Cross-entropy for the positives, alpha times the focal loss for the negatives."""
    x, y = np.tile(LOGITS, 2), np.repeat([0, 1], LOGITS.size)
    positives = derivatives(jf.sigmoid_focal_loss, x, y, {"gamma": 0.0})
    for gamma in (0.0, 0.5, 2.0):
        negatives = derivatives(jf.sigmoid_focal_loss, x, y, {"gamma": gamma})
        theirs = [np.where(y == 1, a, 1.5 * b) for a, b in zip(positives, negatives, strict=True)]
        for kind in (bool, int, float):
            ours = derivatives(VARIFOCAL, x, y.astype(kind), {"gamma": gamma, "alpha": 1.5})
            assert_same(ours, theirs, rtol=1e-13)


def test_gaussian_of_hard_labels_is_the_focal_loss():
    x, y = np.tile(LOGITS, 2), np.repeat([0, 1], LOGITS.size)
    for alpha in (0.0, 0.5, 2.0):
        theirs = derivatives(jf.sigmoid_focal_loss, x, y, {"gamma": alpha})
        for kind in (bool, int, float):
            assert_same(derivatives(GAUSSIAN, x, y.astype(kind), {"alpha": alpha}), theirs, rtol=1e-14)


def test_gaussian_keeps_the_gradient_of_a_missed_peak_where_clipping_loses_it():
    """CenterNet's programs clip the sigmoid to [1e-4, 1 - 1e-4] (mmdet adds 1e-12 inside the logarithm, in float32)."""
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    logits, labels = np.array([-20.0, 12.0, 20.0], np.float32), np.array([1.0, 0.5, 0.0], np.float32)

    def clipped(p, y):
        p = p.clamp(1e-4, 1 - 1e-4)
        return -torch.where(y == 1, (1 - p) ** 2 * p.log(), (1 - y) ** 4 * p**2 * (1 - p).log())

    def with_epsilon(p, y):
        positive, negative = (p + 1e-12).log() * (1 - p) ** 2, (1 - p + 1e-12).log() * p**2 * (1 - y) ** 4
        return -positive * (y == 1) - negative

    with mp.workdps(50):
        right = [
            float(mp.diff(lambda t, y=y: exact_gaussian(t, y), float(x)))
            for x, y in zip(logits, labels.tolist(), strict=True)
        ]
    np.testing.assert_allclose(derivatives(GAUSSIAN, logits, labels, order=1)[1], right, rtol=1e-6)
    for peer, lost in ((clipped, [True, True, True]), (with_epsilon, [False, False, True])):
        x = torch.tensor(logits, requires_grad=True)
        peer(x.sigmoid(), torch.tensor(labels)).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy() == 0, lost)


def test_peaks_normalise_a_heat_map():
    logits, labels = np.random.default_rng(0).normal(size=(2, 4, 4)), np.zeros((2, 4, 4))
    labels[0, 1, 1:3] = 1.0, 0.6

    def loss(x, y):
        return GAUSSIAN(x, y, reduction="sum", normalizer=jnp.sum(y == 1))

    labels[1, 2, 2] = 1.0
    np.testing.assert_allclose(loss(logits, labels), GAUSSIAN(logits, labels).sum() / 2, rtol=1e-14)
    np.testing.assert_allclose(loss(logits, 0.5 * labels), GAUSSIAN(logits, 0.5 * labels).sum(), rtol=1e-14)


@pytest.mark.parametrize("loss", [QUALITY, VARIFOCAL, GAUSSIAN])
def test_infinite_logits(loss):
    """Nothing where the label agrees, infinity where not, and there the slope of a large logit."""
    logits, labels = np.array([np.inf, -np.inf, np.inf, -np.inf]), np.array([1.0, 0.0, 0.0, 1.0])
    values, slopes = derivatives(loss, logits, labels, order=1)
    np.testing.assert_array_equal(values, [0, 0, np.inf, np.inf])
    np.testing.assert_allclose(slopes, derivatives(loss, np.sign(logits) * 1e6, labels, order=1)[1])
    assert loss(np.inf, 0.5) == np.inf


def test_a_factor_of_zero_on_an_infinite_loss():
    assert VARIFOCAL(np.inf, 0.0, alpha=0.0) == 0
    np.testing.assert_array_equal(derivatives(VARIFOCAL, 5.0, np.array(0.0), {"alpha": 0.0}), [0, 0, 0])


# gradients as the docstrings write them


def test_written_gradients():
    x = np.random.default_rng(0).normal(scale=2, size=40)
    y = np.random.default_rng(1).uniform(size=40)
    y[::3], y[1::3] = 0.0, np.where(y[1::3] > 0.5, 1.0, y[1::3])
    p = 1 / (1 + np.exp(-x))
    cross_entropy = -y * np.log(p) - (1 - y) * np.log(1 - p)
    negative = p**2 * (p - 2 * (1 - p) * np.log(1 - p))
    formulas = {
        QUALITY: np.abs(y - p) ** 2 * (p - y) - 2 * np.sign(y - p) * np.abs(y - p) * p * (1 - p) * cross_entropy,
        VARIFOCAL: np.where(y > 0, y * (p - y), 0.75 * negative),
        GAUSSIAN: np.where(y == 1, (1 - p) ** 2 * (2 * p * np.log(p) + p - 1), (1 - y) ** 4 * negative),
    }
    for loss, formula in formulas.items():
        np.testing.assert_allclose(derivatives(loss, x, y, order=1)[1], formula, rtol=1e-11, atol=1e-15)


# what is refused

X, Y, ROW = np.zeros((2, 3)), np.zeros((2, 3)), np.zeros(2)
BAD = {
    "quality label -0.1": (QUALITY, Y - 0.1, {}, "labels must be in [0, 1], got labels[0, 0] = -0.1"),
    "varifocal label 1.5": (VARIFOCAL, Y + 1.5, {}, "labels must be in [0, 1], got labels[0, 0] = 1.5"),
    "gaussian label nan": (GAUSSIAN, Y + np.nan, {}, "labels must be in [0, 1], got labels[0, 0] = nan"),
    "integer label 2": (VARIFOCAL, np.full((2, 3), 2), {}, "labels must be 0 or 1, got labels[0, 0] = 2"),
    "labels shape": (QUALITY, ROW, {}, "labels must have the shape of logits, (2, 3), got labels of shape (2,)"),
    "quality beta": (QUALITY, Y, {"beta": -1.0}, "beta must be >= 0 and finite, got beta = -1.0"),
    "varifocal gamma": (VARIFOCAL, Y, {"gamma": -0.5}, "gamma must be >= 0 and finite, got gamma = -0.5"),
    "varifocal alpha": (VARIFOCAL, Y, {"alpha": -0.5}, "alpha must be >= 0 and finite, got alpha = -0.5"),
    "infinite alpha": (VARIFOCAL, Y, {"alpha": np.inf}, "alpha must be >= 0 and finite, got alpha = inf"),
    "gaussian alpha": (GAUSSIAN, Y, {"alpha": -2.0}, "alpha must be >= 0 and finite, got alpha = -2.0"),
    "gaussian beta": (GAUSSIAN, Y, {"beta": np.ones(2)}, "beta must broadcast to the shape of logits, (2, 3)"),
}


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize(("loss", "labels", "options", "message"), BAD.values(), ids=BAD)
def test_message(loss, labels, options, message, jit):
    """Labels and hyperparameters that are constants of a traced program are checked too."""

    def call(x):
        return loss(x, labels, **options)

    with pytest.raises(ValueError, match=re.escape(message)):
        (jax.jit(call) if jit else call)(X)


@pytest.mark.parametrize("label", [-0.1, 1.5, np.nan, -1, 2])
@pytest.mark.parametrize("loss", [QUALITY, VARIFOCAL, GAUSSIAN])
def test_traced_label_out_of_range_is_nan(loss, label):
    labels = np.array([label, 1, 0])
    values, slopes = derivatives(loss, np.array([0.3, -0.2, 1.0]), labels, order=1)
    np.testing.assert_array_equal(np.isnan(values), [True, False, False])
    np.testing.assert_array_equal(np.isnan(slopes), [True, False, False])
