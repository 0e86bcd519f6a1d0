"""MONAI and kornia compute the same losses of regions where they are right."""

import jax
import numpy as np
import pytest

import jaxfocal as jf

torch = pytest.importorskip("torch", reason="compares with PyTorch libraries")
kornia_losses = pytest.importorskip("kornia.losses", reason="compares with kornia")
monai_losses = pytest.importorskip("monai.losses", reason="compares with MONAI")

RNG = np.random.default_rng(0)
LOGITS, LABELS = RNG.normal(scale=2, size=(3, 4, 5, 6)), RNG.integers(0, 4, (3, 5, 6))  # classes along axis 1
IGNORED = LABELS.copy()
IGNORED[0, 0], IGNORED[1, :, 3], IGNORED[2, 1, 1] = 255, 255, 255
WEIGHTS = np.array([0.2, 1.0, 3.0, 0.5])
MONAI = {"softmax": True, "to_onehot_y": True, "reduction": "none"}
by_ignored = pytest.mark.parametrize(
    ("labels", "ignored"), [(LABELS, {}), (IGNORED, {"ignore_index": 255})], ids=["all", "ignored"]
)


def peer(loss, x):
    x = torch.tensor(x, requires_grad=True)
    value = loss(x)
    value.sum().backward()
    return value.detach().numpy(), x.grad.numpy()


def ours(loss, x):
    def total(x):
        value = loss(x)
        return value.sum(), value

    gradient, value = jax.jit(jax.grad(total, has_aux=True))(x)
    return np.asarray(value), np.asarray(gradient)


def assert_same(ours, theirs, rtol=1e-11):
    for got, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(got, expected, rtol=rtol, atol=rtol * np.abs(expected).max())


@by_ignored
@pytest.mark.parametrize("class_weights", [None, WEIGHTS, np.array([0.0, 1.0, 1.0, 1.0])], ids=str)
def test_monai_dice(class_weights, labels, ignored):
    """MONAI weighs the classes and divides by their number, not by the sum of their weights."""
    y = torch.tensor(labels)[:, None]
    w = torch.ones(4) if class_weights is None else torch.tensor(class_weights)
    monai = monai_losses.DiceLoss(weight=w, **MONAI, **ignored)
    theirs = peer(lambda x: monai(x, y).flatten(1).sum(1) / w.sum(), LOGITS)
    assert_same(ours(lambda x: jf.dice_loss(x, labels, class_weights=class_weights, axis=1, **ignored), LOGITS), theirs)


def test_monai_dice_without_background():
    y = torch.tensor(LABELS)[:, None]
    monai = monai_losses.DiceLoss(include_background=False, **MONAI)
    theirs = peer(lambda x: monai(x, y).flatten(1).mean(1), LOGITS)
    assert_same(ours(lambda x: jf.dice_loss(x, LABELS, class_weights=[0.0, 1, 1, 1], axis=1), LOGITS), theirs)


def test_monai_dice_of_soft_labels():
    """Soft counts of expectations: MONAI's with ``soft_label=False``."""
    soft = RNG.dirichlet(np.ones(4), size=LABELS.shape).transpose(0, 3, 1, 2)
    monai = monai_losses.DiceLoss(softmax=True, reduction="none")
    theirs = peer(lambda x: monai(x, torch.tensor(soft)).flatten(1).mean(1), LOGITS)
    assert_same(ours(lambda x: jf.dice_loss(x, soft, axis=1), LOGITS), theirs)


@by_ignored
def test_tversky(labels, ignored):
    """kornia's with eps=0, and all classes labelled: it leaves out those that are not, and smooths one side only."""
    y, options = torch.tensor(labels), {"alpha": 0.2, "beta": 0.9}
    assert all(set(range(4)) <= set(np.unique(image)) for image in labels)
    monai = monai_losses.TverskyLoss(**options, **MONAI, **ignored)
    theirs = peer(lambda x: monai(x, y[:, None]).mean(1), LOGITS)
    assert_same(ours(lambda x: jf.tversky_loss(x, labels, axis=1, **options, **ignored), LOGITS), theirs)

    def kornia(x):
        of_images = [kornia_losses.tversky_loss(x[b : b + 1], y[b : b + 1], 0.2, 0.9, 0.0, 255) for b in range(3)]
        return torch.stack(of_images)

    expected = ours(lambda x: jf.tversky_loss(x, labels, smooth=0.0, axis=1, **options, **ignored), LOGITS)
    assert_same(expected, peer(kornia, LOGITS))


