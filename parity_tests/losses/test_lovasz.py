"""What is special to the Lovász losses, and what their peer computes."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest

import jaxfocal as jf

REPORTS = json.loads((Path(__file__).parents[1] / "data" / "public_reports.json").read_text())["cases"]
RNG = np.random.default_rng(0)
LOGITS, LABELS = RNG.normal(scale=2, size=(3, 4, 5, 6)), RNG.integers(0, 4, (3, 5, 6))  # classes along axis 1
BINARY_LOGITS, BINARY = RNG.normal(scale=2, size=(3, 5, 6)), RNG.integers(0, 2, (3, 5, 6))


def value_and_gradient(loss, x):
    def total(x):
        value = loss(x)
        return value.sum(), value

    gradient, value = jax.jit(jax.grad(total, has_aux=True))(x)
    return np.asarray(value), np.asarray(gradient)


def jaccard_losses(predicted, labels, classes):
    return [1 - np.sum((predicted == c) & (labels == c)) / np.sum((predicted == c) | (labels == c)) for c in classes]


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
def test_public_report(jit):
    """All-zero logits, three classes of which one is absent: (1/3 + 1/3 + 1) / 3 would be with sorted labels."""
    (case,) = (case for case in REPORTS if case["id"] == "lovasz-softmax-values")
    assert case["logits"] == "zeros of shape (1, 2, 2, 3), class axis last"
    logits, labels = np.zeros((1, 2, 2, 3), case["dtype"]), np.array(case["labels"])

    def loss(x, y):
        return jf.lovasz_softmax_loss(x, y, **case["kwargs"])

    value = (jax.jit(loss) if jit else loss)(logits, labels)
    np.testing.assert_allclose(value, [case["loss"]], rtol=case["rtol"], atol=case["atol"])


def test_right_or_wrong_predictions_cost_one_less_the_intersection_over_union():
    """The extension meets the Jaccard loss itself where every probability is 0 or 1; hinge errors are then 0 or 2."""
    predicted = np.random.default_rng(1).integers(0, 4, LABELS.shape)
    logits = 1e4 * np.eye(4)[predicted]
    losses = [jaccard_losses(p, y, range(4)) for p, y in zip(predicted, LABELS, strict=True)]
    np.testing.assert_allclose(jf.lovasz_softmax_loss(logits, LABELS), np.mean(losses, axis=1), rtol=1e-14)

    binary = predicted % 2
    losses = [jaccard_losses(p, y, [1])[0] for p, y in zip(binary, BINARY, strict=True)]
    np.testing.assert_allclose(jf.lovasz_hinge_loss(2.0 * binary - 1, BINARY), 2 * np.array(losses), rtol=1e-14)


def test_absent_classes():
    """They are left out, or cost their largest probability; a class that only dropped pixels have is absent."""
    logits, labels = LOGITS[:1, :3], LABELS[:1] % 2  # no pixel of class 2
    dropped = labels.copy()
    dropped[0, 0, :2] = 2
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    for y, where, kept in ((labels, None, p[0, 2]), (dropped, dropped != 2, p[0, 2][dropped[0] != 2])):
        present = jf.lovasz_softmax_loss(logits, y, axis=1, where=where)
        every = jf.lovasz_softmax_loss(logits, y, axis=1, where=where, classes="all")
        np.testing.assert_allclose(every, (2 * present + kept.max()) / 3, rtol=1e-14)


def test_written_gradients():
    """The formulas of the docstrings, with the Jaccard losses of prefixes by counting."""

    def slopes(errors, foreground):
        order = np.argsort(-errors)
        found, i = np.cumsum(foreground[order]), np.arange(1, errors.size + 1)
        jaccard = 1 - (foreground.sum() - found) / (foreground.sum() + i - found)
        result = np.empty(errors.size)
        result[order] = np.diff(jaccard, prepend=0)
        return result

    logits = LOGITS[0].reshape(4, -1).T
    labels = LABELS[0].ravel()
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    foreground = labels[:, None] == np.arange(4)
    signs = np.where(foreground, -1, 1)
    by_p = np.stack([s * slopes(e, f) for s, e, f in zip(signs.T, np.abs(foreground - p).T, foreground.T, strict=True)])
    formula = np.einsum("cp,pcj->pj", by_p, p[..., None] * (np.eye(4) - p[:, None, :])) / 4
    gradient = value_and_gradient(lambda x: jf.lovasz_softmax_loss(x, labels[None]), logits[None])[1]
    np.testing.assert_allclose(gradient[0], formula, rtol=1e-10, atol=1e-15)

    x, y = BINARY_LOGITS[0].ravel(), BINARY[0].ravel()
    errors = 1 - x * (2 * y - 1)
    formula = np.where(errors > 0, (1 - 2 * y) * slopes(errors, y), 0)
    gradient = value_and_gradient(lambda x: jf.lovasz_hinge_loss(x, y[None]), x[None])[1]
    np.testing.assert_allclose(gradient[0], formula, rtol=1e-12, atol=1e-15)


def test_errors_that_round_to_one_keep_their_order():
    """Float32, errors of 1 - 1e-12 and 1 - 1e-9: the smaller miss comes first in float64, and so it does here."""
    logits, labels = np.array([[[0, 20.75], [0, 27.625], [0, -1]]]), np.array([[0, 0, 1]])
    right = value_and_gradient(lambda x: jf.lovasz_softmax_loss(x, labels), logits)[1]
    got = value_and_gradient(lambda x: jf.lovasz_softmax_loss(x, labels), logits.astype(np.float32))[1]
    np.testing.assert_allclose(got, right, rtol=1e-6)


@pytest.mark.parametrize("label", [-1, 2, 255])
def test_traced_binary_label_out_of_range_is_nan_in_its_image(label):
    labels = BINARY.copy()
    labels[1, 2, 3] = label
    value_of = jax.jit(jf.lovasz_hinge_loss)  # which traces the labels too
    value, gradient = value_and_gradient(lambda x: value_of(x, labels), BINARY_LOGITS)
    np.testing.assert_array_equal(np.isnan(value), [False, True, False])
    np.testing.assert_array_equal(np.isnan(gradient).all(axis=(1, 2)), [False, True, False])
    assert np.isfinite(gradient[[0, 2]]).all()


def test_bad_input():
    with pytest.raises(ValueError, match="classes must be one of present, all, got 'some'"):
        jf.lovasz_softmax_loss(LOGITS, LABELS, axis=1, classes="some")
    with pytest.raises(ValueError, match="labels must be integer classes, got dtype float64"):
        jf.lovasz_softmax_loss(LOGITS, np.full(LOGITS.shape, 0.25), axis=1)
    with pytest.raises(ValueError, match="labels must be bool or integer, got dtype float64"):
        jf.lovasz_hinge_loss(BINARY_LOGITS, BINARY.astype(float))
    with pytest.raises(ValueError, match="logits must have images along axis 0, got a scalar"):
        jf.lovasz_hinge_loss(1.0, 1)


class TestKornia:
    """kornia averages over the images, and over all classes."""

    @pytest.fixture
    def torch(self):
        return pytest.importorskip("torch", reason="compares with PyTorch libraries")

    @pytest.fixture
    def kornia(self):
        return pytest.importorskip("kornia.losses", reason="compares with kornia")

    def test_softmax(self, torch, kornia):
        x = torch.tensor(LOGITS, requires_grad=True)
        loss = kornia.lovasz_softmax_loss(x, torch.tensor(LABELS))
        loss.backward()
        options = {"classes": "all", "axis": 1, "reduction": "mean"}
        value, gradient = value_and_gradient(lambda x: jf.lovasz_softmax_loss(x, LABELS, **options), LOGITS)
        np.testing.assert_allclose(value, loss.item(), rtol=1e-13)
        np.testing.assert_allclose(gradient, x.grad, rtol=1e-11, atol=1e-16)

    def test_hinge(self, torch, kornia):
        x = torch.tensor(BINARY_LOGITS[:, None], requires_grad=True)
        loss = kornia.lovasz_hinge_loss(x, torch.tensor(BINARY))
        loss.backward()
        options = {"reduction": "mean"}
        value, gradient = value_and_gradient(lambda x: jf.lovasz_hinge_loss(x, BINARY, **options), BINARY_LOGITS)
        np.testing.assert_allclose(value, loss.item(), rtol=1e-13)
        np.testing.assert_allclose(gradient[:, None], x.grad, rtol=1e-11, atol=1e-16)

    def test_a_large_image_in_float32(self, torch, kornia):
        """256 by 256 pixels: kornia subtracts neighbouring Jaccard losses; half its gradient is off by over 1e-4.

        Ours writes the difference out. Where two errors round to the same number their slopes may be swapped, which is
        the largest error that is left.
        """
        rng = np.random.default_rng(0)
        logits = rng.normal(size=(1, 2, 256, 256)).astype(np.float32)
        labels = (rng.uniform(size=(1, 256, 256)) < 0.3).astype(int)
        gradient_of = jax.jit(jax.grad(lambda x: jf.lovasz_softmax_loss(x, labels, classes="all", axis=1).sum()))
        right = np.asarray(gradient_of(np.float64(logits)))
        x = torch.tensor(logits, requires_grad=True)
        kornia.lovasz_softmax_loss(x, torch.tensor(labels)).backward()
        ours, theirs = (np.abs(gradient - right) for gradient in (np.float64(gradient_of(logits)), x.grad.numpy()))
        assert np.median(ours / np.abs(right)) < 2.0**-22
        assert ours.max() < 1e-4 * np.abs(right).max()
        assert np.median(theirs / np.abs(right)) > 1e-4
