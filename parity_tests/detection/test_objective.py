"""What the losses make of images without boxes, padding, bad boxes and labels, and other classification losses."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import jaxfocal as jf
from jaxfocal.detection import AnchorGenerator, RetinaNetOutputs, retinanet_loss
from jaxfocal.detection.heads import RetinaNetHead
from jaxfocal.detection.matcher import match_anchors
from parity_tests.detection.conftest import small_batch

FEATURE_SIZES = [(8, 12), (4, 6), (2, 3), (1, 2), (1, 1)]
ANCHORS = np.asarray(AnchorGenerator()((64, 96), FEATURE_SIZES, jnp.float64))
CLASSES = 4
RNG = np.random.default_rng(0)
OUTPUTS = RetinaNetOutputs(RNG.normal(-3, 2, (2, len(ANCHORS), CLASSES)), RNG.normal(size=(2, len(ANCHORS), 4)))


@partial(jax.jit, static_argnames=("box_loss", "classification_loss"))
def value_and_gradient(outputs, boxes, labels, valid, **options):
    def total(outputs):
        losses = retinanet_loss(outputs, ANCHORS, boxes, labels, valid, **options)
        return sum(losses.values()), losses

    (_, losses), gradients = jax.value_and_grad(total, has_aux=True)(outputs)
    return losses, gradients


def targets(**changes):
    batch = small_batch()
    return [changes.get(name, batch[name]) for name in ("boxes", "labels", "valid")]


def matches():
    boxes, _, valid = targets()
    return np.asarray(jax.vmap(match_anchors, (None, 0, 0))(ANCHORS, boxes, valid))


def test_an_image_without_boxes_learns_background():
    losses, gradients = value_and_gradient(OUTPUTS, *targets(valid=np.zeros((2, 5), bool)))
    background = jf.sigmoid_focal_loss(OUTPUTS.cls_logits, np.zeros(OUTPUTS.cls_logits.shape, int), alpha=0.25)
    np.testing.assert_allclose(losses["classification"], background.sum() / 2, rtol=1e-12)
    assert losses["bbox_regression"] == 0
    np.testing.assert_array_equal(gradients.bbox_regression, 0)
    assert (gradients.cls_logits > 0).all()
    no_rows = np.zeros((2, 0, 4)), np.zeros((2, 0), np.int32), np.zeros((2, 0), bool)
    np.testing.assert_allclose(value_and_gradient(OUTPUTS, *no_rows)[0]["classification"], losses["classification"])


@pytest.mark.parametrize("padding", [-1.0, 0.0, np.nan, 16.0])
def test_what_padding_holds_does_not_matter(padding):
    """Values and labels of rows that do not count, in loss and gradient."""
    boxes, labels, valid = targets()
    losses, gradients = value_and_gradient(OUTPUTS, boxes, labels, valid)
    padded = np.where(valid[..., None], boxes, padding), np.where(valid, labels, 10**6), valid
    others, other_gradients = value_and_gradient(OUTPUTS, *padded)
    jax.tree.map(np.testing.assert_array_equal, (losses, gradients), (others, other_gradients))


@pytest.mark.parametrize("box_loss", ["l1", "giou", "diou", "ciou"])
def test_gradients_are_finite_for_wild_predictions(box_loss):
    wild = RetinaNetOutputs(OUTPUTS.cls_logits * 1e3, OUTPUTS.bbox_regression * 100)
    losses, gradients = value_and_gradient(wild, *targets(), box_loss=box_loss)
    assert all(np.isfinite(loss) for loss in losses.values())
    assert all(np.isfinite(gradient).all() for gradient in gradients)


def test_the_prior_keeps_the_first_loss_small():
    """Without the bias of -log(99) it would begin hundreds of times as high."""
    head = RetinaNetHead(8, 9, CLASSES, rngs=nnx.Rngs(0))
    levels = [jnp.asarray(RNG.normal(size=(2, *size, 8)), jnp.float32) for size in FEATURE_SIZES]
    outputs = RetinaNetOutputs(*head(levels))
    np.testing.assert_allclose(jax.nn.sigmoid(outputs.cls_logits).mean(), 0.01, rtol=0.05)
    np.testing.assert_allclose(outputs.bbox_regression, 0, atol=0.05)
    for tower, start in ((head.classification_head, -np.log(99)), (head.regression_head, 0)):
        last = getattr(tower, tower.output)
        np.testing.assert_allclose(last.bias[...], start, rtol=1e-6)
        for layer in (last, tower.conv[0][0], tower.conv[3][0]):
            np.testing.assert_allclose(np.std(layer.kernel[...]), 0.01, rtol=0.15)
    first, _ = value_and_gradient(outputs, *targets())
    without, _ = value_and_gradient(outputs._replace(cls_logits=0 * outputs.cls_logits), *targets())
    assert first["classification"] < 2
    assert without["classification"] > 20 * first["classification"]


def ohem(logits, labels, *, where, normalizer):
    losses = jf.sigmoid_focal_loss(logits, labels, gamma=0.0, where=where).sum(-1)
    hard = jf.ohem_mask(losses, labels.max(-1), negative_ratio=3.0, where=where[:, 0])
    return jnp.sum(losses, where=hard) / jnp.maximum(normalizer, 1)


def of_classes(loss, **options):
    """A loss of one class an anchor: channel 0 is the background."""

    def classification_loss(logits, labels, *, where, normalizer):
        label = jnp.argmax(labels, -1)
        return loss(logits, label, where=where[:, 0], reduction="sum", normalizer=normalizer, **options)

    return classification_loss


def with_statistics(loss, state):
    """A loss that counts, at the start of its counts."""

    def classification_loss(logits, labels, **options):
        return loss(logits, labels, state, reduction="sum", **options)[0]

    return classification_loss


def of_labels(loss, **options):
    return partial(loss, reduction="sum", **options)


OTHER_LOSSES = {
    "cross-entropy": of_labels(jf.sigmoid_focal_loss, gamma=0.0),
    "balanced cross-entropy": of_labels(jf.sigmoid_focal_loss, gamma=0.0, alpha=0.25),
    "focal star": of_labels(jf.sigmoid_focal_star_loss),
    "poly focal": of_labels(jf.sigmoid_poly_focal_loss),
    "asymmetric": of_labels(jf.asymmetric_loss),
    "quality focal": of_labels(jf.quality_focal_loss),
    "varifocal": of_labels(jf.varifocal_loss),
    "gaussian focal": of_labels(jf.gaussian_focal_loss),
    "equalized focal": with_statistics(jf.equalized_focal_loss, jf.equalized_focal_init(CLASSES)),
    "GHM": with_statistics(jf.ghm_loss, jf.ghm_init()),
    "OHEM": ohem,
    "softmax focal": of_classes(jf.softmax_focal_loss),
    "softmax poly focal": of_classes(jf.softmax_poly_focal_loss),
    "LDAM": of_classes(jf.ldam_loss, counts=np.array([900.0, 10.0, 10.0, 5.0])),
}


@pytest.mark.parametrize("loss", OTHER_LOSSES.values(), ids=OTHER_LOSSES)
def test_other_classification_losses(loss):
    """Each sees the logits, labels and ignored anchors of one image, and the number of its positive anchors."""
    boxes, labels, valid = targets()
    losses, gradients = value_and_gradient(OUTPUTS, boxes, labels, valid, classification_loss=loss)
    expected = []
    for i, matched in enumerate(matches()):
        one_hot = np.zeros((len(ANCHORS), CLASSES), np.int8)
        one_hot[matched >= 0, labels[i][matched[matched >= 0]]] = 1
        where, count = (matched != -2)[:, None], (matched >= 0).sum()
        expected.append(jax.jit(loss)(OUTPUTS.cls_logits[i], one_hot, where=where, normalizer=count))
    np.testing.assert_allclose(losses["classification"], np.mean(expected), rtol=1e-12)
    assert np.isfinite(gradients.cls_logits).all()
    assert (gradients.cls_logits[0][matches()[0] == -2] == 0).all()
    assert (gradients.cls_logits[0][matches()[0] >= 0] != 0).any()


def test_gamma_zero_is_cross_entropy():
    """Written out in numpy, with logits far in the tails: value and gradient."""
    logits = OUTPUTS.cls_logits * np.where(RNG.random(OUTPUTS.cls_logits.shape) < 0.1, 200, 1)
    boxes, labels, valid = targets()
    losses, gradients = value_and_gradient(
        OUTPUTS._replace(cls_logits=logits), boxes, labels, valid, classification_loss=OTHER_LOSSES["cross-entropy"]
    )
    value, gradient = [], []
    for x, label, matched in zip(logits, labels, matches(), strict=True):
        y = (matched[:, None] >= 0) & (label[matched][:, None] == np.arange(CLASSES))
        share = (matched != -2)[:, None] / max((matched >= 0).sum(), 1)
        value.append(((np.logaddexp(0, x) - x * y) * share).sum())
        gradient.append((0.5 * (1 + np.tanh(x / 2)) - y) * share / 2)
    np.testing.assert_allclose(losses["classification"], np.mean(value), rtol=1e-12)
    np.testing.assert_allclose(gradients.cls_logits, gradient, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "boxes",
            [30.0, 30.0, 10.0, 60.0],
            r"x1 < x2 and y1 < y2, .* got box \[30.0, 30.0, 10.0, 60.0\] .* row 1",
        ),
        ("boxes", [30.0, 30.0, 30.0, 60.0], "x1 < x2 and y1 < y2"),
        ("boxes", [np.nan, 3.0, 30.0, 60.0], "must be finite"),
        ("labels", CLASSES, rf"labels in \[0, {CLASSES}\), got box .* with label {CLASSES} at row 1 of image 0"),
        ("labels", -1, "with label -1"),
    ],
)
def test_bad_boxes_and_labels(name, value, message):
    """An error where they can be seen; where they are traced, NaN in losses and gradients."""
    boxes, labels, valid = targets()
    {"boxes": boxes, "labels": labels}[name][0, 1] = value
    with pytest.raises(ValueError, match=message):
        retinanet_loss(OUTPUTS, ANCHORS, boxes, labels, valid)
    losses, gradients = value_and_gradient(OUTPUTS, boxes, labels, valid)
    assert all(np.isnan(loss) for loss in losses.values())
    assert np.isnan(gradients.cls_logits[0]).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"anchors": ANCHORS[:-9]},
            r"anchors must have shape \(1161, 4\), one for each row of the outputs, got",
        ),
        ({"boxes": np.zeros((3, 5, 4))}, r"boxes must have shape \(2, rows, 4\), as there are images, got \(3, 5, 4\)"),
        ({"boxes": np.zeros((2, 5, 4), int)}, "boxes must be floating point, got dtype int64"),
        ({"labels": np.zeros((2, 5))}, r"labels must be integers of shape \(2, 5\), got float64"),
        ({"valid": np.zeros((2, 4), bool)}, r"valid must be bool of shape \(2, 5\), got bool \(2, 4\)"),
        ({"box_loss": "iou"}, "box_loss must be one of l1, smooth_l1, giou, diou, ciou, got 'iou'"),
        ({"outputs": OUTPUTS._replace(bbox_regression=np.zeros((2, 3, 4)))}, "bbox_regression must have shape"),
    ],
)
def test_bad_shapes(change, message):
    boxes, labels, valid = targets()
    good = {"outputs": OUTPUTS, "anchors": ANCHORS, "boxes": boxes, "labels": labels, "valid": valid}
    with pytest.raises(ValueError, match=message):
        retinanet_loss(**(good | change))
