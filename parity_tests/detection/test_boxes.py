"""Areas, overlaps and the losses of overlaps, against torchvision's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxfocal.detection.boxes import box_area, box_iou, ciou_loss, clip_boxes, diou_loss, giou_loss, pairwise_iou
from jaxfocal.detection.coder import MAX_LOG_SCALE, decode_boxes, encode_boxes

LOSSES = {"giou": giou_loss, "diou": diou_loss, "ciou": ciou_loss}


def random_boxes(count, seed, dtype=np.float64, size=300.0):
    rng = np.random.default_rng(seed)
    corner = rng.uniform(-20, size, (count, 2))
    return np.concatenate([corner, corner + rng.uniform(1, size / 2, (count, 2))], axis=1).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("whole", [False, True])
def test_pairwise_iou_is_bit_for_bit_torchvision(dtype, whole):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    from torchvision.ops import box_iou as theirs

    a, b = random_boxes(300, 0, dtype), random_boxes(400, 1, dtype)
    if whole:
        a, b = np.round(a), np.round(b)
    ours = jax.jit(pairwise_iou)(a, b)
    assert ours.dtype == dtype
    np.testing.assert_array_equal(ours, theirs(torch.tensor(a), torch.tensor(b)).numpy())


def test_boxes_without_area():
    nothing = jnp.array([[3.0, 3.0, 3.0, 3.0], [5.0, 1.0, 2.0, 4.0]])
    box = jnp.array([[0.0, 0.0, 10.0, 10.0]])
    np.testing.assert_array_equal(box_area(nothing), 0)
    np.testing.assert_array_equal(pairwise_iou(nothing, jnp.concatenate([nothing, box])), 0)
    assert np.isnan(box_iou(box[0], jnp.full(4, jnp.nan)))


@pytest.mark.parametrize("name", LOSSES)
def test_losses_and_gradients_are_torchvisions(name):
    """Random pairs, pairs apart, one inside the other, and equal ones."""
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    import torchvision.ops as ops

    theirs = {
        "giou": ops.generalized_box_iou_loss,
        "diou": ops.distance_box_iou_loss,
        "ciou": ops.complete_box_iou_loss,
    }
    a, b = random_boxes(200, 2), random_boxes(200, 3)
    a[:20] = b[:20] + [1, 1, -1, -1] * np.minimum(0.2, (b[:20, 2:3] - b[:20, :1]) / 4)
    a[20:40] += 1000
    x, y = torch.tensor(a, requires_grad=True), torch.tensor(b, requires_grad=True)
    value = theirs[name](x, y)
    value.sum().backward()
    np.testing.assert_allclose(LOSSES[name](a, b), value.detach().numpy(), rtol=1e-12, atol=1e-12)
    gradients = jax.jit(jax.grad(lambda a, b: LOSSES[name](a, b).sum(), argnums=(0, 1)))(a, b)
    np.testing.assert_allclose(gradients[0], x.grad.numpy(), rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(gradients[1], y.grad.numpy(), rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("name", LOSSES)
def test_losses_of_equal_and_of_flat_boxes_have_finite_gradients(name):
    box = jnp.array([[2.0, 3.0, 9.0, 11.0]])
    flat = jnp.array([[2.0, 3.0, 2.0, 11.0], [2.0, 3.0, 9.0, 3.0], [2.0, 3.0, 2.0, 3.0]])
    np.testing.assert_allclose(LOSSES[name](box, box), 0, atol=1e-6)
    for other in (box, flat):
        assert np.isfinite(jax.grad(lambda b: LOSSES[name](b, box).sum())(other)).all()


def test_coder_is_torchvisions():
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    from torchvision.models.detection._utils import BoxCoder

    coder = BoxCoder((1.0, 1.0, 1.0, 1.0))
    anchors, boxes = random_boxes(300, 4), random_boxes(300, 5)
    deltas = np.random.default_rng(6).normal(0, 3, (300, 4))
    assert (deltas[:, 2:] > MAX_LOG_SCALE).any()
    encoded = coder.encode_single(torch.tensor(boxes), torch.tensor(anchors)).numpy()
    decoded = coder.decode_single(torch.tensor(deltas), torch.tensor(anchors)).numpy()
    np.testing.assert_allclose(jax.jit(encode_boxes)(boxes, anchors), encoded, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(jax.jit(decode_boxes)(deltas, anchors), decoded, rtol=1e-12, atol=1e-9)
    within = (encoded[:, 2:] < MAX_LOG_SCALE).all(axis=1)
    back = decode_boxes(encode_boxes(boxes, anchors), anchors)
    np.testing.assert_allclose(back[within], boxes[within], rtol=1e-10, atol=1e-10)


def test_clipped_boxes_lie_in_the_image():
    clipped = clip_boxes(jnp.array(random_boxes(50, 7)), 100, 200)
    assert (clipped >= 0).all()
    assert (clipped[:, 0::2] <= 200).all()
    assert (clipped[:, 1::2] <= 100).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: box_area(jnp.zeros((3, 5))), r"boxes must hold x1, y1, x2, y2 .* got shape \(3, 5\)"),
        (lambda: box_iou(jnp.zeros(4), jnp.zeros(3)), r"boxes2 must hold .* got shape \(3,\)"),
        (lambda: giou_loss(jnp.zeros(4, int), jnp.zeros(4)), "boxes1 must be floating point, got dtype int64"),
        (lambda: decode_boxes(jnp.zeros(4), jnp.zeros(2)), r"anchors must hold .* got shape \(2,\)"),
    ],
)
def test_bad_boxes(call, message):
    with pytest.raises(ValueError, match=message):
        call()
