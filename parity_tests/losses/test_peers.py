"""Libraries in wide use compute the same where they are right, and where they are not we do not follow them."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from mpmath import mp

import jaxfocal as jf
from parity_tests.cases import CASES
from parity_tests.cases.softmax import CLASS_WEIGHTS

torch = pytest.importorskip("torch", reason="compares with PyTorch and torchvision")
F = torch.nn.functional
import torchvision  # noqa: E402

EXACT = {case.id: case.exact for case in CASES}


def value_and_gradient(loss, x):
    x = torch.tensor(x, requires_grad=True)
    value = loss(x)
    value.sum().backward()
    return value.detach().numpy(), x.grad.numpy()


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
@pytest.mark.parametrize(("alpha", "torchvision_alpha"), [(0.25, 0.25), (None, -1)])
def test_torchvision_sigmoid_focal_loss(gamma, alpha, torchvision_alpha, reduction):
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(scale=2, size=(30,)), rng.integers(0, 2, 30).astype(float)

    def theirs(x):
        return torchvision.ops.sigmoid_focal_loss(
            x, torch.tensor(labels), alpha=torchvision_alpha, gamma=gamma, reduction=reduction
        )

    def ours(x):
        return jf.sigmoid_focal_loss(x, labels, gamma=gamma, alpha=alpha, reduction=reduction)

    value, gradient = value_and_gradient(theirs, logits)
    np.testing.assert_allclose(ours(logits), value, rtol=1e-12)
    np.testing.assert_allclose(jax.grad(lambda x: ours(x).sum())(logits), gradient, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("labels_kind", ["integer", "ignored", "soft"])
def test_torch_cross_entropy(labels_kind, weighted, smoothing, reduction):
    """With gamma=0 everything is torch.nn.functional.cross_entropy: weights, smoothing, ignored labels, the mean."""
    rng = np.random.default_rng(0)
    logits = rng.normal(scale=2, size=(6, 5, 3))
    labels = (
        rng.dirichlet(np.ones(5), size=(6, 3)).swapaxes(1, 2) if labels_kind == "soft" else rng.integers(0, 5, (6, 3))
    )
    if labels_kind == "ignored":
        labels[::2, 1] = -100
    ignored = {"ignore_index": -100} if labels_kind == "ignored" else {}

    def theirs(x):
        weight = torch.tensor(CLASS_WEIGHTS) if weighted else None
        return F.cross_entropy(
            x, torch.tensor(labels), weight=weight, label_smoothing=smoothing, reduction=reduction, **ignored
        )

    def ours(x):
        return jf.softmax_focal_loss(
            x,
            labels,
            gamma=0.0,
            class_weights=CLASS_WEIGHTS if weighted else None,
            label_smoothing=smoothing,
            reduction=reduction,
            axis=1,
            **ignored,
        )

    value, gradient = value_and_gradient(theirs, logits)
    np.testing.assert_allclose(ours(logits), value, rtol=1e-12)
    np.testing.assert_allclose(jax.grad(lambda x: ours(x).sum())(logits), gradient, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("soft", [False, True])
def test_optax_sigmoid_focal_loss(soft):
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(scale=2, size=30), rng.integers(0, 2, 30).astype(float)
    labels = rng.uniform(size=30) if soft else labels
    with jax.numpy_dtype_promotion("standard"):  # optax does not pass the strict mode
        theirs = optax.losses.sigmoid_focal_loss(jnp.asarray(logits), jnp.asarray(labels), alpha=0.25, gamma=2.0)
    np.testing.assert_allclose(jf.sigmoid_focal_loss(logits, labels, gamma=2.0, alpha=0.25), theirs, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("label", [0, 1])
def test_low_precision_is_no_worse_than_torchvision(label, dtype):
    """The worst relative error over logits from -30 to 30, of the value and of the gradient."""

    def theirs(x):
        return torchvision.ops.sigmoid_focal_loss(x, torch.full_like(x, label), alpha=0.25, gamma=2.0)

    def ours(x):
        return jf.sigmoid_focal_loss(x, jnp.full(x.shape, label), gamma=2.0, alpha=0.25)

    def exact(x):
        return EXACT["sigmoid_focal"](x, label, gamma=2.0, alpha=0.25)

    points = torch.linspace(-30, 30, 121).to(getattr(torch, dtype))
    x = jnp.asarray(points.double().numpy(), dtype)
    with mp.workdps(60):
        right = [float(exact(v)) for v in points.tolist()], [float(mp.diff(exact, v)) for v in points.tolist()]

    def worst(results):
        errors = []
        for got, expected in zip(results, map(np.array, right), strict=True):
            normal = np.abs(expected) > float(jnp.finfo(dtype).smallest_normal)
            errors.append(np.abs(got - expected)[normal] / np.abs(expected)[normal])
        return np.nan_to_num(np.concatenate(errors), nan=np.inf).max()

    peer = points.clone().requires_grad_()
    loss = theirs(peer)
    loss.sum().backward()
    peer_error = worst((loss.detach().double().numpy(), peer.grad.double().numpy()))
    our_error = worst((np.float64(ours(x)), np.float64(jax.grad(lambda x: ours(x).sum())(x))))
    assert our_error <= peer_error
    assert our_error <= max(float(jnp.finfo(dtype).eps), 4 * 2.0**-23 * (1 + 3 * 30))
