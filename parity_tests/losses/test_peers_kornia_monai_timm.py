"""kornia, MONAI and timm compute the same at ordinary logits; where they lose digits, the exact value stands."""

import jax
import numpy as np
import pytest
from mpmath import mp

import jaxfocal as jf
from parity_tests.cases import BY_ID, EPS

torch = pytest.importorskip("torch", reason="compares with PyTorch libraries")
kornia_losses = pytest.importorskip("kornia.losses", reason="compares with kornia")
monai_losses = pytest.importorskip("monai.losses", reason="compares with MONAI")
timm_loss = pytest.importorskip("timm.loss", reason="compares with timm")

RNG = np.random.default_rng(0)
LOGITS, BINARY, SOFT = RNG.normal(scale=2, size=(3, 4, 6)), RNG.integers(0, 2, (3, 4, 6)), RNG.uniform(size=(3, 4, 6))
FLOAT32 = 3e-5  # MONAI and timm compute in float32, with 1 - p_t by subtraction
CLASSES = RNG.integers(0, 4, (3, 6))  # classes along axis 1


def peer(loss, x):
    x = torch.tensor(x, requires_grad=True)
    value = loss(x)
    value.sum().backward()
    return value.detach().double().numpy(), x.grad.double().numpy()


def ours(loss, x):
    def total(x):
        value = loss(x)
        return value.sum(), value

    gradient, value = jax.grad(total, has_aux=True)(x)
    return np.float64(value), np.float64(gradient)


def assert_same(ours, theirs, rtol=1e-12):
    for got, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(got, expected, rtol=rtol, atol=rtol * np.abs(expected).max())


@pytest.mark.parametrize("alpha", [None, 0.25])
@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_binary_focal_loss(gamma, alpha):
    y = torch.tensor(BINARY, dtype=torch.float64)
    expected = ours(lambda x: jf.sigmoid_focal_loss(x, BINARY, gamma=gamma, alpha=alpha), LOGITS)
    kornia = peer(lambda x: kornia_losses.binary_focal_loss_with_logits(x, y, alpha=alpha, gamma=gamma), LOGITS)
    monai = monai_losses.FocalLoss(gamma=gamma, alpha=alpha, reduction="none")
    assert_same(expected, kornia)
    assert_same(expected, peer(lambda x: monai(x, y), LOGITS), FLOAT32)


@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_softmax_focal_loss(gamma):
    """Both give a slice a class, of which all but the label's are 0."""
    labels = torch.tensor(CLASSES)
    expected = ours(lambda x: jf.softmax_focal_loss(x, CLASSES, gamma=gamma, axis=1), LOGITS)
    kornia = peer(lambda x: kornia_losses.focal_loss(x, labels, alpha=None, gamma=gamma).sum(1), LOGITS)
    monai = monai_losses.FocalLoss(gamma=gamma, use_softmax=True, to_onehot_y=True, reduction="none")
    assert_same(expected, kornia)
    assert_same(expected, peer(lambda x: monai(x, labels[:, None]).sum(1), LOGITS), FLOAT32)


def test_softmax_focal_loss_saturated():
    """One right logit of 30, gamma 0.5, float32: the loss is 4.9e-20, and its gradient -7.4e-20 at the label.

    kornia and MONAI form ``1 - p_t``, which is 0 there: kornia gives 0 and 0, MONAI 0 and NaN.
    """
    x, label = np.array([[30.0], [0.0]], np.float32)[None], np.array([[0]])
    with mp.workdps(60):
        exact = BY_ID["softmax_focal"].exact
        right = float(exact([30.0, 0.0], 0, gamma=0.5))
        slope = float(mp.diff(lambda t: exact([t, 0.0], 0, gamma=0.5), 30.0))
    value, gradient = ours(lambda x: jf.softmax_focal_loss(x, label, gamma=0.5, axis=1), x)
    np.testing.assert_allclose(value.ravel(), right, rtol=4 * EPS * (1 + 1.5 * 30))
    np.testing.assert_allclose(gradient.ravel(), [slope, -slope], rtol=4 * EPS * (1 + 1.5 * 30))

    labels = torch.tensor(label)
    kornia = peer(lambda x: kornia_losses.focal_loss(x, labels, alpha=None, gamma=0.5).sum(1), x)
    monai = monai_losses.FocalLoss(gamma=0.5, use_softmax=True, to_onehot_y=True, reduction="none")
    monai = peer(lambda x: monai(x, labels[:, None]).sum(1), x)
    assert kornia[0] == monai[0] == 0
    assert not np.any(kornia[1])
    assert np.isnan(monai[1]).any()


@pytest.mark.parametrize(
    ("gamma_pos", "gamma_neg", "clip", "labels"),
    [(1.0, 4.0, 0.05, BINARY), (0.0, 2.0, 0.2, BINARY), (0.0, 0.0, 0.0, BINARY), (0.0, 0.0, 0.0, SOFT)],
)
def test_asymmetric_loss(gamma_pos, gamma_neg, clip, labels):
    """Soft labels without focusing only: with it timm mixes the exponents, ours is the expectation of both sides."""
    loss = timm_loss.AsymmetricLossMultiLabel(gamma_neg, gamma_pos, clip, reduction="none")
    y = torch.tensor(labels, dtype=torch.float32)
    options = {"gamma_pos": gamma_pos, "gamma_neg": gamma_neg, "clip": clip}
    x = LOGITS.astype(np.float32)
    assert_same(ours(lambda x: jf.asymmetric_loss(x, y.numpy(), **options), x), peer(lambda x: loss(x, y), x), FLOAT32)


