"""The gradient formulas that the literature and our docstrings write, against what both frameworks compute."""

import jax
import numpy as np
import pytest

import jaxfocal as jf

torch = pytest.importorskip("torch", reason="compares with PyTorch")
import torchref  # noqa: E402

GAMMAS = [0.0, 0.5, 1.0, 2.0, 5.0]
RNG = np.random.default_rng(0)
ROWS, LABELS = RNG.normal(scale=2, size=(6, 4)), np.array([0, 1, 2, 3, 0, 2])
P = np.exp(ROWS) / np.exp(ROWS).sum(-1, keepdims=True)
ONE_HOT = np.eye(4)[LABELS]
P_T = P[np.arange(6), LABELS][:, None]


def torch_gradient(loss, x):
    x = torch.tensor(x, requires_grad=True)
    loss(x).sum().backward()
    return x.grad.numpy()


def assert_both_equal(formula, jax_gradient, torch_gradient):
    np.testing.assert_allclose(jax_gradient, formula, rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(torch_gradient, formula, rtol=1e-11, atol=1e-14)


def test_softmax_jacobian():
    """dp_i/dx_j = p_i ([i = j] - p_j)."""
    formula = P[:, :, None] * (np.eye(4) - P[:, None, :])
    ours = jax.vmap(jax.jacobian(jax.nn.softmax))(ROWS)
    theirs = torch.stack(
        [torch.autograd.functional.jacobian(lambda x: x.softmax(-1), row) for row in torch.tensor(ROWS)]
    )
    assert_both_equal(formula, ours, theirs)


def test_cross_entropy():
    """dCE/dx_j = p_j - [j = t]."""
    ours = jax.grad(lambda x: jf.softmax_focal_loss(x, LABELS, gamma=0.0).sum())(ROWS)
    theirs = torch_gradient(
        lambda x: torch.nn.functional.cross_entropy(x, torch.tensor(LABELS), reduction="none"), ROWS
    )
    assert_both_equal(P - ONE_HOT, ours, theirs)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_focal_chain_rule(gamma):
    """dFL/dx_j = dFL/dp_t dp_t/dx_j, with dFL/dp_t = gamma (1 - p_t)^(gamma - 1) log p_t - (1 - p_t)^gamma / p_t."""
    by_p_t = gamma * (1 - P_T) ** (gamma - 1) * np.log(P_T) - (1 - P_T) ** gamma / P_T
    ours = jax.grad(lambda x: jf.softmax_focal_loss(x, LABELS, gamma=gamma).sum())(ROWS)
    theirs = torch_gradient(lambda x: torchref.softmax_focal_loss(x, torch.tensor(LABELS), gamma=gamma), ROWS)
    assert_both_equal(by_p_t * P_T * (ONE_HOT - P), ours, theirs)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_softmax_focal_in_closed_form(gamma):
    """dFL/dx_j = (1 - p_t)^gamma (1 - gamma p_t log p_t / (1 - p_t)) (p_j - [j = t])."""
    formula = (1 - P_T) ** gamma * (1 - gamma * P_T * np.log(P_T) / (1 - P_T)) * (P - ONE_HOT)
    ours = jax.grad(lambda x: jf.softmax_focal_loss(x, LABELS, gamma=gamma).sum())(ROWS)
    theirs = torch_gradient(lambda x: torchref.softmax_focal_loss(x, torch.tensor(LABELS), gamma=gamma), ROWS)
    assert_both_equal(formula, ours, theirs)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_sigmoid_focal_in_closed_form(gamma):
    """dFL/dx = +-alpha_t (1 - p_t)^gamma (gamma p_t log p_t + p_t - 1), + for y = 1."""
    x, y = ROWS.ravel(), np.arange(24) % 2
    sign, alpha_t = 2 * y - 1, np.where(y == 1, 0.25, 0.75)
    p_t = 1 / (1 + np.exp(-sign * x))
    formula = sign * alpha_t * (1 - p_t) ** gamma * (gamma * p_t * np.log(p_t) + p_t - 1)
    ours = jax.grad(lambda x: jf.sigmoid_focal_loss(x, y, gamma=gamma, alpha=0.25).sum())(x)
    theirs = torch_gradient(lambda x: torchref.sigmoid_focal_loss(x, torch.tensor(y), gamma=gamma, alpha=0.25), x)
    assert_both_equal(formula, ours, theirs)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_margin_rule(gamma):
    """dFL/dz = -q^gamma (q + gamma p s), and dFL/dgamma = q^gamma s log q."""
    z = np.linspace(-6, 6, 13)
    p, q, s = 1 / (1 + np.exp(-z)), 1 / (1 + np.exp(z)), np.log1p(np.exp(-z))
    by_z, by_gamma = -(q**gamma) * (q + gamma * p * s), q**gamma * s * np.log(q)
    labels = np.ones(13, int)
    ours = jax.grad(lambda x, g: jf.sigmoid_focal_loss(x, labels, gamma=g).sum(), argnums=(0, 1))(z, gamma)
    x, g = torch.tensor(z, requires_grad=True), torch.tensor(gamma, dtype=torch.float64, requires_grad=True)
    torchref.sigmoid_focal_loss(x, torch.tensor(labels), gamma=g).sum().backward()
    assert_both_equal(by_z, ours[0], x.grad.numpy())
    assert_both_equal(by_gamma.sum(), ours[1], g.grad.numpy())
