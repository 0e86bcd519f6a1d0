"""Anchors get exactly the boxes that torchvision gives them; padding and boxes outside the image get none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxfocal.detection.anchors import AnchorGenerator
from jaxfocal.detection.matcher import match_anchors

HEIGHT, WIDTH = 160, 224
ANCHORS = np.asarray(
    AnchorGenerator()((HEIGHT, WIDTH), [(-(-HEIGHT // s), -(-WIDTH // s)) for s in (8, 16, 32, 64, 128)])
)
match = jax.jit(match_anchors)


def ground_truth(kind, seed, count=12):
    rng = np.random.default_rng(seed)
    if kind == "ties":  # as anchors lie, and between them: many overlaps are equal
        boxes = ANCHORS[rng.integers(0, len(ANCHORS), count)] + rng.choice([0, 4, 8], (count, 1))
        return np.concatenate([boxes, boxes[:3]])
    corner = rng.uniform(0, 150, (count, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(2, 120, (count, 2))], axis=1).astype(np.float32)
    return np.round(boxes) if kind == "integer" else boxes


def torch_matches(boxes, dtype):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    from torchvision.models.detection._utils import Matcher
    from torchvision.ops import box_iou

    iou = box_iou(torch.tensor(boxes.astype(dtype)), torch.tensor(ANCHORS.astype(dtype)))
    return Matcher(0.5, 0.4, allow_low_quality_matches=True)(iou).numpy()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["fractional", "integer", "ties"])
def test_matches_are_torchvisions(kind, dtype):
    for seed in range(8):
        boxes = ground_truth(kind, seed)
        theirs = torch_matches(boxes, dtype)
        padded = np.concatenate([boxes, np.full((20 - len(boxes), 4), -1)])
        ours = match(ANCHORS.astype(dtype), padded.astype(dtype), np.arange(20) < len(boxes))
        np.testing.assert_array_equal(ours, theirs)
        assert {-2, -1} < set(theirs.tolist())


def test_low_quality_matches_go_to_the_anchors_own_best_box():
    """An anchor that is the nearest of a far box, but overlaps another one more, gets that other."""
    anchors = jnp.array([[0.0, 0.0, 10.0, 10.0], [20.0, 0.0, 30.0, 10.0]])
    boxes = jnp.array([[0.0, 0.0, 10.0, 4.0], [9.0, 9.0, 12.0, 12.0]])
    np.testing.assert_array_equal(match_anchors(anchors, boxes, jnp.array([True, True])), [0, -1])
    np.testing.assert_array_equal(match_anchors(anchors, boxes, jnp.array([False, True])), [1, -1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_thresholds_themselves(dtype):
    """IoU 1 and 1/2 match, 2/5 is ignored, less is background: the first is the box's nearest, the others are not."""
    boxes = np.array([[0, 0, 10, 5]], dtype)
    anchors = np.array([[0, 0, 10, bottom] for bottom in (5, 10, 10.5, 12.5, 13)], dtype)
    np.testing.assert_array_equal(match_anchors(anchors, boxes, jnp.array([True])), [0, 0, -2, -2, -1])


@pytest.mark.parametrize("padding", [-1.0, 0.0, 16.0, np.nan, np.inf])
def test_padding_matches_nothing(padding):
    boxes = ground_truth("fractional", 3, 5)
    padded = np.concatenate([np.full((2, 4), padding, np.float32), boxes, ANCHORS[:1]])
    valid = np.array([False] * 2 + [True] * 5 + [False])
    alone = np.asarray(match(ANCHORS, boxes, np.ones(5, bool)))
    np.testing.assert_array_equal(match(ANCHORS, padded, valid), np.where(alone >= 0, alone + 2, alone))


def test_an_image_without_boxes_is_background():
    np.testing.assert_array_equal(match(ANCHORS, ANCHORS[:3], np.zeros(3, bool)), -1)
    np.testing.assert_array_equal(match(ANCHORS, np.zeros((0, 4), np.float32), np.zeros(0, bool)), -1)


@pytest.mark.parametrize("box", [[900, 900, 990, 990], [30, 30, 30, 60], [60, 60, 30, 30], [np.nan, 0, 9, 9]])
def test_a_box_that_overlaps_nothing_matches_nothing(box):
    """In torchvision the first makes a positive of every anchor that overlaps nothing."""
    np.testing.assert_array_equal(match(ANCHORS, np.array([box], np.float32), np.array([True])), -1)


def test_vmap_is_the_loop():
    boxes = np.stack([ground_truth("integer", seed) for seed in range(3)])
    valid = np.arange(12) < np.array([[12], [4], [0]])
    batched = jax.vmap(match_anchors, (None, 0, 0))(ANCHORS, boxes, valid)
    np.testing.assert_array_equal(batched, [match(ANCHORS, b, v) for b, v in zip(boxes, valid, strict=True)])


def test_500_boxes_at_800x1344_take_less_than_200_megabytes():
    """The matrix of all IoUs alone would take 403."""
    shapes = ((201_600, 4), np.float32), ((500, 4), np.float32), ((500,), np.bool_)
    compiled = jax.jit(match_anchors).lower(*(jax.ShapeDtypeStruct(*shape) for shape in shapes)).compile()
    memory = compiled.memory_analysis()
    assert 0 < memory.temp_size_in_bytes + memory.output_size_in_bytes + memory.argument_size_in_bytes < 200e6


def test_it_has_no_gradient():
    boxes = jnp.asarray(ground_truth("integer", 0))
    gradient = jax.grad(lambda boxes: match_anchors(ANCHORS, boxes, jnp.ones(12, bool)).astype(float).sum())(boxes)
    np.testing.assert_array_equal(gradient, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"boxes": jnp.zeros((2, 3, 4))}, r"boxes must have shape \(n, 4\), got shape \(2, 3, 4\); use jax.vmap"),
        ({"boxes": jnp.zeros((2, 5))}, r"boxes must hold x1, y1, x2, y2"),
        ({"valid": jnp.ones(3, bool)}, r"valid must be bool of shape \(2,\), as boxes has rows, got bool \(3,\)"),
        ({"valid": jnp.ones(2)}, r"valid must be bool of shape \(2,\), as boxes has rows, got float64"),
        ({"background_iou": 0.6}, "must hold, got 0.6 and 0.5"),
    ],
)
def test_bad_input(options, message):
    arguments = {"anchors": jnp.asarray(ANCHORS[:9]), "boxes": jnp.zeros((2, 4)), "valid": jnp.ones(2, bool)} | options
    with pytest.raises(ValueError, match=message):
        match_anchors(**arguments)