def test_asymmetric_loss_of_a_missed_positive():
    """A positive at logit -20 costs 20 with gradient -1; timm clips its probability at 1e-8: 18.42 and 0."""
    x = np.array([[-20.0]], np.float32)
    value, gradient = ours(lambda x: jf.asymmetric_loss(x, np.array([[1]])), x)
    np.testing.assert_allclose(value, 20, rtol=1e-7)
    np.testing.assert_allclose(gradient, -1, rtol=1e-7)
    theirs = peer(lambda x: timm_loss.AsymmetricLossMultiLabel()(x, torch.ones(1, 1)), x)
    np.testing.assert_allclose(theirs[0], -np.log(1e-8), rtol=1e-6)
    assert np.abs(theirs[1]) < 1e-6


def test_asymmetric_loss_without_margin_is_focal():
    options = {"gamma_pos": 2.0, "gamma_neg": 2.0, "clip": 0.0}
    assert_same(
        ours(lambda x: jf.asymmetric_loss(x, BINARY, **options), LOGITS),
        ours(lambda x: jf.sigmoid_focal_loss(x, BINARY, gamma=2.0), LOGITS),
    )


@pytest.mark.parametrize("x", [np.inf, -np.inf])
@pytest.mark.parametrize("y", [0, 1])
@pytest.mark.parametrize("clip", [0.0, 0.05])
def test_asymmetric_loss_of_infinite_logits(x, y, clip):
    value, gradient = ours(lambda x: jf.asymmetric_loss(x, np.array(y), clip=clip), np.array(x))
    right = (x > 0) == (y == 1)
    limit = np.inf if y == 1 or clip == 0 else (1 - clip) ** 4 * -np.log(clip)
    np.testing.assert_allclose(value, 0 if right else limit, rtol=1e-15)
    np.testing.assert_allclose(gradient, 0 if right or (y == 0 and clip) else (-1 if y else 1), rtol=1e-15)


def test_focal_star_with_beta_0_is_fvcore():
    """fvcore's sigmoid_focal_loss_star, written out: ``-logsigmoid(gamma * x_t) / gamma``, alpha as usual."""

    def theirs(x):
        y = torch.tensor(BINARY, dtype=torch.float64)
        loss = -torch.nn.functional.logsigmoid(3.0 * (x * (2 * y - 1))) / 3.0
        return (0.25 * y + 0.75 * (1 - y)) * loss

    options = {"gamma": 3.0, "beta": 0.0, "alpha": 0.25}
    assert_same(ours(lambda x: jf.sigmoid_focal_star_loss(x, BINARY, **options), LOGITS), peer(theirs, LOGITS))


def test_poly_without_epsilon_is_focal():
    for poly, focal, labels in (
        (jf.sigmoid_poly_focal_loss, jf.sigmoid_focal_loss, BINARY),
        (jf.sigmoid_poly_focal_loss, jf.sigmoid_focal_loss, SOFT),
        (jf.softmax_poly_focal_loss, jf.softmax_focal_loss, BINARY[..., 0]),
    ):
        assert_same(
            ours(lambda x, f=poly, y=labels: f(x, y, epsilon=0.0), LOGITS),
            ours(lambda x, f=focal, y=labels: f(x, y), LOGITS),
        )


@pytest.mark.parametrize(
    ("loss", "labels", "options", "message"),
    [
        (jf.sigmoid_focal_star_loss, BINARY, {"gamma": 0.0}, "gamma must be > 0 and finite, got gamma = 0.0"),
        (jf.sigmoid_focal_star_loss, SOFT, {}, "labels must be bool or integer, got dtype float64"),
        (jf.sigmoid_focal_star_loss, BINARY, {"beta": np.nan}, "beta must be finite, got beta = nan"),
        (jf.sigmoid_poly_focal_loss, BINARY, {"epsilon": np.inf}, "epsilon must be finite, got epsilon = inf"),
        (jf.softmax_poly_focal_loss, BINARY[..., 0], {"epsilon": np.ones(5)}, "epsilon must broadcast"),
        (jf.asymmetric_loss, BINARY, {"clip": 1.0}, r"clip must be in \[0, 1\), got clip = 1.0"),
        (jf.asymmetric_loss, BINARY, {"gamma_neg": -1.0}, "gamma_neg must be >= 0 and finite, got gamma_neg = -1.0"),
    ],
)
def test_bad_input(loss, labels, options, message):
    with pytest.raises(ValueError, match=message):
        loss(LOGITS, labels, **options)


@pytest.mark.parametrize("label", [-1, 2])
@pytest.mark.parametrize("loss", [jf.asymmetric_loss, jf.sigmoid_focal_star_loss, jf.sigmoid_poly_focal_loss])
def test_traced_label_out_of_range_is_nan(loss, label):
    x, y = np.array([0.3, -0.2]), np.array([label, 1])
    np.testing.assert_array_equal(np.isnan(jax.jit(loss)(x, y)), [True, False])
    gradient = jax.jit(jax.grad(lambda x, y: loss(x, y).sum()))(x, y)
    np.testing.assert_array_equal(np.isnan(gradient), [True, False])