def test_kornia_dice():
    y, w = torch.tensor(LABELS), torch.tensor(WEIGHTS)
    theirs = peer(lambda x: kornia_losses.dice_loss(x, y, average="macro", eps=0.0, weight=w), LOGITS)
    options = {"class_weights": WEIGHTS, "smooth": 0.0, "reduction": "mean", "axis": 1}
    assert_same(ours(lambda x: jf.dice_loss(x, LABELS, **options), LOGITS), theirs)


def test_dice_of_a_prediction_that_is_nearly_right():
    """All pixels right by a logit of 20, float32: the loss is 2.061e-9. MONAI forms ``1 - dice``, which is 0 there."""
    logits, labels = np.array([[[20, 0, 0, 20], [0, 20, 20, 0]]], np.float32), np.array([[0, 1, 1, 0]])
    value, _ = ours(lambda x: jf.dice_loss(x, labels, axis=1), logits)
    wrong = 1 / (1 + np.exp(20.0))  # of each pixel: FP = FN = 2 wrong
    np.testing.assert_allclose(value, 4 * wrong / (4 + 1e-5), rtol=1e-6)
    monai = monai_losses.DiceLoss(**MONAI)
    assert not np.any(peer(lambda x: monai(x, torch.tensor(labels)[:, None]), logits)[0])


def test_dice_of_a_class_that_is_nowhere():
    """Without smoothing, a class neither labelled nor predicted costs 0; MONAI gives NaN, in its gradient too."""
    logits, labels = np.array([[[1e4, 0], [0, 1e4], [0, 0]]]), np.array([[0, 1]])
    value, gradient = ours(lambda x: jf.dice_loss(x, labels, smooth=0.0, axis=1), logits)
    assert value == 0
    assert not np.any(gradient)
    monai = monai_losses.DiceLoss(smooth_nr=0.0, smooth_dr=0.0, **MONAI)
    assert all(np.isnan(result).any() for result in peer(lambda x: monai(x, torch.tensor(labels)[:, None]), logits))


class TestUnifiedFocalLoss:
    """MONAI's is of two classes and of probabilities (its documentation says logits).

    The regions' term is the same. That of the pixels MONAI averages over both classes too, and over the ignored pixels:
    half the paper's with all pixels kept, a quarter with half of them. The authors' program sums over the classes.
    """

    LOGITS = RNG.normal(scale=2, size=(1, 2, 5, 6))
    LABELS = RNG.integers(0, 2, (1, 5, 6))
    HALF_IGNORED = np.where(np.arange(6) < 3, 255, LABELS)
    OPTIONS = (("delta", 0.7), ("gamma", 0.4))

    @pytest.mark.parametrize("labels", [LABELS, HALF_IGNORED], ids=["all", "half ignored"])
    @pytest.mark.parametrize("ce_weight", [0.0, 0.3, 1.0])
    def test_monai(self, ce_weight, labels):
        ignored = {"ignore_index": 255} if 255 in labels else {}

        def monai(x, ce_weight):
            loss = monai_losses.AsymmetricUnifiedFocalLoss(
                to_onehot_y=True, weight=ce_weight, **dict(self.OPTIONS), **ignored
            )
            return loss(x.softmax(1), torch.tensor(labels)[:, None])

        def paper(x):
            share_of_pixels = (labels != 255).mean()
            return monai(x, 1.0) * ce_weight * 2 / share_of_pixels + monai(x, 0.0) * (1 - ce_weight)

        def jaxfocal(x):
            options = {**dict(self.OPTIONS), "ce_weight": ce_weight, "smooth": 1e-7, **ignored}
            return jf.unified_focal_loss(x, labels, axis=1, reduction="mean", **options)

        expected = ours(jaxfocal, self.LOGITS)
        assert_same(expected, peer(paper, self.LOGITS), 1e-6)  # MONAI clips its probabilities at 1e-7
        if ce_weight > 0:
            wrong, _ = peer(lambda x: monai(x, ce_weight), self.LOGITS)
            assert wrong < 0.95 * expected[0]
